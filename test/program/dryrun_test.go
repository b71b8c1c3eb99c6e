package program_test

import (
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

// TestDryRunPage holds the example of the documentation to what the script
// dryrun.txtar gets from the program.
func TestDryRunPage(t *testing.T) {
	t.Parallel()
	page := perduretest.Read(t, "../../docs/dry_run.md")
	script := perduretest.Read(t, "testdata/script/dryrun.txtar")
	_, plan, found := strings.Cut(string(script), "-- plan.txt --\n")
	if !found || !strings.Contains(string(page), "```text\n"+plan+"```\n") {
		t.Errorf("docs/dry_run.md does not show what the program prints:\n%s", plan)
	}
}
