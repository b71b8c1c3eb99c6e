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

// valueFlags say whether large values are kept outside of Temporal.
type valueFlags struct {
	LargeValues bool `help:"Keep what runs hold and is larger than 128 KB outside of Temporal, in the database of --database (dev: in --data), and let tools give up to 64 MB instead of 1.9. The same for all processes." env:"PERDURE_LARGE_VALUES"`
}

// valuesIn is where dev keeps large values.
func valuesIn(data string) string { return filepath.Join(data, "values") }

// keepFileValues has a client keep large values in the data directory of dev, if
// they are wanted; nil = they are not. What was kept
// there once is read for as long as it is there.
func (f valueFlags) keepFileValues(o *client.Options, data string) (store.Values, error) {
	if _, err := os.Stat(valuesIn(data)); err != nil && !f.LargeValues {
		return nil, nil
	}
	values, err := store.OpenFileValues(valuesIn(data))
	if err != nil {
		return nil, err
	}
	payloads.Keep(o, values)
	return values, nil
}

// readValues lets a command read large values, where there are any. What the
// client writes is not kept there, since workers may not look there; writing is
// for what they are known to find there. close ends both.
func readValues(ctx context.Context, database databaseFlags, data string, o *client.Options) (writing converter.DataConverter, close func(), err error) {
	values, close, err := findValues(ctx, database, data)
	if err == nil && values != nil {
		payloads.Fetch(o, values)
		writing, o.DataConverter = payloads.Writer(o.DataConverter, values), payloads.Reader(o.DataConverter, values)
	}
	return writing, close, err
}

// findValues finds large values: in the database, if there is one, which is
// connected to when one is needed, else in the data directory of dev; nil = there
// are none.
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
