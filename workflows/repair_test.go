package workflows_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/runs"
	"github.com/perdure/perdure/workflows"
)

// Random runs that failed or were cancelled are repaired in a world that works:
// they complete with what the reference says, and no call of an unsafe tool that
// succeeded, and was not undone, is made again.
func TestRetryOfRandomRuns(t *testing.T) {
	t.Parallel()
	forRandomCases(t, func(t *testing.T, c *testCase) {
		before := c.run(t, c.reference())
		if before.failure == nil {
			return
		}
		repaired, record := c.repair(t, before)
		want := repaired.reference()
		after := repaired.run(t, want)
		if after.failure != nil {
			t.Errorf("failed again: %+v", after.failure.Error)
		}
		for _, call := range after.calls {
			path, _, _ := strings.Cut(call, " ")
			n, _ := mustCompile(t, c.def).At(path)
			if before.done[path] && record.Undone[path] == 0 && n.Step.Tool == "write" {
				t.Errorf("was executed a second time: %s", call)
			}
		}
		if diff := cmp.Diff(want.output(repaired), after.output); diff != "" && !repaired.skipsRest(want) {
			t.Errorf("output: %s", diff)
		}
	})
}

func mustCompile(t *testing.T, d *definitions.Definition) *definitions.Program {
	t.Helper()
	program, err := definitions.Compile(d)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// repair makes a case of what is left of one that failed: whatever is not done
// with works, and every question that is asked again is accepted.
func (c *testCase) repair(t *testing.T, before *observed) (*testCase, workflows.Record) {
	t.Helper()
	answer, err := before.last.env.QueryWorkflow(workflows.JournalQuery)
	if err != nil {
		t.Fatal(err)
	}
	var record workflows.Record
	if err := answer.Get(&record); err != nil {
		t.Fatal(err)
	}
	req := runs.RetryRequest{Results: map[string]json.RawMessage{}}
	plan, err := runs.RepairOf("random/1", "execution", &record, req)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range plan.Unsettled { // calls under way when the run was stopped
		req.Results[u.Path] = u.Call.Arguments // which the tools give back
	}
	if plan, err = runs.RepairOf("random/1", "execution", &record, req); err != nil {
		t.Fatal(err)
	}
	in := plan.Input()
	repaired := &testCase{def: c.def, failures: map[string]int{}, answers: map[string]string{}, delays: map[string]time.Duration{}, input: &in, began: before.last.env.Now()}
	kept := func(path string) bool { return in.Journal[path].Result != nil || in.Journal[path].Error != nil }
	for path, failures := range c.failures {
		if in.Journal[path].Error != nil {
			repaired.failures[path] = failures
		}
	}
	for id, action := range c.answers {
		repaired.answers[id], repaired.delays[id] = "accept", 1
		if kept(id) {
			repaired.answers[id], repaired.delays[id] = action, c.delays[id]
		}
	}
	return repaired, record
}

// acceptAll accepts every question as soon as it is asked.
func (b *bench) acceptAll() {
	answered := map[string]bool{}
	b.onMemo(func(state workflows.State) {
		for _, e := range state.Elicitations {
			if e.State == workflows.ElicitationOpen && !answered[e.ID] {
				answered[e.ID] = true
				b.answer(time.Second, e.ID, "accept", `{}`)
			}
		}
	})
}

// skipsRest says whether a question was answered so that the rest is skipped,
// which then happens at another time than before.
func (c *testCase) skipsRest(ref *expected) bool {
	return slices.ContainsFunc(c.def.Steps, func(s *definitions.Step) bool { return c.skips(s, ref.steps[s.ID]) })
}
