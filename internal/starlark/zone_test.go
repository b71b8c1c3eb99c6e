package starlark_test

import (
	"os"
	"testing"
	"time"
)

// TestMain runs all tests in a zone that is not UTC, of which scripts must not
// know.
func TestMain(m *testing.M) {
	time.Local = time.FixedZone("CEST", 2*60*60)
	os.Exit(m.Run())
}
