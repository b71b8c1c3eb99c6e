package main

import (
	"testing"
	"time"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/runs"
)

// TestRestOfABulkResumption: the command for the rest finds the same runs, but those that
// ended later, which may be ones that cannot be resumed.
func TestRestOfABulkResumption(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	early, late := noon.Add(-time.Hour), noon
	b := bulkResume{}
	b.Query, b.Address, b.Namespace, b.Unknown = "PerdureTool = 'order'", "temporal:7233", "shop", []string{"skip"}
	got := b.rest(earliest([]runs.Run{{Closed: &late}, {Closed: &early}, {Closed: &late}}))
	want := "perdure runs resume --address temporal:7233 --namespace shop --query " +
		view.ShellWord("(PerdureTool = 'order') AND CloseTime <= '2026-11-26T11:00:00Z'") + " --unknown skip"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
