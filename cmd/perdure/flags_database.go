package main

import (
	"strings"

	"github.com/perdure/perdure/internal/config"
)

// databaseFlags say where processes share what callers leave for their runs, and
// what was published.
type databaseFlags struct {
	Database string `help:"PostgreSQL in which processes share published composite tools, and the credentials that callers leave for their runs, sealed with the key of --key-file: a URL, or keywords as libpq has them. Needed to publish, and where a backend has token_exchange or pass_through." env:"PERDURE_DATABASE_URL" placeholder:"URL"`
}

// check refuses what needs a database where none is named.
func (f databaseFlags) check(found *config.Loaded, largeValues bool) error {
	delegating := found.Delegating()
	switch {
	case f.Database != "":
		return nil
	case len(delegating) > 0:
		return usagef("credentials of callers are kept in PostgreSQL, for %s: say where it is by --database or PERDURE_DATABASE_URL", strings.Join(delegating, ", "))
	case largeValues:
		return usagef("large values are kept in PostgreSQL: say where it is by --database or PERDURE_DATABASE_URL")
	}
	return nil
}
