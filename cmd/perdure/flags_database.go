package main

import (
	"strings"

	"github.com/perdure/perdure/internal/config"
)

// databaseFlags name the database that processes share, for published versions,
// credentials that callers leave for their runs, and what backends listed last.
type databaseFlags struct {
	Database string `help:"PostgreSQL database that processes share, as a URL or libpq keywords: published composite tools, and, sealed with the key of --key-file, credentials that callers leave for their runs and the tools that backends listed last. Needed to publish, and if a backend has token_exchange or pass_through." env:"PERDURE_DATABASE_URL" placeholder:"URL"`
}

// check returns an error if the configuration needs a database and none is named.
func (f databaseFlags) check(found *config.Loaded, largeValues bool) error {
	keeps := found.KeepsForCallers()
	switch {
	case f.Database != "":
		return nil
	case len(keeps) > 0:
		return usagef("what %s keeps of callers is in PostgreSQL; set --database or PERDURE_DATABASE_URL", strings.Join(keeps, ", "))
	case largeValues:
		return usagef("large values are kept in PostgreSQL; set --database or PERDURE_DATABASE_URL")
	}
	return nil
}
