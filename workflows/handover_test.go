package workflows_test

import (
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// A call made after a person has said that it was not executed has the arguments of
// the earlier call, whatever its templates would give now.
func TestParkedCallKeepsItsArguments(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"shown": "short", "too long to be shown": strings.Repeat("long", 5000)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := `{name: a, description: d, timeout: 100h, steps: [
				{id: w, type: wait, for: 1m},
				{id: pay, tool: pay, dependsOn: [w], arguments: {ms: "{{.workflow.duration_ms}}", text: "` + text + `"}, onUnknown: ask}]}`
			var keys []string
			noting := func(f toolFunc) map[string]toolFunc {
				return map[string]toolFunc{"pay": func(call workflows.ToolCall) (string, error) {
					keys = append(keys, call.IdempotencyKey+" "+string(call.Arguments))
					return f(call)
				}}
			}
			first := newBench(t, source, `{}`, noting(losing(1)))
			began := first.env.Now()
			first.suggest(2 * time.Hour)
			first.env.RegisterDelayedCallback(func() { first.env.SignalWorkflow("wake", nil) }, 2*time.Hour)
			second := newBench(t, source, `{}`, noting(losing(0)))
			second.input = first.firstExecution()
			second.env.SetStartTime(began.Add(2 * time.Hour))
			second.answer(time.Hour, "pay/reconciliation#1", "accept", `{"outcome":"not_happened"}`)
			if _, failure := second.run(); failure != nil {
				t.Fatalf("failed: %+v", failure)
			}
			if len(keys) != 2 || keys[0] != keys[1] {
				t.Errorf("the calls: %.200q", keys)
			}
		})
	}
}

// A resumption with other arguments makes a call that was not executed with these. A
// resumption without changes makes it with the earlier ones.
func TestResumedCallHasTheArgumentsOfTheResumption(t *testing.T) {
	t.Parallel()
	const source = `{name: a, description: d, parameters: {type: object, properties: {n: {type: integer}}}, steps: [
		{id: pay, tool: pay, arguments: {n: "{{.params.n}}", ms: "{{.workflow.duration_ms}}"}}]}`
	for _, tc := range []struct {
		name    string
		changes map[string]json.RawMessage
		want    string
	}{
		{"as it was", nil, `{"ms":"0","n":"1"}`},
		{"changed", map[string]json.RawMessage{"n": json.RawMessage("2")}, `"n":"2"}`},
	} {
		b := newBench(t, source, `{"n":1}`, map[string]toolFunc{"pay": losing(1)})
		if _, failure := b.run(); categoryOf(failure) != "outcome_unknown" {
			t.Fatalf("got %+v", failure)
		}
		journal := b.journal()
		plan, err := history.PlanResume("a/1", "execution", &journal, history.ResumeRequest{Otherwise: history.AskAgain, Arguments: tc.changes}, nil)
		if err != nil {
			t.Fatal(err)
		}
		again := newBench(t, source, `{}`, map[string]toolFunc{"pay": losing(0)})
		again.input = plan.Input
		again.answer(time.Minute, "pay/reconciliation#1", "accept", `{"outcome":"not_happened"}`)
		if _, failure := again.run(); failure != nil || len(again.calls) != 1 || !strings.Contains(again.calls[0], tc.want) {
			t.Errorf("%s: got %v, %+v", tc.name, again.calls, failure)
		}
	}
}

// What was asked before a run continued as new and is not asked any more, since
// it ended before it came to that, is told to be dropped.
func TestQuestionsAreTakenBack(t *testing.T) {
	t.Parallel()
	const source = `{name: a, description: d, timeout: 100h, steps: [{id: g, type: elicitation, message: Go on?, timeout: 50h}]}`
	first := newBench(t, source, `{}`, nil)
	began := first.env.Now()
	first.suggest(2 * time.Hour)
	first.env.RegisterDelayedCallback(func() { first.env.SignalWorkflow("wake", nil) }, 2*time.Hour)
	// The step is another one, so that it does not ask again.
	second := newBench(t, `{name: a, description: d, steps: [{id: x, tool: t}]}`, `{}`, nil)
	next := first.firstExecution()
	second.input.Continued, second.input.Open = true, next.Open
	second.env.SetStartTime(began.Add(2 * time.Hour))
	var mu sync.Mutex
	var told []workflows.Elicitation
	second.onMemo(func(state workflows.State) {
		mu.Lock()
		defer mu.Unlock()
		told = state.Elicitations
	})
	if _, failure := second.run(); failure != nil {
		t.Fatalf("failed: %+v", failure)
	}
	if len(told) != 1 || told[0].ID != "g#1" || told[0].State != workflows.ElicitationDropped || told[0].Schema != nil {
		t.Errorf("told %+v", told)
	}
}

// A question that was dropped with its forEach before the run continued as new
// is asked by another ID when the run is resumed.
func TestDroppedQuestionKeepsItsID(t *testing.T) {
	t.Parallel()
	const source = `{name: a, description: d, timeout: 900h, failureMode: best_effort, steps: [
		{id: each, type: forEach, collection: '["lost", "bad"]', step: {tool: pay, timeout: 10h, onUnknown: ask, arguments: {x: "{{.forEach.item}}"},
		 onError: {action: retry, retryCount: 1, retryDelay: 1h}}},
		{id: w, type: wait, for: 100h},
		{id: bad, tool: bad, dependsOn: [w]}]}`
	var tries atomic.Int64
	tools := map[string]toolFunc{
		"bad": failing,
		"pay": func(call workflows.ToolCall) (string, error) {
			if call.StepPath == "each[1]" {
				return "", toolError(call, int(tries.Add(1)), 1, "no")
			}
			e, repeat := workflows.Attempt{Call: call, Number: 1}.Lost("the connection broke")
			return "", workflows.Report(e, repeat)
		}}
	first := newBench(t, source, `{}`, tools)
	began := first.env.Now()
	first.suggest(5 * time.Hour)
	first.env.RegisterDelayedCallback(func() { first.env.SignalWorkflow("wake", nil) }, 5*time.Hour)
	second := newBench(t, source, `{}`, tools)
	second.input = first.firstExecution()
	if n := second.input.Asked["each[0]/reconciliation"]; n != 1 {
		t.Fatalf("asked %v before", second.input.Asked)
	}
	second.env.SetStartTime(began.Add(5 * time.Hour))
	second.env.RegisterDelayedCallback(second.env.CancelWorkflow, time.Hour)
	if _, failure := second.run(); failure == nil {
		t.Fatal("completed")
	}
	journal := second.journal()
	plan, err := history.PlanResume("a/1", "execution", &journal, history.ResumeRequest{Otherwise: history.AskAgain}, nil)
	if err != nil {
		t.Fatal(err)
	}
	third := newBench(t, source, `{}`, map[string]toolFunc{})
	third.input = plan.Input
	third.answer(time.Hour, "each[0]/reconciliation#2", "accept", `{"outcome":"happened"}`)
	if _, failure := third.run(); failure != nil {
		t.Errorf("failed: %+v", failure)
	}
}

// Every call reports whether the run has started where there are rules.
func TestCallsTellOfRules(t *testing.T) {
	t.Parallel()
	for _, ruled := range []bool{false, true} {
		b := newBench(t, `{name: a, description: d, steps: [{id: x, tool: t}]}`, `{}`, map[string]toolFunc{"t": func(call workflows.ToolCall) (string, error) {
			if call.Ruled != ruled {
				t.Errorf("ruled %t: the call says %t", ruled, call.Ruled)
			}
			return `{}`, nil
		}})
		b.input.Ruled = ruled
		if _, failure := b.run(); failure != nil {
			t.Errorf("failed: %+v", failure)
		}
	}
}
