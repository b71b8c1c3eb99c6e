// Package pgtest runs a PostgreSQL of the test's own, in a directory that is
// removed with it, from the programs that are installed (Debian: postgresql). No container
// and no running service is used. The addresses of other programs under test come
// from here as well.
package pgtest

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/test/topology"
)

// requireVar names what tests must not be skipped for the lack of, with commas.
const requireVar = "PERDURE_TEST_REQUIRE"

// Start runs a server until the test ends. Where PostgreSQL is not installed
// the test is skipped, or fails if PERDURE_TEST_REQUIRE says postgres.
func Start(t testing.TB) *topology.PostgreSQL {
	t.Helper()
	s, err := topology.NewPostgreSQL("")
	Check(t, err)
	t.Cleanup(func() { _ = s.Close() }) // what is left is in the directory for temporary files
	if err := s.StartReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// Check fails the test for an error of something that needs PostgreSQL, or skips
// it as Start does.
func Check(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, topology.ErrNoPostgreSQL) && !slices.Contains(strings.Split(os.Getenv(requireVar), ","), "postgres") {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// FreeAddress gives an address of this machine where nothing listens, for a
// program that the test starts. It gives none twice.
func FreeAddress() (string, error) { return topology.FreeAddress() }
