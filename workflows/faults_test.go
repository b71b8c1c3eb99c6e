package workflows_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
	"github.com/perdure/perdure/workflows/record"
)

// Random runs meet all that can happen to them: answers of calls are lost,
// credentials are missing, tools fail, people decline, somebody cancels, and the
// history grows too long up to six times in each execution. They are resumed
// until they complete, at last in a world that works. Then their output is what
// the sequential reference says, and no unsafe call was executed more often than
// it was undone, and once.
func TestRandomRunsInTrouble(t *testing.T) {
	t.Parallel()
	forRandomCases(t, func(t *testing.T, c *testCase) {
		w := newFaultyWorld(c)
		completed := w.run(t, c)
		for resumptions := 1; !completed; resumptions++ {
			w.working = resumptions > 2
			if resumptions > 3 {
				t.Fatalf("failed in a world that works: %+v", w.failure.Error)
			}
			c = w.resumption(t, c)
			completed = w.run(t, c)
		}
		for path, n := range w.executed {
			if undone := w.undoneAt(path); n > 1+undone && !w.risk[path] {
				t.Errorf("%s was executed %d times and undone %d times", path, n, undone)
			}
		}
		if c.input == nil || w.losses > 0 || w.given && len(c.calls) > 0 {
			return // the reference knows none, nor results for what steps had said that are undone
		}
		want := c.reference()
		if diff := cmp.Diff(want.output(c), w.output); diff != "" && !c.skipsRest(want) {
			t.Errorf("output: %s", diff)
		}
	})
}

// A faultyWorld is the world of a run: what became of its calls, and what will.
type faultyWorld struct {
	rnd      *rand.Rand
	working  bool            // nothing is lost or denied any more
	given    bool            // somebody has said what calls came to
	risk     map[string]bool // by step path: a plan has said that the call may be made again, with other arguments
	losses   int             // of answers, since the run was last resumed
	lost     map[string]bool // by step path: the answer of the next call is lost; whether it is executed
	denied   map[string]int  // by step path: for how many calls a credential is missing
	executed map[string]int  // by step path: unsafe calls that had their effect
	undone   map[string]int
	told     map[string]bool     // by step path: somebody has told a call's result while the run was under way
	sent     map[string]sentCall // by step path: the last call, of which the run need not know

	last    *bench
	failure *workflows.Failure
	output  map[string]string
}

type sentCall struct {
	executed  bool
	arguments json.RawMessage
}

func newFaultyWorld(c *testCase) *faultyWorld {
	w := &faultyWorld{rnd: rand.New(rand.NewPCG(uint64(len(c.source())), 2)),
		risk: map[string]bool{}, executed: map[string]int{}, undone: map[string]int{}, told: map[string]bool{}, sent: map[string]sentCall{}}
	w.stir(c)
	w.asking(c, false)
	return w
}

// asking decides which calls people are asked about.
func (w *faultyWorld) asking(c *testCase, continued bool) {
	for _, s := range c.def.Steps {
		// What continues after a lost answer is not done with: it would be told
		// later what became of the call, when others have gone on without.
		work := s
		if s.Type == definitions.ForEachStep {
			work = s.Step
			s.Timeout = c.def.Timeout // which continues while its items wait
		}
		if below := c.calls[s.ID]; below != nil {
			w.asking(below, continued || continues(s) || continues(work) || below.def.FailureMode == definitions.BestEffort)
		}
		if work.Tool != "" && (continued || continues(s) || continues(work) || w.rnd.IntN(2) == 0) {
			work.OnUnknown = definitions.Ask
		}
	}
}

// stir decides what happens to the next execution.
func (w *faultyWorld) stir(c *testCase) {
	w.lost, w.denied = map[string]bool{}, map[string]int{}
	c.suggest = nil
	for range w.rnd.IntN(7) {
		c.suggest = append(c.suggest, moment(w.rnd))
	}
	if c.waitsBelow() { // see the end of this file
		c.suggest = nil
	}
	w.stirSteps(c, "", c.suggest != nil)
}

func (w *faultyWorld) stirSteps(c *testCase, within string, quick bool) {
	for _, s := range c.def.Steps {
		paths := []string{within + s.ID}
		for i := range 5 {
			paths = append(paths, fmt.Sprintf("%s%s[%d]", within, s.ID, i))
		}
		for _, path := range paths {
			if below := c.calls[s.ID]; below != nil && !quick {
				w.stirSteps(below, path+"/", quick)
			}
			if w.rnd.IntN(5) == 0 {
				w.lost[path] = w.rnd.IntN(2) == 0
			}
			if w.rnd.IntN(6) == 0 {
				w.denied[path] = 1 + w.rnd.IntN(3)
			}
		}
	}
}

// call is what a tool makes of a call.
func (w *faultyWorld) call(c *testCase, attempts map[string]int) func(string, workflows.ToolCall) (string, error) {
	return func(path string, call workflows.ToolCall) (string, error) {
		attempt := workflows.Attempt{Call: call, Number: 1}
		if call.Tool == "undo" {
			undone, _, _ := strings.Cut(path, "/compensate#")
			w.undone[undone]++
			return `{}`, nil
		}
		w.sent[path] = sentCall{arguments: call.Arguments}
		if w.denied[path] > 0 {
			w.denied[path]--
			return "", workflows.Report(attempt.Unauthorized("there is none"))
		}
		if executed, lost := w.lost[path]; lost && call.Tool == "write" {
			delete(w.lost, path)
			w.sent[path] = sentCall{executed, call.Arguments}
			w.losses++
			if executed {
				w.executed[path]++
			}
			return "", workflows.Report(attempt.Lost("the connection broke"))
		}
		attempts[path]++
		if attempts[path] <= c.failures[path] {
			return "", toolError(call, attempts[path], call.MaxAttempts-1, "planned failure")
		}
		if call.Tool == "write" {
			w.sent[path] = sentCall{true, call.Arguments}
			w.executed[path]++
		}
		return string(call.Arguments), nil
	}
}

// run executes a case in as many executions as it takes, and reports whether it has
// completed.
func (w *faultyWorld) run(t *testing.T, c *testCase) bool {
	t.Helper()
	b := newBench(t, c.source(), `{}`, nil)
	b.before = w.last // whose called runs are there still
	if c.input != nil {
		b.input = *c.input
		b.env.SetStartTime(c.began)
	}
	began, attempts := b.env.Now(), map[string]int{}
	for execution := 0; ; execution++ {
		over, call := false, w.call(c, attempts)
		tool := b.locked(func(path string, asked workflows.ToolCall) (string, error) {
			if over { // the run has ended before the call had left
				return "", errors.New("too late")
			}
			return call(path, asked)
		})
		b.tools = map[string]toolFunc{"read": tool, "write": tool, "undo": tool}
		w.schedule(c, b, began, execution)
		b.env.ExecuteWorkflow(b.input.WorkflowType(), b.input)
		b.mu.Lock()
		over = true
		b.mu.Unlock()
		next := b.continued(t, c.source())
		if next == nil {
			break
		}
		b = next
	}
	output, failure := b.result()
	w.last, w.failure, w.output = b, failure, nil
	if failure != nil {
		checkEffects(t, failure, func(path string) bool { return w.executed[path] > w.undoneAt(path) }, slices.Collect(maps.Keys(w.executed)))
	}
	if failure == nil {
		perduretest.NoError(t, json.Unmarshal([]byte(output), &w.output))
	}
	return failure == nil
}

// schedule lets happen what comes from outside: people answer as the case says,
// and tell what became of calls.
func (w *faultyWorld) schedule(c *testCase, b *bench, began time.Time, execution int) {
	if left := began.Add(c.cancel).Sub(b.env.Now()); c.cancel > 0 && left > 0 {
		b.env.RegisterDelayedCallback(b.env.CancelWorkflow, left)
	}
	if execution < len(c.suggest) {
		b.env.RegisterDelayedCallback(func() {
			b.env.SetContinueAsNewSuggested(true)
			b.env.SignalWorkflow("wake", nil)
		}, c.suggest[execution])
	}
	answered := map[string]bool{}
	b.onMemo(func(state workflows.State) {
		for _, e := range state.Elicitations {
			if e.State != workflows.ElicitationOpen || answered[e.ID] {
				continue
			}
			answered[e.ID] = true
			switch {
			case e.Kind == workflows.Reconciliation:
				step := string(e.StepPath.Before(workflows.StepPath(workflows.Reconciliation)))
				b.mu.Lock() // other calls may be at work
				said := w.said(step)
				b.mu.Unlock()
				b.answer(time.Minute, e.ID, "accept", said)
			case e.Kind == workflows.ForCaller && c.answers[string(e.StepPath)] != "":
				b.answer(c.delays[string(e.StepPath)], e.ID, c.answers[string(e.StepPath)], `{}`)
			}
		}
	})
}

// undoneAt is how often a call was undone, alone or with what it is part of.
func (w *faultyWorld) undoneAt(path string) (times int) {
	for _, path := range selfAndAbove(path) {
		times += w.undone[path]
	}
	return times
}

// said is a person's answer about a call whose outcome the run does not know.
func (w *faultyWorld) said(path string) string {
	call := w.sent[path]
	if !call.executed {
		return `{"outcome":"not_happened"}`
	}
	w.told[path] = true
	said, _ := json.Marshal(workflows.Reconciled{Outcome: workflows.Happened, Result: string(call.arguments)})
	return string(said)
}

// resumption makes a case of what is left of one that failed. What was asked and
// ended the run is accepted from now on.
func (w *faultyWorld) resumption(t *testing.T, c *testCase) *testCase {
	t.Helper()
	req := history.ResumeRequest{Results: map[workflows.StepPath]json.RawMessage{}, Unknown: map[workflows.StepPath]string{}}
	plan := w.last.resumption(t, req)
	for _, u := range plan.OutcomeUnknown {
		call := w.sent[string(u.Path)]
		req.Unknown[u.Path] = runs.NotHappened
		if call.executed {
			delete(req.Unknown, u.Path)
			req.Results[u.Path] = call.arguments // which the tools give back
		}
	}
	w.given = w.given || len(req.Results) > 0
	plan = w.last.resumption(t, req)
	for _, s := range plan.AtRisk() {
		w.risk[string(s.Path)] = true
	}
	in := plan.Input
	next := c.resumed(&in, w.last.env.Now())
	for path := range next.failures {
		if e, done := entryOf(&in, path); w.told[path] || !done && e.Failure() == nil { // else it failed, and the run continued
			delete(next.failures, path)
		}
	}
	for path := range next.answers {
		e, done := entryOf(&in, path)
		if done {
			continue
		}
		next.answers[path], next.delays[path] = "accept", 1
		if gate, ok := e.Kind.(record.Gate); ok {
			next.answers[path] = strings.TrimSuffix(gate.Answer.Action, "timeout")
		}
	}
	w.losses = 0
	w.stir(next)
	if w.working {
		w.lost, w.denied = nil, nil
	}
	return next
}

// waitsBelow reports whether a run that a step calls may take time. A test environment
// ends with the run when that continues as new, and those that it has called with it;
// TestContinuedWhileACalledRunWaits of package runs has those.
func (c *testCase) waitsBelow() bool {
	for _, below := range c.calls {
		if !below.quick || below.waitsBelow() {
			return true
		}
	}
	return false
}
