package store

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/perdure/perdure/internal/perduretest"
)

// TestFollowWithoutDatabase: an outage of the database is logged once, however often the
// registry is looked for.
func TestFollowWithoutDatabase(t *testing.T) {
	t.Parallel()
	pool := perduretest.Must(pgxpool.New(t.Context(), "postgres://perdure@127.0.0.1:1/perdure"))(t)
	t.Cleanup(pool.Close)
	var logged bytes.Buffer
	r := &postgresRegistry{Postgres: &Postgres{pool: pool, log: slog.New(slog.NewTextHandler(&logged, nil))}}
	ctx, cancel := context.WithTimeout(t.Context(), 2*relistenAfter+relistenAfter/2)
	defer cancel()
	began := time.Now()
	r.Follow(ctx, func() { t.Error("there is a registry") })
	if n := strings.Count(logged.String(), "cannot follow the registry"); n != 1 || time.Since(began) < 2*relistenAfter {
		t.Errorf("logged %d times:\n%s", n, logged.String())
	}
}
