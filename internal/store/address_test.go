package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/perdure/perdure/internal/perduretest"
)

// TestFilesOfAnAddress: what the files have that an address names counts for the next
// connection.
func TestFilesOfAnAddress(t *testing.T) {
	t.Parallel()
	passwords := filepath.Join(t.TempDir(), "pass")
	write := func(text string) { perduretest.NoError(t, os.WriteFile(passwords, []byte(text), 0o600)) }
	write("h:5432:db:u:first\n")
	pool := perduretest.Must(connect(t.Context(), "postgres://u@h/db?sslmode=disable&passfile="+passwords))(t)
	defer pool.Close()
	password := func(of *pgxpool.Config) string {
		c := of.ConnConfig
		perduretest.NoError(t, of.BeforeConnect(t.Context(), c))
		return c.Password
	}
	if got := password(pool.Config()); got != "first" {
		t.Errorf("the password is %q", got)
	}
	write("h:5432:db:u:second\n")
	if got := password(pool.Config()); got != "second" {
		t.Errorf("the password is %q after the change", got)
	}
}
