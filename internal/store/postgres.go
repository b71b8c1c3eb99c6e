package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

// schema holds our tables, so that a database can be shared with others.
const schema = "perdure"

const (
	// migrateLimit bounds the wait for other processes that are migrating.
	migrateLimit = 2 * time.Minute
	// queryLimit bounds a query, and lockLimit the wait for another Change, which may
	// ask a token endpoint.
	queryLimit = 10 * time.Second
	lockLimit  = time.Minute
	// maxConns is the most connections, unless the address has pool_max_conns. A Change
	// holds one while it asks a token endpoint.
	maxConns = 16
)

// Postgres keeps grants in PostgreSQL, for any number of processes.
type Postgres struct {
	pool *pgxpool.Pool
	keys *Keys
	log  *slog.Logger
	stop context.CancelFunc
}

var _ Grants = (*Postgres)(nil)

// OpenPostgres connects to the database at a URL, or as libpq's keywords say,
// and brings its tables up to date, in the schema perdure. No error contains the
// password. A nil logger discards.
func OpenPostgres(ctx context.Context, address string, keys *Keys, logger *slog.Logger) (*Postgres, error) {
	pool, _, err := migrated(ctx, address)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &Postgres{pool: pool, keys: keys, log: orDiscard(logger), stop: stop}
	go every(ctx, pruneEvery, p.prune)
	return p, nil
}

// AttachPostgres uses the database at an address as it is, to read and write values
// only: it connects when needed, and changes no table.
func AttachPostgres(ctx context.Context, address string) (*Postgres, error) {
	pool, err := connect(ctx, address)
	if err != nil {
		return nil, err
	}
	return &Postgres{pool: pool, log: orDiscard(nil), stop: func() {}}, nil
}

// Migrate brings the tables of the database at an address up to date, as
// OpenPostgres does, and gives their version.
func Migrate(ctx context.Context, address string) (version int64, err error) {
	pool, version, err := migrated(ctx, address)
	if err != nil {
		return 0, err
	}
	pool.Close()
	return version, nil
}

// An Inspection is what a database has.
type Inspection struct {
	Version, Latest int64     // of its tables, and of those that this program makes; 0 = none
	Now             time.Time // by its clock
	Values          int64     // of runs
	ValueBytes      int64     // total
	Published       []string  // names of composite tools
}

// valuesSince is the first version of the tables with values.
const valuesSince = 3

// Inspect reads what the database at an address has, and changes nothing.
func Inspect(ctx context.Context, address string) (found Inspection, err error) {
	pool, err := connect(ctx, address)
	if err != nil {
		return found, err
	}
	defer pool.Close()
	if err = pool.QueryRow(ctx, "select now()").Scan(&found.Now); err != nil {
		return found, fmt.Errorf("connecting to the database: %w", err)
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	provider, err := newProvider(db)
	if err != nil {
		return found, err
	}
	sources := provider.ListSources()
	found.Latest = sources[len(sources)-1].Version
	var table *string
	const versions = schema + "." + goose.DefaultTablename // Goose would make it
	if err = pool.QueryRow(ctx, "select to_regclass($1)::text", versions).Scan(&table); err != nil || table == nil {
		return found, err
	}
	if err = pool.QueryRow(ctx, "select coalesce(max(version_id), 0) from "+versions).Scan(&found.Version); err != nil || found.Version < valuesSince {
		return found, err
	}
	if err = pool.QueryRow(ctx, "select coalesce(array_agg(distinct name), '{}') from "+schema+".published").Scan(&found.Published); err != nil {
		return found, err
	}
	err = pool.QueryRow(ctx, "select count(*), coalesce(sum(octet_length(data)), 0) from "+schema+".run_values").Scan(&found.Values, &found.ValueBytes)
	return found, err
}

// WriteAndRead writes a row in the database at an address, reads it back, and leaves
// nothing behind.
func WriteAndRead(ctx context.Context, address string) error {
	pool, err := connect(ctx, address)
	if err != nil {
		return err
	}
	defer pool.Close()
	tx, err := pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("connecting to the database: %w", err)
	}
	defer func() { _ = tx.Rollback(ctx) }() // on purpose
	const row = "perdure doctor"
	var read string
	if _, err = tx.Exec(ctx, "insert into "+schema+".run_values (id, run, data) values ($1, $1, '')", row); err == nil {
		err = tx.QueryRow(ctx, "select run from "+schema+".run_values where id = $1", row).Scan(&read)
	}
	if err != nil || read != row {
		return fmt.Errorf("the database does not keep what is written: %w", err)
	}
	return nil
}

// migrated connects to a database and brings its tables up to date.
func migrated(ctx context.Context, address string) (*pgxpool.Pool, int64, error) {
	pool, err := connect(ctx, address)
	if err != nil {
		return nil, 0, err
	}
	version, err := migrate(ctx, pool)
	if err != nil {
		pool.Close()
		return nil, 0, fmt.Errorf("bringing the tables of the database up to date: %w", err)
	}
	return pool, version, nil
}

// connect makes a pool of connections that connects when needed.
func connect(ctx context.Context, address string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("invalid database URL: %s", unreadable(err))
	}
	if !strings.Contains(address, "pool_max_conns") {
		config.MaxConns = maxConns
	}
	config.ConnConfig.RuntimeParams["search_path"] = schema
	config.ConnConfig.RuntimeParams["application_name"] = "perdure"
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		if now, err := pgx.ParseConfig(address); err == nil { // its files may have changed
			c.Password, c.TLSConfig, c.Fallbacks = now.Password, now.TLSConfig, now.Fallbacks
		}
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the database: %w", err)
	}
	return pool, nil
}

// unreadable reports a mistake in an address without repeating it: if it is no URL, pgx
// shows it with the password.
func unreadable(err error) string {
	var parse *url.Error
	if errors.As(err, &parse) {
		return parse.Err.Error()
	}
	return "use postgres://USER:PASSWORD@HOST:PORT/DATABASE"
}

// migrate brings the tables up to date, and gives their version. Processes that start
// at the same time wait for each other.
func migrate(ctx context.Context, pool *pgxpool.Pool) (version int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, migrateLimit)
	defer cancel()
	if err := makeSchema(ctx, pool); err != nil {
		return 0, err
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	provider, err := newProvider(db)
	if err != nil {
		return 0, err
	}
	if _, err = provider.Up(ctx); err != nil {
		return 0, err
	}
	return provider.GetDBVersion(ctx)
}

// newProvider makes the provider of the migrations.
func newProvider(db *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithSessionLocker(locker), goose.WithSlog(slog.New(slog.DiscardHandler)))
}

// makeSchema makes the schema if there is none, also if others do at the same time.
func makeSchema(ctx context.Context, pool *pgxpool.Pool) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock(hashtext('perdure schema'))"); err != nil {
			return err
		}
		var made bool // which a user who may not make one can use
		if err := tx.QueryRow(ctx, "select to_regnamespace($1) is not null", schema).Scan(&made); err != nil || made {
			return err
		}
		_, err := tx.Exec(ctx, "create schema "+schema)
		return err
	})
}

// Probe begins a transaction that could write, and writes no row; an error says why that
// fails.
func (p *Postgres) Probe(ctx context.Context) error {
	const nothing = "insert into run_values (id, run, data) select '', '', '' where false"
	if _, err := p.pool.Exec(ctx, "with none as ("+nothing+") select txid_current()"); err != nil {
		return fmt.Errorf("the database takes no writes: %w", err)
	}
	return nil
}

// Close implements Grants.
func (p *Postgres) Close() {
	p.stop()
	p.pool.Close()
}

// A row is a grant in the database.
type row struct {
	keyID   string
	sealed  []byte
	expires *time.Time
	wanted  bool
}

const columns = "key_id, sealed, expires, wanted"

func (r *row) fields() []any { return []any{&r.keyID, &r.sealed, &r.expires, &r.wanted} }

// grant opens a row.
func (p *Postgres) grant(key Key, r row) Grant {
	g := Grant{Wanted: r.wanted}
	if r.expires != nil {
		g.Expires = r.expires.UTC()
	}
	return p.keys.grant(p.log, key, r.keyID, r.sealed, g)
}

// Get implements Grants.
func (p *Postgres) Get(ctx context.Context, key Key) (Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, queryLimit)
	defer cancel()
	var r row
	err := p.pool.QueryRow(ctx, "select "+columns+" from grants where caller = $1 and backend = $2",
		key.Caller, key.Backend).Scan(r.fields()...)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Grant{}, nil
	case err != nil:
		return Grant{}, fmt.Errorf("reading the store: %w", err)
	}
	return p.grant(key, r), nil
}

// Change implements Grants. It locks the row while f works; for a key without one, it
// makes an empty row first.
func (p *Postgres) Change(ctx context.Context, key Key, f func(context.Context, Grant) (Grant, error)) error {
	ctx, cancel := context.WithTimeout(ctx, lockLimit)
	defer cancel()
	var refused error // f's own, which must not be wrapped
	err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "insert into grants (caller, backend) values ($1, $2) on conflict do nothing",
			key.Caller, key.Backend); err != nil {
			return err
		}
		var r row
		if err := tx.QueryRow(ctx, "select "+columns+" from grants where caller = $1 and backend = $2 for update",
			key.Caller, key.Backend).Scan(r.fields()...); err != nil {
			return err
		}
		now, err := f(ctx, p.grant(key, r))
		if err != nil {
			refused = err
			return err
		}
		return p.put(ctx, tx, key, now)
	})
	switch {
	case refused != nil:
		return refused
	case err != nil:
		return fmt.Errorf("writing to the store: %w", err)
	}
	return nil
}

func (p *Postgres) put(ctx context.Context, tx pgx.Tx, key Key, g Grant) error {
	if g.empty() {
		_, err := tx.Exec(ctx, "delete from grants where caller = $1 and backend = $2", key.Caller, key.Backend)
		return err
	}
	r := row{wanted: g.Wanted}
	if !g.Expires.IsZero() {
		r.expires = &g.Expires
	}
	if len(g.Secret) > 0 {
		r.keyID, r.sealed = p.keys.seal(key, g.Secret)
	}
	_, err := tx.Exec(ctx, `update grants set key_id = $3, sealed = $4, expires = $5, wanted = $6, changed = clock_timestamp()
		where caller = $1 and backend = $2`, key.Caller, key.Backend, r.keyID, r.sealed, r.expires, r.wanted)
	return err
}

// Latest implements Grants.
func (p *Postgres) Latest(ctx context.Context, backend string) (Key, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, queryLimit)
	defer cancel()
	rows, err := p.pool.Query(ctx, "select caller, "+columns+` from grants
		where backend = $1 and sealed is not null and (expires is null or expires > now())
		order by changed desc limit 10`, backend)
	if err != nil {
		return Key{}, false, fmt.Errorf("reading the store: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		key, r := Key{Backend: backend}, row{}
		if err := rows.Scan(append([]any{&key.Caller}, r.fields()...)...); err != nil {
			return Key{}, false, fmt.Errorf("reading the store: %w", err)
		}
		if p.grant(key, r).Secret != nil {
			return key, true, nil
		}
	}
	if err := rows.Err(); err != nil {
		return Key{}, false, fmt.Errorf("reading the store: %w", err)
	}
	return Key{}, false, nil
}

// Wanted implements Grants.
func (p *Postgres) Wanted(ctx context.Context, caller string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, queryLimit)
	defer cancel()
	rows, err := p.pool.Query(ctx, "select backend from grants where caller = $1 and wanted order by backend", caller)
	if err != nil {
		return nil, fmt.Errorf("reading the store: %w", err)
	}
	backends, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("reading the store: %w", err)
	}
	return backends, nil
}
