package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/internal/perduretest"
)

// TestChecksPage holds docs/checks.md against what it is made of.
func TestChecksPage(t *testing.T) {
	t.Parallel()
	const file = "../../docs/checks.md"
	if *perduretest.Update {
		perduretest.NoError(t, os.WriteFile(file, []byte(checksPage()), 0o644))
	}
	page := perduretest.Read(t, file)
	if diff := cmp.Diff(checksPage(), string(page)); diff != "" {
		t.Errorf("(-want +got, -update takes it over)\n%s", diff)
	}
}
