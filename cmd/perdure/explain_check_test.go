package main

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what tests find into their files")

// TestChecksPage holds docs/checks.md against what it is made of.
func TestChecksPage(t *testing.T) {
	t.Parallel()
	const file = "../../docs/checks.md"
	if *update {
		if err := os.WriteFile(file, []byte(checksPage()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(checksPage(), string(page)); diff != "" {
		t.Errorf("(-want +got, -update takes it over)\n%s", diff)
	}
}
