package pgtest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/pgtest"
)

// TestStart runs two servers that know nothing of each other.
func TestStart(t *testing.T) {
	t.Parallel()
	for range 2 {
		s := pgtest.Start(t)
		c := perduretest.Must(pgx.Connect(t.Context(), s.URL("postgres")))(t)
		defer c.Close(t.Context())
		if _, err := c.Exec(t.Context(), "create database mine"); err != nil {
			t.Error(err)
		}
	}
}
