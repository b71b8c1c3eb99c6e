package workflows_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
	"github.com/perdure/perdure/workflows/record"
)

// Random runs that failed or were cancelled are resumed in a world that works:
// they complete with what the reference says, and no call of an unsafe tool that
// succeeded, and was not undone, is made again.
func TestResumeOfRandomRuns(t *testing.T) {
	t.Parallel()
	forRandomCases(t, func(t *testing.T, c *testCase) {
		before := c.run(t, c.reference())
		if before.failure == nil {
			return
		}
		resumed, record, plan := c.resumption(t, before)
		want := resumed.reference()
		after := resumed.run(t, want)
		if after.failure != nil {
			t.Errorf("failed again: %+v", after.failure.Error)
		}
		for _, call := range after.calls {
			path, _, _ := strings.Cut(call, " ")
			if slices.ContainsFunc(plan.AtRisk(), func(s history.PlannedStep) bool { return string(s.Path) == path }) {
				continue // its arguments may be others now, and the plan says so
			}
			undone := slices.ContainsFunc(selfAndAbove(path), func(path string) bool {
				return record.Undone[workflows.StepPath(path)] > 0 || slices.Contains(before.undone, path)
			})
			if before.done[path] && !undone && c.toolOf(path) == "write" {
				t.Errorf("was executed a second time: %s", call)
			}
		}
		if diff := cmp.Diff(want.output(resumed), after.output); diff != "" && !resumed.skipsRest(want) {
			t.Errorf("output: %s", diff)
		}
	})
}

// A step that continued after the run had failed that it called is executed again when
// what it depends on is. Then that run continues with what it had done.
func TestResumptionOfACalledRunThatFailedAndMayBeAnother(t *testing.T) {
	t.Parallel()
	const source = `{name: a, description: d, steps: [{id: first, tool: read, compensate: {tool: undo}}, {id: call, type: workflow, workflow: b, dependsOn: [first], onError: {action: continue}}, {id: last, tool: fail, dependsOn: [call]}]}
---
{name: b, description: d, steps: [{id: put, tool: write}, {id: bad, tool: fail, dependsOn: [put]}]}`
	before := newBench(t, source, `{}`, map[string]toolFunc{"fail": failing})
	if _, failure := before.run(); failure == nil || len(failure.Compensated) != 1 {
		t.Fatalf("got %+v", failure)
	}
	plan := before.resumption(t, history.ResumeRequest{})
	after := newBench(t, source, `{}`, nil)
	after.input = plan.Input
	if _, failure := after.run(); failure != nil {
		t.Fatalf("got %+v", failure)
	}
	if diff := cmp.Diff([]string{"read {}", "fail {}", "fail {}"}, after.calls); diff != "" {
		t.Errorf("called are (-want +got):\n%s", diff)
	}
}

// resumption makes a case of what is left of one that failed: whatever is not done
// with works, and every question that is asked again is accepted.
func (c *testCase) resumption(t *testing.T, before *observed) (*testCase, workflows.RunRecord, *history.ResumePlan) {
	t.Helper()
	journal := before.last.journal()
	req := history.ResumeRequest{Results: map[workflows.StepPath]json.RawMessage{}}
	plan := before.last.resumption(t, req)
	for _, u := range plan.OutcomeUnknown { // calls under way when the run was stopped
		req.Results[u.Path] = u.Call.Arguments // which the tools give back
	}
	plan = before.last.resumption(t, req)
	in := plan.Input
	resumed := c.resumed(&in, before.last.env.Now())
	for path := range resumed.failures {
		if e, done := entryOf(&in, path); !done && e.Failure() == nil {
			delete(resumed.failures, path)
		}
	}
	for path := range resumed.answers {
		if e, done := entryOf(&in, path); !done && !e.Done() && e.Failure() == nil {
			resumed.answers[path], resumed.delays[path] = "accept", 1
		}
	}
	return resumed, journal, plan
}

// resumed is the case of what is left of a run, in which everything happens as
// before.
func (c *testCase) resumed(in *workflows.RunInput, now time.Time) *testCase {
	next := *c
	next.input, next.began, next.cancel, next.suggest = in, now, 0, nil
	next.failures, next.answers, next.delays = maps.Clone(c.failures), maps.Clone(c.answers), maps.Clone(c.delays)
	next.share()
	return &next
}

// share has what a case calls meet the same.
func (c *testCase) share() {
	c.calls = maps.Clone(c.calls)
	for id, below := range c.calls {
		other := *below
		other.failures, other.answers, other.delays = c.failures, c.answers, c.delays
		other.share()
		c.calls[id] = &other
	}
}

// entryOf is what the input of a resumed run has of a path, in whichever run that is.
// Done reports that the run in which it is has ended before, and counts as it is.
func entryOf(in *workflows.RunInput, path string) (e record.Entry, done bool) {
	for call, e := range in.Journal {
		below, ok := strings.CutPrefix(path, string(call)+"/")
		child, _ := e.Kind.(record.Child)
		var again workflows.RunInput
		switch {
		case ok && child.Again != nil && json.Unmarshal(child.Again, &again) == nil:
			return entryOf(&again, below)
		case ok && (e.Done() || e.Failure() != nil):
			return e, true
		}
	}
	return in.Journal[workflows.StepPath(path)], false
}

// resumption plans the resumption of the run that the bench has executed, and of those
// that it has called.
func (b *bench) resumption(t *testing.T, req history.ResumeRequest) *history.ResumePlan {
	t.Helper()
	journal := b.journal()
	plan, err := planWithCalled("random/1", &journal, req, func(id runs.RunID) (*workflows.RunRecord, json.RawMessage, error) {
		for at := b; at != nil; at = at.before {
			answer, err := at.env.QueryWorkflowByID(string(id), workflows.RecordQuery)
			if err != nil {
				continue
			}
			at.mu.Lock()
			defer at.mu.Unlock()
			if result, ok := at.results[string(id)]; ok {
				var completed workflows.RunResult
				err := json.Unmarshal(result, &completed)
				return nil, completed.Output, err
			}
			var below workflows.RunRecord
			return &below, nil, answer.Get(&below)
		}
		return nil, nil, nil // it was never started
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// planWithCalled plans the resumption of a run and of those that it has called. ended
// returns, for a called run that has not completed in the record, its record, or its output
// if it has completed since; neither if it was never started.
func planWithCalled(id runs.RunID, was *workflows.RunRecord, req history.ResumeRequest, ended func(runs.RunID) (*workflows.RunRecord, json.RawMessage, error)) (*history.ResumePlan, error) {
	_, below := req.Split(was)
	called := map[workflows.StepPath]*history.CalledRun{}
	for _, path := range slices.Sorted(maps.Keys(below)) {
		child := history.CalledAt(was, path)
		journal, output, err := ended(child)
		switch {
		case err != nil:
			return nil, err
		case output != nil:
			called[path] = &history.CalledRun{Output: output}
		case journal != nil:
			again, err := planWithCalled(child, journal, below[path], ended)
			if err != nil {
				return nil, err
			}
			called[path] = &history.CalledRun{Again: again}
		}
	}
	return history.PlanResume(id, "execution", was, req, called)
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

// skipsRest reports whether a question was answered so that the rest is skipped, which
// then happens at another time than before.
func (c *testCase) skipsRest(ref *expected) bool {
	return slices.ContainsFunc(c.def.Steps, func(s *definitions.Step) bool {
		r := ref.steps[s.ID]
		return c.skips(s, r) || slices.ContainsFunc(r.below, c.calls[s.ID].skipsRest)
	})
}
