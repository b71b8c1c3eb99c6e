package main

import (
	"context"
	"fmt"

	"github.com/perdure/perdure/internal/store"
)

type migrateCommand struct {
	Database string `help:"PostgreSQL database, as a URL or libpq keywords." env:"PERDURE_DATABASE_URL" required:"" placeholder:"URL"`
}

func (migrateCommand) Help() string {
	return `Every process does this at its start as well. Do it before an upgrade, so that a
failed migration is noticed while the old processes still serve. Migrations only
add to tables, so older processes continue to work. Example:

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
