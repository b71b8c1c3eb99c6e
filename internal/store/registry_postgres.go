package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// registryChannel notifies processes of each other's edits.
	registryChannel = "perdure_registry"
	// pollEvery is how often a process looks without a notification: a proxy may drop
	// them.
	pollEvery = 10 * time.Second
	// relistenAfter is the pause before listening again after the connection broke.
	relistenAfter = time.Second
)

// postgresRegistry keeps publications in PostgreSQL, for any number of processes.
type postgresRegistry struct {
	*Postgres
	// Edits wait here, so that each does not hold a connection.
	editing sync.Mutex
}

var _ Registry = (*postgresRegistry)(nil)

// Registry is the registry in the database.
func (p *Postgres) Registry() Registry { return &postgresRegistry{Postgres: p} }

// A querier is the pool, or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Versions implements Registry. It reads one snapshot, so that no version has changed
// after the last entry.
func (r *postgresRegistry) Versions(ctx context.Context, after Mark) (news News, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryLimit)
	defer cancel()
	err = pgx.BeginTxFunc(ctx, r.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		news, err = newsAfter(ctx, tx, after)
		return err
	})
	if err != nil {
		return News{}, fmt.Errorf("reading the registry: %w", err)
	}
	return news, nil
}

func newsAfter(ctx context.Context, q querier, after Mark) (news News, err error) {
	marks, err := q.Query(ctx, "select seq, at from registry_history where seq = $1 or seq = (select max(seq) from registry_history) order by seq", after.Seq)
	if err != nil {
		return News{}, err
	}
	var at Mark
	found := after == Mark{}
	if _, err := pgx.ForEachRow(marks, []any{&at.Seq, &at.At}, func() error {
		news.Last = Mark{at.Seq, at.At.UTC()}
		found = found || news.Last == after
		return nil
	}); err != nil || news.Last == after {
		return news, err
	}
	if !found {
		news.Anew, after = true, Mark{}
	}
	rows, err := q.Query(ctx, `select name, version, digest, source, lock, published_by, published_at, deprecated
		from published where changed > $1 order by name, published_at, version`, after.Seq)
	if err != nil {
		return News{}, err
	}
	news.Versions, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Version, error) {
		var v Version
		err := row.Scan(&v.Name, &v.Version, &v.Digest, &v.Source, &v.Lock, &v.By, &v.At, &v.Deprecated)
		v.At = v.At.UTC()
		return v, err
	})
	return news, err
}

// Edit implements Registry. Entries get their numbers under one lock, so that readers
// see them in order.
func (r *postgresRegistry) Edit(ctx context.Context, by string, after Mark, f func(News) ([]Edit, error)) error {
	ctx, cancel := context.WithTimeout(ctx, lockLimit)
	defer cancel()
	r.editing.Lock()
	defer r.editing.Unlock()
	var refused error // f's own, which must not be wrapped
	err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock(hashtext('perdure registry'))"); err != nil {
			return err
		}
		news, err := newsAfter(ctx, tx, after)
		if err != nil {
			return err
		}
		edits, err := f(news)
		if err != nil {
			refused = err
			return err
		}
		for _, e := range edits {
			if err := edit(ctx, tx, by, e); err != nil {
				return err
			}
		}
		if len(edits) == 0 {
			return nil
		}
		_, err = tx.Exec(ctx, "select pg_notify($1, '')", registryChannel)
		return err
	})
	switch {
	case refused != nil:
		return refused
	case err != nil:
		return fmt.Errorf("writing to the registry: %w", err)
	}
	return nil
}

func edit(ctx context.Context, tx pgx.Tx, by string, e Edit) error {
	v := e.Version
	var seq int64
	var at time.Time
	err := tx.QueryRow(ctx, `insert into registry_history (at, by, action, name, version, digest, note)
		values (clock_timestamp(), $1, $2, $3, $4, $5, $6) returning seq, at`,
		by, string(e.Action), v.Name, v.Version, v.Digest, e.Note).Scan(&seq, &at)
	if err != nil {
		return err
	}
	if e.Action == Published {
		_, err := tx.Exec(ctx, `insert into published (name, version, digest, source, lock, published_by, published_at, deprecated, changed)
			values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			v.Name, v.Version, v.Digest, v.Source, v.Lock, by, at, v.Deprecated, seq)
		return err
	}
	done, err := tx.Exec(ctx, "update published set deprecated = $3, changed = $4 where name = $1 and version = $2",
		v.Name, v.Version, v.Deprecated, seq)
	if err == nil && done.RowsAffected() != 1 {
		return fmt.Errorf("version %s of %s not found", v.Version, v.Name)
	}
	return err
}

// History implements Registry.
func (r *postgresRegistry) History(ctx context.Context, name string, limit int) ([]Event, error) {
	ctx, cancel := context.WithTimeout(ctx, queryLimit)
	defer cancel()
	rows, err := r.pool.Query(ctx, `select seq, at, by, action, name, version, digest, note from registry_history
		where $1 = '' or name = $1 order by seq desc limit $2`, name, limit)
	if err != nil {
		return nil, fmt.Errorf("reading the registry: %w", err)
	}
	events, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Event, error) {
		var e Event
		err := row.Scan(&e.Seq, &e.At, &e.By, &e.Action, &e.Name, &e.Version, &e.Digest, &e.Note)
		e.At = e.At.UTC()
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the registry: %w", err)
	}
	return events, nil
}

// Follow implements Registry, on a connection of its own. It logs each outage once, and its
// end.
func (r *postgresRegistry) Follow(ctx context.Context, f func()) {
	away := false
	begun := func() {
		if away {
			r.log.Warn("the registry is followed again")
		}
		away = false
	}
	for {
		err := r.listen(ctx, begun, f)
		if ctx.Err() != nil {
			return
		}
		if !away {
			r.log.Warn("cannot follow the registry; still serving the versions published before", "error", err)
		}
		away = true
		select {
		case <-time.After(relistenAfter):
		case <-ctx.Done():
			return
		}
	}
}

// listen calls begun once it listens, and then f after edits, and every pollEvery, until the
// connection breaks.
func (r *postgresRegistry) listen(ctx context.Context, begun, f func()) error {
	c, err := pgx.ConnectConfig(ctx, r.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	if _, err := c.Exec(ctx, "listen "+registryChannel); err != nil {
		return err
	}
	begun()
	for {
		f()
		if err := awaitNotification(ctx, c); err != nil {
			return err
		}
	}
}

// awaitNotification waits for a notification, or for pollEvery.
func awaitNotification(ctx context.Context, c *pgx.Conn) error {
	waiting, cancel := context.WithTimeout(ctx, pollEvery)
	defer cancel()
	_, err := c.WaitForNotification(waiting)
	if err == nil || ctx.Err() != nil || !errors.Is(waiting.Err(), context.DeadlineExceeded) {
		return err
	}
	return c.Ping(ctx) // the connection may have broken unnoticed
}
