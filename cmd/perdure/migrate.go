package main

import (
	"context"
	"fmt"

	"github.com/perdure/perdure/internal/store"
)

type migrateCommand struct {
	Database string `help:"The PostgreSQL: a URL, or keywords as libpq has them." env:"PERDURE_DATABASE_URL" required:"" placeholder:"URL"`
}

func (migrateCommand) Help() string {
	return `Every process does it at its start as well. Done before, an upgrade that cannot
do it stops while the old processes still serve. Tables are only added to: those
of an older version go on. Example:

    perdure migrate --database postgres://perdure@db:5432/perdure`
}

func (m migrateCommand) Run(ctx context.Context, c *console) error {
	version, err := store.Migrate(ctx, m.Database)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "the tables are up to date: version %d\n", version)
	return err
}
