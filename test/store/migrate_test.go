package store_test

import (
	"strings"
	"testing"

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
