package store

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// fixes are what helps against an error of PostgreSQL, by its SQLSTATE or the beginning of
// that. See https://www.postgresql.org/docs/current/errcodes-appendix.html.
var fixes = []struct{ state, fix string }{
	{"25006", "it is read-only, as a replica is, or one whose disk is full: name the primary in the URL, or let it be written; processes need no restart"},
	{"28", "check the user and the password of the URL; a changed password needs a restart of the processes, unless it is in the passfile of the URL"},
	{"3D000", "create the database that the URL names, or name another"},
	{"42501", "give the user of the URL permission for the database and its schema perdure; tables that are not up to date need perdure migrate as one who may make them"},
	{"53100", "free space on the disk of the database; processes need no restart"},
	{"53300", "end connections that nobody needs, or raise max_connections of the database; processes need no restart"},
	{"57P", "it starts or stops: wait, or look at its log; processes need no restart"},
}

// Fix says what helps against an error of the database.
func Fix(err error) string {
	var from *pgconn.PgError
	if !errors.As(err, &from) {
		return "start it; check the URL: host, port and TLS parameters, whose files are read for each connection"
	}
	for _, f := range fixes {
		if strings.HasPrefix(from.Code, f.state) {
			return f.fix
		}
	}
	return "look at the log of the database"
}
