package store

import (
	"context"
	"errors"
	"fmt"
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
		return fmt.Errorf("keeping a value of run %s: %w", run, err)
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
func (v postgresValues) Sweep(ctx context.Context, gone func(context.Context, string) (bool, error)) (int, error) {
	swept := 0
	for {
		taken, runs, err := v.due(ctx)
		if err != nil || len(runs) == 0 {
			return swept, err
		}
		for _, run := range runs {
			isGone, err := gone(ctx, run)
			if err != nil {
				return swept, err
			}
			if !isGone {
				continue
			}
			// What was put since belongs to another run of the same ID.
			if _, err := v.pool.Exec(ctx, "delete from run_values where run = $1 and checked <= $2", run, taken); err != nil {
				return swept, fmt.Errorf("deleting the values of run %s: %w", run, err)
			}
			swept++
		}
	}
}

func (v postgresValues) due(ctx context.Context) (taken time.Time, runs []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, valueLimit)
	defer cancel()
	err = pgx.BeginFunc(ctx, v.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `update run_values set checked = now() where id in (
				select id from run_values where run in (select distinct run from run_values where checked < now() - $1::interval limit $2)
				for update skip locked)
			returning run`, recheck, sweepBatch)
		if err != nil {
			return err
		}
		all, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		for _, run := range all {
			if !seen[run] {
				seen[run] = true
				runs = append(runs, run)
			}
		}
		return tx.QueryRow(ctx, "select now()").Scan(&taken)
	})
	if err != nil {
		return taken, nil, fmt.Errorf("looking for values of runs that are gone: %w", err)
	}
	return taken, runs, nil
}
