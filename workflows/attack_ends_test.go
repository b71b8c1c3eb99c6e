package workflows_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/workflows"
)

// TestAttackCallAfterItsEnd: each call knows when the run, or one above it, is over, since
// Temporal may stand still at that time and hand the call out before it says so. What
// undoes another is to be made all the same.
func TestAttackCallAfterItsEnd(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	ends := map[string]time.Time{}
	note := func(call workflows.ToolCall) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		ends[call.Tool] = call.Ends
		if call.Tool == "fail" {
			return failing(call)
		}
		return `{}`, nil
	}
	b := newBench(t, `{name: a, description: d, timeout: 1h, steps: [{id: s, tool: own, compensate: {tool: undo}}, {id: t, type: workflow, workflow: b, dependsOn: [s]}]}
---
{name: b, description: d, timeout: 2h, steps: [{id: s, type: workflow, workflow: c}]}
---
{name: c, description: d, timeout: 3h, steps: [{id: s, tool: below}, {id: all, type: forEach, timeout: 10m, collection: '[1]', step: {tool: sooner}}, {id: t, tool: fail, dependsOn: [s, all]}]}`,
		`{}`, map[string]toolFunc{"own": note, "undo": note, "below": note, "sooner": note, "fail": note})
	began := b.env.Now()
	b.run()
	for tool, want := range map[string]time.Duration{"own": time.Hour, "below": time.Hour, "sooner": 10 * time.Minute} {
		if got := ends[tool].Sub(began); got < want || got > want+time.Second {
			t.Errorf("%s ends after %s, want %s", tool, got, want)
		}
	}
	if at, called := ends["undo"]; !called || !at.IsZero() {
		t.Errorf("what undoes: called %t, ends at %s", called, at)
	}
}

// A called run that the resumption of the one above has taken up waits a moment for that
// one's first end, and then makes its calls.
func TestCalledRunOutlivesTheEndAbove(t *testing.T) {
	t.Parallel()
	var held int
	b := newBench(t, `{name: a, description: d, steps: [{id: s, tool: put}, {id: t, tool: put, dependsOn: [s]}]}`, `{}`, map[string]toolFunc{"put": func(call workflows.ToolCall) (string, error) {
		if call.Ends.Sub(call.Decided) < time.Minute {
			held++
			return "", workflows.Attempt{Call: call, Number: 1}.ReportHold(workflows.Hold{Why: workflows.HeldByParent, Pause: time.Second})
		}
		return `{"put":true}`, nil
	}})
	began := b.env.Now()
	b.input.AboveEnds = began.Add(-time.Minute)
	if output, failure := b.run(); failure != nil || output != `{"put":true}` || held != 1 || b.env.Now().Sub(began) > 5*time.Second {
		t.Errorf("got %s, %+v after %s, held %d times", output, failure, b.env.Now().Sub(began), held)
	}
}

// A called run without anybody above to take its result undoes what it has done.
func TestAbandonedRunIsUndone(t *testing.T) {
	t.Parallel()
	var made []string
	note := func(call workflows.ToolCall) (string, error) {
		if call.StepID == "t" {
			return "", workflows.Attempt{Call: call, Number: 1}.ReportHold(workflows.Hold{Why: workflows.HeldForGood})
		}
		made = append(made, call.Tool)
		return `{}`, nil
	}
	b := newBench(t, `{name: a, description: d, steps: [{id: s, tool: put, compensate: {tool: undo}}, {id: t, tool: put, dependsOn: [s]}]}`, `{}`,
		map[string]toolFunc{"put": note, "undo": note})
	b.input.Parent = &workflows.Parent{RunID: "above/1", StepPath: "call"}
	if _, failure := b.run(); failure == nil || failure.Error.Code != "parent_gone" || !slices.Equal(made, []string{"put", "undo"}) {
		t.Errorf("it ended with %+v, after %v", failure, made)
	}
}
