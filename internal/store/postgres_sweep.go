package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// SweepRuns implements Grants. Each process takes runs that no other has taken.
func (p *Postgres) SweepRuns(ctx context.Context, ended func(context.Context, string) (bool, error)) error {
	var failed error
	for {
		due, err := p.dueRuns(ctx)
		if err != nil || len(due) == 0 {
			return errors.Join(failed, err)
		}
		for _, key := range due {
			run, _ := runOf(key)
			over, err := ended(ctx, run)
			if err == nil && over {
				_, err = p.pool.Exec(ctx, "delete from grants where caller = $1 and backend = $2", key.Caller, key.Backend)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("sweeping what is kept for run %s: %w", run, err))
			}
		}
	}
}

// dueRuns takes keys of runs that must be looked at.
func (p *Postgres) dueRuns(ctx context.Context) ([]Key, error) {
	ctx, cancel := context.WithTimeout(ctx, queryLimit)
	defer cancel()
	rows, err := p.pool.Query(ctx, `update grants set changed = clock_timestamp() where (caller, backend) in (
			select caller, backend from grants where starts_with(backend, $1) and changed < now() - $2::interval
			limit $3 for update skip locked)
		returning caller, backend`, runPrefix, RunSweepEvery, sweepBatch)
	if err != nil {
		return nil, fmt.Errorf("reading the store: %w", err)
	}
	due, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Key])
	if err != nil {
		return nil, fmt.Errorf("reading the store: %w", err)
	}
	return due, nil
}

func (p *Postgres) prune(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err := p.pool.Exec(ctx, "delete from grants where (expires < now() and not wanted or changed < $1) and not starts_with(backend, $2)", time.Now().Add(-forgetAfter), runPrefix)
	if err != nil && ctx.Err() == nil {
		p.log.Warn("removing expired credentials from the store", "error", err)
	}
}
