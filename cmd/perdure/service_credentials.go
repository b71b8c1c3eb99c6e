package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/credentials"
	"github.com/perdure/perdure/internal/store"
)

// databaseFlags say where processes share what callers leave for their runs, and
// what was published.
type databaseFlags struct {
	Database string `help:"PostgreSQL in which processes share published composite tools, and the credentials that callers leave for their runs, sealed with the key of --key-file: a URL, or keywords as libpq has them. Needed to publish, and where a backend has token_exchange or pass_through." env:"PERDURE_DATABASE_URL" placeholder:"URL"`
}

const (
	databasePatience = 30 * time.Second // that a start waits for the database
	databasePause    = time.Second      // between two tries
)

// use opens the database, if there is one or has to be, for what is kept in it.
func (f databaseFlags) use(ctx context.Context, o *serviceOptions, k keys) error {
	delegating := o.Loaded.delegating()
	if f.Database == "" {
		if len(delegating) > 0 {
			return usagef("credentials of callers are kept in PostgreSQL, for %s: say where it is by --database or PERDURE_DATABASE_URL", strings.Join(delegating, ", "))
		}
		return nil
	}
	var sealing *store.Keys
	var err error
	if len(delegating) > 0 {
		if sealing, err = k.sealing(); err != nil {
			return err
		}
	}
	if o.Database, err = f.open(ctx, sealing, o.Logger); err != nil {
		return err
	}
	o.Published = o.Database.Registry()
	if len(delegating) > 0 {
		o.Grants = o.Database
	}
	return nil
}

// open opens the database, for which it waits a while.
func (f databaseFlags) open(ctx context.Context, sealing *store.Keys, log *slog.Logger) (*store.Postgres, error) {
	for until := time.Now().Add(databasePatience); ; {
		s, err := store.OpenPostgres(ctx, f.Database, sealing, log)
		if err == nil {
			return s, nil
		}
		if time.Now().After(until) || ctx.Err() != nil {
			return nil, err
		}
		log.Warn("the database cannot be used yet", "error", err)
		select {
		case <-time.After(databasePause):
		case <-ctx.Done():
		}
	}
}

// openFiles opens the store of a process by itself, in its data directory.
func (l *loaded) openFiles(data string, k keys, log *slog.Logger) (store.Grants, error) {
	if len(l.delegating()) == 0 {
		return nil, nil
	}
	sealing, err := k.sealing()
	if err != nil {
		return nil, err
	}
	return store.OpenFiles(filepath.Join(data, "grants"), sealing, log)
}

func (k keys) sealing() (*store.Keys, error) {
	return store.NewKeys(k.signing, k.retired...)
}

// delegating are the backends whose credentials come from callers, sorted.
func (l *loaded) delegating() []string {
	var names []string
	for name, s := range l.Outgoing {
		if s.PerCaller() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// newPool makes the backends and what has their credentials.
func newPool(o serviceOptions) (*backends.Pool, *credentials.Broker, error) {
	broker, err := credentials.New(credentials.Options{Strategies: o.Loaded.Outgoing, Grants: o.Grants, Logger: o.Logger})
	if err != nil {
		return nil, nil, fmt.Errorf("outgoingAuth: %w", err)
	}
	configs := slices.Clone(o.Loaded.Backends)
	for i := range configs {
		configs[i].Credentials = broker.For(configs[i].Name)
	}
	pool, err := backends.New(configs, o.Loaded.Aggregation, o.Logger)
	if err != nil {
		return nil, nil, err
	}
	broker.OnDeposit(pool.Wake) // the tools of some can be listed only now
	return pool, broker, nil
}
