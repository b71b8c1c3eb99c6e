package service

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/store"
)

// sweepValues deletes the values of runs that Temporal does not keep any more,
// until ctx ends.
func (s *executor) sweepValues(ctx context.Context) {
	all := s.runs
	look := func(ctx context.Context, run string) (bool, string, error) {
		needed, parent, err := all.Needed(ctx, runs.RunID(run))
		return !needed, string(parent), err
	}
	tick := time.NewTicker(store.SweepEvery)
	defer tick.Stop()
	for {
		var swept int
		err := s.claim(ctx)
		if err == nil {
			swept, err = s.opts.Values.Sweep(ctx, look)
		}
		if err != nil && ctx.Err() == nil {
			s.opts.Logger.Warn("cannot delete large values of deleted runs yet", "error", fmt.Errorf("sweeping: %w", err))
		}
		if swept > 0 {
			s.opts.Logger.Info("deleted large values of deleted runs", "runs", swept)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// claim checks that the database is that of the namespace: what is kept for runs of
// another, which are not found here, must not be deleted.
func (s *shared) claim(ctx context.Context) error {
	db := s.database()
	if db == nil {
		return nil
	}
	id, err := s.runs.NamespaceID(ctx)
	if err != nil || id == "" {
		return err
	}
	return db.Claim(ctx, id)
}

// database is the one that processes share; nil = none.
func (s *shared) database() *store.Postgres {
	if s.opts.Database != nil {
		return s.opts.Database
	}
	return s.opts.ValuesIn
}
