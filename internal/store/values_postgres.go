package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgresValues keeps values in PostgreSQL.
type postgresValues struct{ *Postgres }

var _ Values = postgresValues{}

// Values are those in the database.
func (p *Postgres) Values() Values { return postgresValues{p} }

// Put implements Values.
func (v postgresValues) Put(ctx context.Context, id, run string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, valueLimit)
	defer cancel()
	_, err := v.pool.Exec(ctx, "insert into run_values (id, run, data) values ($1, $2, $3) on conflict (id) do update set checked = now()", id, run, data)
	if err != nil {
		return fmt.Errorf("storing a value of run %s: %w", run, err)
	}
	return nil
}

// Get implements Values.
func (v postgresValues) Get(ctx context.Context, id string) (data []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, valueLimit)
	defer cancel()
	err = v.pool.QueryRow(ctx, "select data from run_values where id = $1", id).Scan(&data)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNoValue
	}
	if err != nil {
		return nil, fmt.Errorf("reading a value: %w", err)
	}
	return data, nil
}

// Sweep implements Values. Each process takes runs that no other has taken.
func (v postgresValues) Sweep(ctx context.Context, look Look) (int, error) {
	swept := 0
	for {
		taken, parents, err := v.due(ctx)
		if err != nil || len(parents) == 0 {
			return swept, err
		}
		for _, run := range slices.Sorted(maps.Keys(parents)) {
			unneeded, parent, err := look.unneeded(ctx, run, parents[run])
			if err != nil {
				return swept, err
			}
			if err := v.settle(ctx, run, unneeded, parent, taken); err != nil {
				return swept, err
			}
			if unneeded {
				swept++
			}
		}
	}
}

// settle deletes the values of an unneeded run, or records its parent.
func (v postgresValues) settle(ctx context.Context, run string, unneeded bool, parent string, taken time.Time) (err error) {
	switch {
	case unneeded: // values put since belong to another run of the same ID
		_, err = v.pool.Exec(ctx, "delete from run_values where run = $1 and checked <= $2", run, taken)
	case parent != "":
		_, err = v.pool.Exec(ctx, "update run_values set parent = $2 where run = $1 and parent <> $2", run, parent)
	}
	if err != nil {
		return fmt.Errorf("deleting the values of run %s: %w", run, err)
	}
	return nil
}

// due takes the runs that must be looked at, and gives their parents.
func (v postgresValues) due(ctx context.Context) (taken time.Time, parents map[string]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, valueLimit)
	defer cancel()
	parents = map[string]string{}
	err = pgx.BeginFunc(ctx, v.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `update run_values set checked = now() where id in (
				select id from run_values where run in (select distinct run from run_values where checked < now() - $1::interval limit $2)
				for update skip locked)
			returning run, parent`, recheck, sweepBatch)
		if err != nil {
			return err
		}
		var run, parent string
		if _, err := pgx.ForEachRow(rows, []any{&run, &parent}, func() error {
			parents[run] = max(parents[run], parent) // values put since have none yet
			return nil
		}); err != nil {
			return err
		}
		return tx.QueryRow(ctx, "select now()").Scan(&taken)
	})
	if err != nil {
		return taken, nil, fmt.Errorf("finding values of deleted runs: %w", err)
	}
	return taken, parents, nil
}
