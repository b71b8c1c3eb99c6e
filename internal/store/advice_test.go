package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/perdure/perdure/internal/store"
)

func TestFix(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"25006": "read-only", "28P01": "password", "3D000": "create the database", "42501": "permission", "53100": "disk",
		"53300": "max_connections", "57P03": "starts or stops", "XX000": "the log of the database",
	} {
		if fix := store.Fix(fmt.Errorf("connecting to the database: %w", &pgconn.PgError{Code: code})); !strings.Contains(fix, want) {
			t.Errorf("against %s helps: %s", code, fix)
		}
	}
	if fix := store.Fix(errors.New("connection refused")); !strings.Contains(fix, "start it") {
		t.Errorf("against no answer helps: %s", fix)
	}
}
