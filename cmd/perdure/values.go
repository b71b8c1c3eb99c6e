package main

import (
	"context"
	"os"
	"path/filepath"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/perdure/perdure/internal/payloads"
	"github.com/perdure/perdure/internal/store"
)

// valueFlags decide whether large values are kept outside Temporal.
type valueFlags struct {
	LargeValues bool `help:"Keep values of runs that are larger than 128 KB outside Temporal, in the database of --database (dev: in --data). Results of tools may then have up to 64 MB instead of 1.9 MB. Set it alike for all processes." env:"PERDURE_LARGE_VALUES"`
}

// valuesIn is the directory in which dev keeps large values.
func valuesIn(data string) string { return filepath.Join(data, "values") }

// fileValues are the large values in the data directory of dev; nil without --large-values.
// Values kept there earlier are always read.
func (f valueFlags) fileValues(data string) (store.Values, error) {
	if _, err := os.Stat(valuesIn(data)); err != nil && !f.LargeValues {
		return nil, nil
	}
	return store.OpenFileValues(valuesIn(data))
}

// readValues lets a command read large values, if there are any. The client itself
// writes no large values there, since workers may not read that place; writing is the
// converter for values that workers are known to find. close ends both.
func readValues(ctx context.Context, database databaseFlags, data string, o *client.Options) (writing converter.DataConverter, close func(), err error) {
	values, close, err := findValues(ctx, database, data)
	if err == nil && values != nil {
		payloads.Fetch(o, values)
		writing = payloads.Writer(o.DataConverter, values)
	}
	o.DataConverter = payloads.Reader(o.DataConverter, values)
	return writing, close, err
}

// findValues returns the store of large values: the database, connected to at first
// use, else the data directory of dev; nil if there is neither.
func findValues(ctx context.Context, database databaseFlags, data string) (_ store.Values, close func(), err error) {
	close = func() {}
	if database.Database != "" {
		db, err := store.AttachPostgres(ctx, database.Database)
		if err != nil {
			return nil, nil, err
		}
		return db.Values(), db.Close, nil
	}
	if _, err := os.Stat(valuesIn(data)); data == "" || err != nil {
		return nil, close, nil
	}
	values, err := store.OpenFileValues(valuesIn(data))
	return values, close, err
}
