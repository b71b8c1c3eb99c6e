package runs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Errors that differ only in what differs from run to run have the same cause, and
// others have another one.
func TestGroupByCause(t *testing.T) {
	t.Parallel()
	run := func(id RunID, step, message string) Run {
		return Run{ID: id, Error: &Error{Message: message, StepPath: StepPath(step), RunID: string(id)}}
	}
	list := []Run{
		run("a/k3v9a2m4qx", "pay[17]", `step pay[17]: no field "totl" in order 4711 of run a/k3v9a2m4qx at 2026-11-24T10:00:00Z`),
		run("a/7v9a2m4qxk", "pay[3]", `step pay[3]: no field "totl" in order 12.50 of run a/7v9a2m4qxk at 2026-11-25T11:10:00.5Z`),
		run("a/3v9a2m4qxk", "pay[3]", `step pay[3]: item "total" of order 12 of run a/3v9a2m4qxk at 2026-11-25T11:10:00Z`),
		run("a/2v9a2m4qxk", "ship", `step ship: item 3f2504e0-4f89-41d3-9a0c-0305e82c3301 (called by b/aaaaaaaaaaaa) has hash 9f8e7d6c5b4a`),
		run("a/4v9a2m4qxk", "ship", `step ship: item 3f2504e0-4f89-41d3-9a0c-0305e82c3302 (called by c/bbbbbbbbbbbb) has hash 1a2b3c4d5e6f`),
		run("a/5v9a2m4qxk", "ship", `step ship: item 3f2504e0-4f89-41d3-9a0c-0305e82c3303 (called by c/cccccccccccc) has hash 99aa`),
		{ID: "a/completed22"},
	}
	want := []CauseGroup{
		{Cause{"", "ship", `step ship: item # (called by RUN) has hash #`}, 3, "a/2v9a2m4qxk"},
		{Cause{"", "pay[*]", `step pay[*]: no field "…" in order # of run RUN at #`}, 2, "a/k3v9a2m4qx"},
		{Cause{"", "pay[*]", `step pay[*]: item "…" of order # of run RUN at #`}, 1, "a/3v9a2m4qxk"},
	}
	if diff := cmp.Diff(want, GroupByCause(list)); diff != "" {
		t.Error(diff)
	}
}
