package store_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/store"
	"github.com/perdure/perdure/test/pgtest"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	address := pgtest.Start(t).URL("postgres")
	first, err := store.Migrate(t.Context(), address)
	if err != nil || first < 1 {
		t.Fatalf("an empty database: version %d, %v", first, err)
	}
	if again, err := store.Migrate(t.Context(), address); err != nil || again != first {
		t.Errorf("once more: version %d, %v, want %d", again, err, first)
	}
	_, err = store.Migrate(t.Context(), "postgres://perdure:hunter2@127.0.0.1:1/x?connect_timeout=2")
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("nobody there: %v", err)
	}
}

// TestUserOfTables: a process needs no more of tables that are up to date than to read and
// write them, and is told when that is taken away.
func TestUserOfTables(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	if _, err := store.Migrate(t.Context(), server.URL("postgres")); err != nil {
		t.Fatal(err)
	}
	c := perduretest.Must(pgx.Connect(t.Context(), server.URL("postgres")))(t)
	t.Cleanup(func() { c.Close(context.Background()) })
	run := func(statement string) {
		t.Helper()
		if _, err := c.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	run("create role clerk login")
	run("grant usage on schema perdure to clerk")
	run("grant select, insert, update, delete on all tables in schema perdure to clerk")
	p := perduretest.Must(store.OpenPostgres(t.Context(), strings.Replace(server.URL("postgres"), "perdure@", "clerk@", 1), nil, testLogger(t)))(t)
	t.Cleanup(p.Close)
	if err := p.Probe(t.Context()); err != nil {
		t.Errorf("with all that it needs: %v", err)
	}
	run("revoke insert on perdure.run_values from clerk")
	if err := p.Probe(t.Context()); err == nil || !strings.Contains(store.Fix(err), "permission") {
		t.Errorf("without the right to write: %v", err)
	}
	run("grant insert on perdure.run_values to clerk")
	run("alter role clerk set default_transaction_read_only = on")
	run("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'clerk'")
	var err error
	for range 20 { // connections of before are found to be gone
		if err = p.Probe(t.Context()); strings.Contains(store.Fix(err), "read-only") {
			return
		}
	}
	t.Errorf("read-only: %v", err)
}
