package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows"
	"github.com/perdure/perdure/workflows/record"
)

// firstExecution runs until the workflow continues as new and returns the
// input of the execution that follows.
func (b *bench) firstExecution() workflows.RunInput {
	b.t.Helper()
	b.env.ExecuteWorkflow(b.input.WorkflowType(), b.input)
	var next *workflow.ContinueAsNewError
	if err := b.env.GetWorkflowError(); !errors.As(err, &next) {
		b.t.Fatalf("got %v, want to continue as new", err)
	}
	if next.WorkflowTaskTimeout != workflows.LongTask {
		b.t.Errorf("a workflow task of the next execution may take %s", next.WorkflowTaskTimeout)
	}
	var in workflows.RunInput
	if err := converter.GetDefaultDataConverter().FromPayloads(next.Input, &in); err != nil {
		b.t.Fatal(err)
	}
	return in
}

// suggest lets Temporal suggest to continue as new after some time.
func (b *bench) suggest(after time.Duration) {
	b.env.RegisterDelayedCallback(func() { b.env.SetContinueAsNewSuggested(true) }, after)
}

// What is known of a step when a run continues as new stays so: a call that
// failed or whose outcome is unknown, a gate that expired, a step that was
// skipped, a call whose arguments told the time.
func TestContinueAsNewRepeatsNothing(t *testing.T) {
	t.Parallel()
	const source = `{name: a, description: d, timeout: 100h, steps: [
		{id: lost, tool: lost, onError: {action: continue}, defaultResults: {n: 0}},
		{id: timed, tool: t, arguments: {ms: "{{.workflow.duration_ms}}"}},
		{id: old, tool: late, condition: "{{gt .workflow.duration_ms 1000}}"},
		{id: g, type: elicitation, message: m, timeout: 1h, onCancel: {action: continue}},
		{id: pause, type: wait, for: 3h},
		{id: w, tool: t, dependsOn: [pause, g, lost], arguments: {n: "{{.steps.lost.status}} {{.steps.g.output.action}} {{.steps.old.status}}"}}]}`
	tools := map[string]toolFunc{"lost": func(call workflows.ToolCall) (string, error) {
		e := workflows.Error{Code: "connection_lost", Category: codes.CategoryOutcomeUnknown, Message: "gone", StepPath: call.StepPath}
		return "", temporal.NewApplicationErrorWithOptions(e.Message, string(e.Category), temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{e}})
	}}
	first := newBench(t, source, `{}`, tools)
	began := first.env.Now()
	first.suggest(2 * time.Hour)
	first.env.RegisterDelayedCallback(func() { first.env.SignalWorkflow("wake", nil) }, 2*time.Hour)
	second := newBench(t, source, `{}`, tools)
	second.input = first.firstExecution()
	slices.Sort(first.calls)
	if diff := cmp.Diff([]string{"lost {}", `t {"ms":"0"}`}, first.calls); diff != "" {
		t.Errorf("calls of the first execution: %s", diff)
	}
	second.env.SetStartTime(began.Add(2 * time.Hour))
	output, failure := second.run()
	if failure != nil {
		t.Fatalf("failed: %+v", failure)
	}
	if want := `{"n":"failed timeout skipped"}`; output != want {
		t.Errorf("got %s, want %s", output, want)
	}
	if diff := cmp.Diff([]string{"t " + output}, second.calls); diff != "" {
		t.Errorf("calls of the second execution: %s", diff)
	}
}

// An answer that arrives in the moment in which the run continues as new is
// taken, by whichever execution.
func TestContinueAsNewLosesNoAnswer(t *testing.T) {
	t.Parallel()
	const source = `{name: a, description: d, timeout: 100h, steps: [
		{id: g, type: elicitation, message: m, timeout: 50h},
		{id: w, tool: t, dependsOn: [g]}]}`
	t.Run("the same workflow task", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, source, `{}`, nil)
		b.env.RegisterDelayedCallback(func() {
			b.env.SignalWorkflowSkippingWorkflowTask(workflows.AnswerSignal,
				signed(workflows.AnswerSignal, testRun, workflows.Answer{ElicitationID: "g#1", Action: "accept", Content: []byte(`{}`)}))
		}, time.Hour)
		b.suggest(time.Hour + time.Second)
		in := b.firstExecution()
		if len(in.Open) != 0 || !in.Journal["g"].Done() {
			t.Errorf("the answer was not taken: open %+v, journal %+v", in.Open, in.Journal)
		}
	})
	// Each answer that is recorded publishes all that was asked.
	t.Run("a task that is full", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, `{name: a, description: d, timeout: 100h, parameters: {type: object, properties: {text: {type: string}}}, steps: [
			{id: e, type: forEach, collection: "[0,1,2,3,4]", maxParallel: 5, timeout: 60h, step: {id: g, type: elicitation, message: "{{.params.text}}", timeout: 50h}},
			{id: pause, type: wait, for: 3h}]}`, fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 190<<10)), nil)
		b.env.RegisterDelayedCallback(func() {
			for i := range 5 {
				b.env.SignalWorkflowSkippingWorkflowTask(workflows.AnswerSignal,
					signed(workflows.AnswerSignal, testRun, workflows.Answer{ElicitationID: fmt.Sprintf("e[%d]#1", i), Action: "accept", Content: []byte(`{}`)}))
			}
		}, time.Hour)
		b.suggest(time.Hour + time.Second)
		in := b.firstExecution()
		for i := range 5 {
			if path := workflows.StepPath(fmt.Sprintf("e[%d]", i)); !in.Journal[path].Done() {
				t.Errorf("the answer to %s was lost: open %d, journal %+v", path, len(in.Open), in.Journal[path])
			}
		}
	})
	t.Run("before the next execution has begun", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, source, `{}`, nil)
		b.input.Continued = true
		b.input.Open = []workflows.Elicitation{{ID: "g#1", StepID: "g", StepPath: "g", State: workflows.ElicitationOpen,
			Opened: b.env.Now(), Expires: b.env.Now().Add(time.Hour)}}
		b.answer(0, "g#1", "accept", `{}`)
		if _, failure := b.run(); failure != nil {
			t.Errorf("failed: %+v", failure)
		}
	})
}

// A run whose journal outgrows what a new execution can be given continues in the one
// that it has.
func TestJournalOutgrowsItsRoom(t *testing.T) {
	t.Parallel()
	b := newBench(t, `{name: a, description: d, timeout: 10h, steps: [
		{id: e, type: forEach, collection: "[1,2,3,4,5,6,7,8]", maxParallel: 4, timeout: 5h, step: {tool: big, arguments: {n: "{{.forEach.item}}"}}}],
		output: {properties: {n: {type: integer, description: d, value: "{{.steps.e.output.completed}}"}}}}`, `{}`,
		map[string]toolFunc{"big": func(call workflows.ToolCall) (string, error) {
			return `{"n":"` + strings.Repeat("x", 600<<10) + `"}`, nil
		}})
	calls := 0
	b.env.SetOnActivityStartedListener(func(*activity.Info, context.Context, converter.EncodedValues) {
		if calls++; calls == 4 {
			b.env.SetContinueAsNewSuggested(true)
		}
	})
	output, failure := b.run()
	if failure != nil {
		t.Fatalf("failed: %+v", failure)
	}
	if output != `{"n":8}` {
		t.Errorf("got %s", output)
	}
}

// A journal that is kept elsewhere has room: the run continues as new with it,
// and reads nothing again.
func TestLargeJournalGoesOn(t *testing.T) {
	t.Parallel()
	const source = `{name: a, description: d, timeout: 10h, steps: [
		{id: one, tool: big}, {id: two, tool: big, dependsOn: [one]}, {id: rest, type: wait, for: 1h, dependsOn: [two]},
		{id: last, tool: t, dependsOn: [rest], arguments: {n: "{{len .steps.one.output.n}}"}}]}`
	tools := map[string]toolFunc{"big": func(workflows.ToolCall) (string, error) {
		return `{"n":"` + strings.Repeat("x", 1200<<10) + `"}`, nil
	}}
	first := newBench(t, source, `{}`, tools)
	first.input.MaxValue, first.input.MaxJournal = 8<<20, 8<<20
	first.suggest(30 * time.Minute)
	second := newBench(t, source, `{}`, tools)
	second.input = first.firstExecution()
	second.env.SetStartTime(second.input.Started.Add(time.Hour))
	output, failure := second.run()
	if failure != nil || output != `{"n":"1228800"}` || len(second.calls) != 1 {
		t.Errorf("the next execution came to %s, %+v, with %d calls", output, failure, len(second.calls))
	}
}

// A failed run is undone however long its history is.
func TestCompensationOfALongRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, `{name: a, description: d, steps: [
		{id: one, tool: t, arguments: {n: 1}, compensate: {tool: undo}},
		{id: bad, tool: fail, dependsOn: [one]}]}`, `{}`,
		map[string]toolFunc{"fail": func(call workflows.ToolCall) (string, error) { return failing(call) }})
	b.env.SetOnActivityStartedListener(func(_ *activity.Info, _ context.Context, args converter.EncodedValues) {
		var call workflows.ToolCall
		if args.Get(&call) == nil && call.Tool == "fail" {
			b.env.SetContinueAsNewSuggested(true)
		}
	})
	_, failure := b.run()
	if failure == nil || len(failure.Compensated) != 1 {
		t.Fatalf("got %+v, want one compensated", failure)
	}
}

// A compensation that is tried again has the key of the first attempt, since
// it may have been executed then.
func TestCompensationKeepsItsKey(t *testing.T) {
	t.Parallel()
	var keys []string
	b := newBench(t, `{name: a, description: d, steps: [
		{id: one, tool: t, compensate: {tool: undo}},
		{id: bad, tool: fail, dependsOn: [one]}]}`, `{}`,
		map[string]toolFunc{"fail": failing, "undo": func(call workflows.ToolCall) (string, error) {
			keys = append(keys, call.IdempotencyKey)
			if len(keys) == 1 {
				return failing(call)
			}
			return "{}", nil
		}})
	b.answer(time.Hour, "one/compensate#1", "decline", "")
	_, failure := b.run()
	if failure == nil || len(failure.Compensated) != 1 {
		t.Fatalf("got %+v, want one compensated", failure)
	}
	if len(keys) != 2 || keys[0] != keys[1] {
		t.Errorf("keys: %v", keys)
	}
}

// The step that completed first is undone last, also where an earlier execution
// completed it.
func TestCompensationOrderAfterContinueAsNew(t *testing.T) {
	t.Parallel()
	const source = `{name: a, description: d, timeout: 100h, steps: [
		{id: hour, type: wait, for: 1h},
		{id: later, tool: t, dependsOn: [hour], compensate: {tool: undo}},
		{id: sooner, tool: t, compensate: {tool: undo}},
		{id: pause, type: wait, for: 3h},
		{id: bad, tool: fail, dependsOn: [pause]}]}`
	first := newBench(t, source, `{}`, nil)
	began := first.env.Now()
	first.suggest(2 * time.Hour)
	first.env.RegisterDelayedCallback(func() { first.env.SignalWorkflow("wake", nil) }, 2*time.Hour)
	second := newBench(t, source, `{}`, map[string]toolFunc{"fail": failing})
	second.input = first.firstExecution()
	second.env.SetStartTime(began.Add(2 * time.Hour))
	_, failure := second.run()
	if failure == nil {
		t.Fatal("completed")
	}
	if diff := cmp.Diff([]workflows.StepPath{"later", "sooner"}, failure.Compensated); diff != "" {
		t.Error(diff)
	}
}

// An execution hands on what it does not reach: items of a forEach that had failed
// before, which a resumption must not make again.
func TestContinueAsNewHandsOn(t *testing.T) {
	t.Parallel()
	const source = `{name: a, description: d, timeout: 900h, failureMode: best_effort, steps: [
		{id: each, type: forEach, collection: '["good", "bad"]', maxParallel: 1, step: {tool: pay, arguments: {x: "{{.forEach.item}}"}}},
		{id: w, type: wait, for: 100h}]}`
	pay := func(call workflows.ToolCall) (string, error) {
		if call.StepPath == "each[1]" {
			return failing(call)
		}
		return `{"id":7}`, nil
	}
	b := newBench(t, source, `{}`, map[string]toolFunc{"pay": pay})
	for range 3 {
		now := b.env.Now()
		b.suggest(time.Hour)
		b.env.RegisterDelayedCallback(func() { b.env.SignalWorkflow("wake", nil) }, time.Hour)
		in := b.firstExecution()
		b = newBench(t, source, `{}`, map[string]toolFunc{"pay": pay})
		b.input = in
		b.env.SetStartTime(now.Add(time.Hour))
	}
	if e := b.input.Journal["each[0]"]; string(e.Output()) != `{"id":7}` {
		t.Errorf("of the item that was executed is known: %+v", e)
	}
	if e := b.input.Journal["each"]; e.Failure() == nil {
		t.Errorf("of the forEach is known: %+v", e)
	}
}

// Items that had completed before their forEach failed are undone when the run
// fails in a later execution.
func TestCompensationOfItemsAfterContinueAsNew(t *testing.T) {
	t.Parallel()
	const source = `{name: a, description: d, timeout: 900h, failureMode: continue, steps: [
		{id: each, type: forEach, collection: '["good", "bad"]', maxParallel: 1, step: {tool: pay, arguments: {x: "{{.forEach.item}}"},
		 compensate: {tool: unpay, arguments: {id: "{{.output.id}}", x: "{{.forEach.item}}"}}}},
		{id: w, type: wait, for: 100h}]}`
	pay := func(call workflows.ToolCall) (string, error) {
		if call.StepPath == "each[1]" {
			return failing(call)
		}
		return `{"id":7}`, nil
	}
	first := newBench(t, source, `{}`, map[string]toolFunc{"pay": pay})
	began := first.env.Now()
	first.suggest(time.Hour)
	first.env.RegisterDelayedCallback(func() { first.env.SignalWorkflow("wake", nil) }, time.Hour)
	second := newBench(t, source, `{}`, map[string]toolFunc{"pay": pay})
	second.input = first.firstExecution()
	second.env.SetStartTime(began.Add(time.Hour))
	_, failure := second.run()
	if failure == nil || len(failure.Compensated) != 1 || failure.Compensated[0] != "each[0]" {
		t.Errorf("got %+v", failure)
	}
	if len(second.calls) != 1 || second.calls[0] != `unpay {"id":"7","x":"good"}` {
		t.Errorf("calls: %v", second.calls)
	}
}

// A call that was under way when its forEach failed stays one of unknown
// outcome when the run continues as new.
func TestStoppedCallAfterContinueAsNew(t *testing.T) {
	t.Parallel()
	b := newBench(t, `{name: a, description: d, timeout: 900h, failureMode: best_effort, steps: [
		{id: each, type: forEach, collection: '["slow", "bad"]', step: {tool: pay, timeout: 10h, arguments: {x: "{{.forEach.item}}"},
		 onError: {action: retry, retryCount: 1, retryDelay: 1h}}},
		{id: w, type: wait, for: 100h}]}`, `{}`, map[string]toolFunc{"pay": func(call workflows.ToolCall) (string, error) {
		if call.StepPath == "each[1]" {
			return "", toolError(call, 1, 0, "no")
		}
		return "", toolError(call, 1, 1, "not yet") // and is stopped before it is called again
	}})
	b.suggest(5 * time.Hour)
	b.env.RegisterDelayedCallback(func() { b.env.SignalWorkflow("wake", nil) }, 5*time.Hour)
	in := b.firstExecution()
	if call, ok := in.Journal["each[0]"].Kind.(record.Call); !ok || call.OutcomeUnknown == nil {
		t.Errorf("of the call that was stopped is known: %+v", in.Journal)
	}
}

// TestStoppedBeforeItGoesOn: the time of a run is over before the execution in which it
// continues has begun. What it had done is undone all the same, and nothing else is called.
func TestStoppedBeforeItGoesOn(t *testing.T) {
	t.Parallel()
	const source = `{name: a, description: d, timeout: 100h, steps: [
		{id: one, tool: t, arguments: {n: 1}, compensate: {tool: undo, arguments: {n: "{{.steps.one.output.n}}"}}},
		{id: each, type: forEach, dependsOn: [one], collection: "[2,3,4]", maxParallel: 1, timeout: 90h,
			step: {tool: t, arguments: {n: "{{.forEach.item}}"}, compensate: {tool: undo, arguments: {n: "{{.output.n}}"}}}},
		{id: written, type: script, dependsOn: [each], script: "return {'n': t(n = 5)['n']}"},
		{id: after, tool: t, dependsOn: [written], arguments: {n: "{{.steps.written.output.n}}"}, compensate: {tool: undo, arguments: {n: "{{.output.n}}"}}},
		{id: asked, type: elicitation, dependsOn: [after], message: m, timeout: 90h},
		{id: rest, tool: t, dependsOn: [asked], arguments: {n: 6}}]}`
	first := newBench(t, source, `{}`, nil)
	began := first.env.Now()
	first.suggest(time.Hour)
	in := first.firstExecution()
	b := newBench(t, source, `{}`, nil)
	b.input = in
	b.env.SetStartTime(began.Add(200 * time.Hour))
	_, failure := b.run()
	if failure == nil {
		t.Fatal("completed")
	}
	if want := []string{`undo {"n":"5"}`, `undo {"n":"4"}`, `undo {"n":"3"}`, `undo {"n":"2"}`, `undo {"n":"1"}`}; !slices.Equal(b.calls, want) {
		t.Errorf("called were %v, want %v; %+v", b.calls, want, failure)
	}
}

// TestStoppedAboveACalledRun: the same where a called run is under way. It is cancelled, and
// its end awaited.
func TestStoppedAboveACalledRun(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]struct{ steps, path string }{
		"a step":               {`{id: call, type: workflow, workflow: b}`, "call"},
		"a branch of a script": {`{id: s, type: script, script: "parallel([lambda: call_workflow('b')])"}`, "s/main:1[0]/main:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stoppedAbove(t, how.steps, workflows.StepPath(how.path))
		})
	}
}

func stoppedAbove(t *testing.T, steps string, path workflows.StepPath) {
	const called = "b/called"
	b := newBench(t, `{name: a, description: d, timeout: 1h, steps: [`+steps+`]}
---
{name: b, description: d, steps: [{id: ok, type: elicitation, message: Go on?}]}`, `{}`, nil)
	b.input.Continued, b.input.Started = true, b.env.Now()
	b.input.Journal = map[workflows.StepPath]record.Entry{path: {Kind: record.Child{ID: called, Started: true}, Order: 1}}
	b.env.SetStartTime(b.env.Now().Add(2 * time.Hour))
	b.env.OnSignalExternalWorkflow(anything, called, anything, workflows.AdoptSignal, anything).Return(nil)
	cancelled := 0
	b.env.OnRequestCancelExternalWorkflow(anything, called, anything).Return(func(_, _, _ string) error {
		cancelled++
		b.env.RegisterDelayedCallback(func() {
			b.signal(workflows.ChildSignal, workflows.ChildReport{RunID: called, StepPath: path, Ends: true})
		}, time.Second)
		return nil
	})
	b.env.RegisterActivityWithOptions(func(context.Context, string) (*workflows.ChildOutcome, error) {
		return &workflows.ChildOutcome{Failure: &workflows.Failure{Error: workflows.Error{Code: codes.Cancelled, Category: codes.CategoryCancelled}}}, nil
	}, activity.RegisterOptions{Name: workflows.OutcomeName})
	_, failure := b.run()
	if failure == nil || failure.Error.Code != codes.RunTimeout || cancelled != 1 {
		t.Errorf("the called run was cancelled %d times; got %+v", cancelled, failure)
	}
}
