package program_test

import (
	"os"
	"strings"
	"testing"
)

// TestDryRunPage holds the example of the documentation to what the script
// dryrun.txtar gets from the program.
func TestDryRunPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/dry_run.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("testdata/script/dryrun.txtar")
	if err != nil {
		t.Fatal(err)
	}
	_, plan, found := strings.Cut(string(script), "-- plan.txt --\n")
	if !found || !strings.Contains(string(page), "```text\n"+plan+"```\n") {
		t.Errorf("docs/dry_run.md does not show what the program prints:\n%s", plan)
	}
}
