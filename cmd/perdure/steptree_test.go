package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/gateway"
)

var noon = time.UnixMilli(1_800_000_000_000)

func after(seconds float64) time.Time {
	return noon.Add(time.Duration(seconds * float64(time.Second)))
}

func linesText(lines []screenLine) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.String() + "\n")
	}
	return b.String()
}

// grown is a tree in which something of each kind has happened.
func grown() *stepTree {
	var t stepTree
	told := func(at float64, s gateway.StepState) { t.update(s, after(at)) }
	told(0, gateway.StepState{Path: "info", Status: "completed", What: "repo_log", Started: after(0), Ended: after(0.25)})
	told(1, gateway.StepState{Path: "upload", Status: gateway.StepRunning, What: "be_upload", Started: after(1)})
	told(2, gateway.StepState{Path: "upload", Status: gateway.StepRunning, What: "part three", Progress: 3, Total: 6})
	told(2, gateway.StepState{Path: "pay", Status: gateway.StepRunning, What: "bank_pay", Started: after(2)})
	told(3, gateway.StepState{Path: "pay", Status: gateway.StepRunning, What: "", Error: "no line", Attempt: 2})
	for _, path := range []definitions.StepPath{"each[0]", "each[1]"} {
		told(3, gateway.StepState{Path: path, Status: gateway.StepRunning, What: "be_send", Started: after(3)})
	}
	told(4, gateway.StepState{Path: "each[1]", Status: "failed", Error: "no such\naddress\x1b[2J", Started: after(3), Ended: after(4)})
	told(4, gateway.StepState{Path: "gate", Status: gateway.StepWaiting, What: "Publish?", Started: after(4)})
	told(5, gateway.StepState{Path: "info", Status: gateway.StepRunning, What: "repo_log", Started: after(0)}) // told again
	return &t
}

func TestStepTree(t *testing.T) {
	t.Parallel()
	tree := grown()
	want := `  ✓ info    repo_log   250ms
  ⠋ upload  be_upload  9s       ██████████░░░░░░░░░░ 3 of 6  part three
  ⠋ pay     bank_pay   8s       attempt 2
    no line
  ⠋ each               7s       1 done, 1 under way
    ⠋ [0]   be_send    7s
    ✗ [1]   be_send    1s
      no such address[U+001B][2J
  ? gate               6s       waits for an answer
`
	if diff := cmp.Diff(want, linesText(tree.lines(80, 0, after(10)))); diff != "" {
		t.Error(diff)
	}
	if got := tree.summary(2, 7, 10*time.Second, after(10)).String(); got != "  ? 2 of 7 steps  10s" {
		t.Errorf("%q", got)
	}

	var cancelled stepTree
	cancelled.update(gateway.StepState{Path: "each[0]", Status: "cancelled", What: "be_send"}, after(1))
	if got := cancelled.lines(80, 0, after(2))[0].String(); !strings.HasPrefix(got, "  – each") {
		t.Errorf("a loop whose call was cancelled: %q", got)
	}

	tree.update(gateway.StepState{Path: "gate", Status: "completed", What: "accepted", Started: after(4), Ended: after(6)}, after(6))
	tree.update(gateway.StepState{Path: "tell", Status: "skipped", Error: "its condition is false:\n{{.params.t}}"}, after(7))
	tree.update(gateway.StepState{Path: "script/main:3", Status: gateway.StepSays, What: "copying (1 of 4)", Progress: 1, Total: 4}, after(7))
	tree.stop("stopped")
	want = `  ✓ info    repo_log   250ms
  – upload  be_upload           stopped
  – pay     bank_pay            attempt 2  stopped
  ✗ each               1s       2 done
    – [0]   be_send             stopped
    ✗ [1]   be_send    1s
      no such address[U+001B][2J
  ✓ gate               2s       accepted
  – tell                        skipped: its condition is false: {{.params.t}}
  ⠋ script             3s       copying (1 of 4)
`
	if diff := cmp.Diff(want, linesText(tree.lines(80, 0, after(10)))); diff != "" {
		t.Error(diff)
	}
	if got := tree.summary(1.000001, 4, 10*time.Second, after(10)).String(); got != "  ⠋ █████░░░░░░░░░░░░░░░ 1 of 4  10s" {
		t.Errorf("%q", got)
	}
}

// Lines fit the terminal in both directions; what there is no room for scrolls away
// once it has ended, and then is gone from the tree.
func TestStepTreeFits(t *testing.T) {
	t.Parallel()
	tree := grown()
	for _, l := range tree.lines(30, 0, after(10)) {
		if n := view.Cells(l.String()); n > 30 {
			t.Errorf("%q takes %d cells", l, n)
		}
	}
	if got := linesText(tree.lines(80, 3, after(10))); !strings.HasSuffix(got, "\n  … and 7 more lines\n") || strings.Count(got, "\n") != 3 {
		t.Errorf("of three lines:\n%s", got)
	}
	if got := linesText(tree.scroll(80, 20, after(10))); got != "" {
		t.Errorf("with room, there scrolls away\n%s", got)
	}
	if got := linesText(tree.scroll(80, 3, after(10))); got != "  ✓ info    repo_log   250ms\n" {
		t.Errorf("without room, there scrolls away\n%s", got)
	}
	if got := linesText(tree.lines(80, 0, after(10))); strings.Contains(got, "info") {
		t.Errorf("what has scrolled away is there still\n%s", got)
	}
}

// Of many calls of a step, those that have completed are a number.
func TestStepTreeOfMany(t *testing.T) {
	t.Parallel()
	var tree stepTree
	for i := range 1000 {
		path := definitions.StepPath("each").Item(i)
		tree.update(gateway.StepState{Path: path, Status: gateway.StepRunning, What: "be_send", Started: after(0)}, after(0))
		if i > 2 {
			tree.update(gateway.StepState{Path: path, Status: "completed", Started: after(0), Ended: after(1)}, after(1))
		}
	}
	want := `  ⠋ each            2s       997 done, 3 under way
    ⠋ [0]  be_send  2s
    ⠋ [1]  be_send  2s
    ⠋ [2]  be_send  2s
`
	if diff := cmp.Diff(want, linesText(tree.lines(80, 0, after(2)))); diff != "" {
		t.Error(diff)
	}
}

func TestCells(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"abc": 3, "漢字": 4, "é": 1, "e\u0301": 1, "🚀": 2, "✓": 1} {
		if got := view.Cells(text); got != want {
			t.Errorf("%q takes %d cells, want %d", text, got, want)
		}
	}
	for text, want := range map[string]string{"abcdef": "abc…", "abcd": "abcd", "漢字漢": "漢…", "": ""} {
		if got := view.Clip(text, 4); got != want {
			t.Errorf("%q clips to %q, want %q", text, got, want)
		}
	}
}

// TestAttackProgress draws progress with hostile values from a server.
func TestAttackProgress(t *testing.T) {
	t.Parallel()
	for _, s := range []gateway.StepState{
		{Path: "a", Status: gateway.StepRunning, Progress: -1, Total: 10}, {Path: "a", Status: gateway.StepRunning, Progress: 1e300, Total: 1e-300},
		{Path: "a", Status: gateway.StepSays, Progress: -1e300, Total: 1e-300}, {Path: "a", Status: gateway.StepSays, Progress: -5, Total: 1},
	} {
		var tree stepTree
		tree.update(s, noon)
		if len(tree.lines(80, 0, noon)) == 0 || tree.summary(-1, 1, 0, noon).String() == "" {
			t.Errorf("%+v is not drawn", s)
		}
	}
}
