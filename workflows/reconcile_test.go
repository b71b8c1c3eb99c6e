package workflows_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/workflows"
	"github.com/perdure/perdure/workflows/record"
)

// losing loses the answers of the first calls.
func losing(times int) toolFunc {
	var lost atomic.Int64 // items are called side by side
	return func(call workflows.ToolCall) (string, error) {
		if lost.Add(1) <= int64(times) {
			e, repeat := workflows.Attempt{Call: call, Number: 1}.Lost("the connection broke")
			return "", workflows.Report(e, repeat)
		}
		return `{"id":"from the tool"}`, nil
	}
}

const unsure = `{name: a, description: d, timeout: 100h, steps: [
	{id: pay, tool: pay, arguments: {n: 1}, onUnknown: ask},
	{id: after, tool: t, dependsOn: [pay], arguments: {id: "{{.steps.pay.output.id}}"}}]}`

// A run that does not know whether an unsafe call was executed waits, and a person
// decides how it continues.
func TestReconcile(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name            string
		action, content string
		output, failure string
		calls           []string
	}{
		{"it happened", "accept", `{"outcome":"happened","result":"{\"id\": 7}"}`, `{"id":"7"}`, "", []string{`pay {"n":1}`, `t {"id":"7"}`}},
		{"it happened, without a result", "accept", `{"outcome":"happened"}`, `{}`, "", []string{`pay {"n":1}`, `t {}`}},
		{"it did not", "accept", `{"outcome":"not_happened"}`, `{"id":"from the tool"}`, "", []string{`pay {"n":1}`, `pay {"n":1}`, `t {"id":"from the tool"}`}},
		{"fail", "accept", `{"outcome":"fail"}`, "", "outcome_unknown", []string{`pay {"n":1}`}},
		{"declined", "decline", "", "", "outcome_unknown", []string{`pay {"n":1}`}},
		{"dismissed", "cancel", "", "", "outcome_unknown", []string{`pay {"n":1}`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var keys []string
			lost := losing(1)
			b := newBench(t, unsure, `{}`, map[string]toolFunc{"pay": func(call workflows.ToolCall) (string, error) {
				keys = append(keys, call.IdempotencyKey)
				return lost(call)
			}})
			var asked workflows.Elicitation
			b.onMemo(func(state workflows.State) {
				if e := state.Elicitations[0]; e.State == workflows.ElicitationOpen {
					asked = e
				}
			})
			b.answer(time.Hour, "pay/reconciliation#1", "accept", `{"outcome":"perhaps"}`)                            // none of the three
			b.answer(time.Hour, "pay/reconciliation#1", "accept", `{"outcome":"happened","result":"[7]"}`)            // no object
			b.answer(time.Hour, "pay/reconciliation#1", "accept", `{"outcome":"not_happened","result":"{\"id\":7}"}`) // contradicts itself
			b.answer(50*time.Hour, "pay/reconciliation#1", tc.action, tc.content)
			output, failure := b.run()
			if category := categoryOf(failure); output != tc.output || category != tc.failure {
				t.Errorf("got %s, %q; want %s, %q", output, category, tc.output, tc.failure)
			}
			if diff := cmp.Diff(tc.calls, b.calls); diff != "" {
				t.Error(diff)
			}
			if len(slices.Compact(keys)) != 1 {
				t.Errorf("the call was made with the keys %v, want one", keys)
			}
			if asked.Kind != workflows.Reconciliation || asked.StepID != "pay" || asked.Call == nil ||
				asked.Call.Tool != "pay" || string(asked.Call.Arguments) != `{"n":1}` || asked.Call.Key != keys[0] || asked.Call.Sent.IsZero() {
				t.Errorf("asked %+v about %+v", asked, asked.Call)
			}
		})
	}
}

func categoryOf(f *workflows.Failure) string {
	if f == nil {
		return ""
	}
	return string(f.Error.Category)
}

// Each time that the outcome is not known is asked for by itself.
func TestReconcileAgainAndAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, unsure, `{}`, map[string]toolFunc{"pay": losing(2)})
	b.answer(time.Hour, "pay/reconciliation#1", "accept", `{"outcome":"not_happened"}`)
	b.answer(2*time.Hour, "pay/reconciliation#1", "accept", `{"outcome":"not_happened"}`) // too late
	b.answer(3*time.Hour, "pay/reconciliation#2#1", "accept", `{"outcome":"not_happened"}`)
	output, failure := b.run()
	if failure != nil || output != `{"id":"from the tool"}` {
		t.Errorf("got %s, %+v", output, failure)
	}
	if took := b.env.Now(); len(b.calls) != 4 {
		t.Errorf("calls until %s: %v", took, b.calls)
	}
}

// The configuration of a tool counts where the step says nothing.
func TestOnUnknownOfATool(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ step, tool, failure string }{
		{"", "", "outcome_unknown"}, {"", "ask", ""}, {"fail", "ask", "outcome_unknown"}, {"ask", "fail", ""},
	} {
		t.Run(fmt.Sprintf("step %q, tool %q", tc.step, tc.tool), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, strings.Replace(unsure, "onUnknown: ask", fmt.Sprintf("onUnknown: %q", tc.step), 1), `{}`, map[string]toolFunc{"pay": losing(1)})
			tool := b.input.Tools["pay"]
			tool.OnUnknown = definitions.OnUnknown(tc.tool)
			b.input.Tools["pay"] = tool
			b.answer(time.Hour, "pay/reconciliation#1", "accept", `{"outcome":"happened"}`)
			if _, failure := b.run(); categoryOf(failure) != tc.failure {
				t.Errorf("failed %+v, want %q", failure, tc.failure)
			}
		})
	}
}

// A run that waits to be told continues as new without calling again, and the
// answer is taken by the execution that follows.
func TestReconcileAfterContinueAsNew(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		outcome string
		calls   []string
	}{
		{"happened", []string{`t {}`}},
		{"not_happened", []string{`pay {"n":1}`, `t {"id":"from the tool"}`}},
	} {
		t.Run(tc.outcome, func(t *testing.T) {
			t.Parallel()
			first := newBench(t, unsure, `{}`, map[string]toolFunc{"pay": losing(1)})
			began := first.env.Now()
			first.suggest(2 * time.Hour)
			first.env.RegisterDelayedCallback(func() { first.env.SignalWorkflow("wake", nil) }, 2*time.Hour)
			second := newBench(t, unsure, `{}`, map[string]toolFunc{"pay": losing(0)})
			second.input = first.firstExecution()
			second.env.SetStartTime(began.Add(2 * time.Hour))
			second.answer(time.Hour, "pay/reconciliation#1", "accept", fmt.Sprintf(`{"outcome":%q}`, tc.outcome))
			if _, failure := second.run(); failure != nil {
				t.Fatalf("failed: %+v", failure)
			}
			if diff := cmp.Diff(tc.calls, second.calls); diff != "" {
				t.Errorf("calls of the second execution: %s", diff)
			}
		})
	}
}

// A run that is cancelled, or out of time, while it waits to be told ends.
func TestReconcileEndsWithTheRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, unsure, `{}`, map[string]toolFunc{"pay": losing(1)})
	b.env.RegisterDelayedCallback(b.env.CancelWorkflow, time.Hour)
	if _, failure := b.run(); categoryOf(failure) != "cancelled" {
		t.Errorf("failed: %+v", failure)
	}
	b = newBench(t, unsure, `{}`, map[string]toolFunc{"pay": losing(1)})
	if _, failure := b.run(); categoryOf(failure) != "timeout" || len(b.calls) != 1 {
		t.Errorf("failed: %+v after %v", failure, b.calls)
	}
}

// A reset run no longer finds a call that it had sent before, once a person has said that
// the call was not executed, and finds those after it.
func TestReconcileAfterReset(t *testing.T) {
	t.Parallel()
	b := newBench(t, unsure, `{}`, map[string]toolFunc{"pay": func(call workflows.ToolCall) (string, error) {
		if !call.SearchHistory || !call.Anew.Before(call.Decided) {
			t.Errorf("called with %+v", call)
		}
		if call.Anew.IsZero() {
			e, repeat := workflows.Attempt{Call: call, Number: 1}.SentBefore()
			return "", workflows.Report(e, repeat)
		}
		return `{"id":"from the tool"}`, nil
	}})
	b.input.WasReset = true
	b.answer(time.Hour, "pay/reconciliation#1", "accept", `{"outcome":"not_happened"}`)
	output, failure := b.run()
	if failure != nil || output != `{"id":"from the tool"}` {
		t.Errorf("got %s, %+v", output, failure)
	}
}

// A call that failed after it was said not to have been executed is no longer
// one of unknown outcome.
func TestReconciledCallThatFails(t *testing.T) {
	t.Parallel()
	lost := losing(1)
	b := newBench(t, unsure, `{}`, map[string]toolFunc{"pay": func(call workflows.ToolCall) (string, error) {
		if out, err := lost(call); err != nil {
			return out, err
		}
		return failing(call)
	}})
	b.answer(time.Hour, "pay/reconciliation#1", "accept", `{"outcome":"not_happened"}`)
	if _, failure := b.run(); categoryOf(failure) != "tool" {
		t.Fatalf("got %+v", failure)
	}
	journal := b.journal()
	if pay, ok := journal.Entries["pay"].Kind.(record.Call); len(journal.OutcomeUnknown) != 0 || !ok || pay.OutcomeUnknown == nil || !pay.OutcomeUnknown.NotHappened {
		t.Errorf("unsettled: %+v, %+v", journal.OutcomeUnknown, pay)
	}
}

// journal is what the run says it has done.
func (b *bench) journal() (journal workflows.RunRecord) {
	b.t.Helper()
	answer, err := b.env.QueryWorkflow(workflows.RecordQuery)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := answer.Get(&journal); err != nil {
		b.t.Fatal(err)
	}
	return journal
}

// Where a question is too large to be asked, the outcome stays unknown.
func TestReconcileWithoutRoomToAsk(t *testing.T) {
	t.Parallel()
	b := newBench(t, unsure, `{}`, map[string]toolFunc{"pay": func(call workflows.ToolCall) (string, error) {
		e, repeat := workflows.Attempt{Call: call, Number: 1}.Lost(strings.Repeat("x", 300<<10))
		return "", workflows.Report(e, repeat)
	}})
	if _, failure := b.run(); categoryOf(failure) != "outcome_unknown" {
		t.Errorf("got %.300s", fmt.Sprintf("%+v", failure))
	}
}

// A question that was asked before the run continued as new is left to people,
// also where the probe would know by now: it does not stay open for ever.
func TestProbeAfterContinueAsNew(t *testing.T) {
	t.Parallel()
	const source = `{name: a, description: d, timeout: 100h, steps: [
		{id: pay, tool: pay, arguments: {n: 1}, onUnknown: ask, probe: {tool: look, happened: "true"}},
		{id: after, tool: t, dependsOn: [pay], arguments: {id: "{{.steps.pay.output.id}}"}}]}`
	first := newBench(t, source, `{}`, map[string]toolFunc{"pay": losing(1), "look": failing})
	began := first.env.Now()
	first.suggest(2 * time.Hour)
	first.env.RegisterDelayedCallback(func() { first.env.SignalWorkflow("wake", nil) }, 2*time.Hour)
	look := first.input.Tools["look"]
	look.Effect = definitions.Read
	first.input.Tools["look"] = look
	second := newBench(t, source, `{}`, map[string]toolFunc{"pay": losing(0)})
	second.input = first.firstExecution()
	second.env.SetStartTime(began.Add(2 * time.Hour))
	var last workflows.State
	second.onMemo(func(state workflows.State) { last = state })
	second.answer(time.Hour, "pay/reconciliation#1", "accept", `{"outcome":"happened"}`)
	if _, failure := second.run(); failure != nil {
		t.Fatalf("failed: %+v", failure)
	}
	if diff := cmp.Diff([]string{`t {}`}, second.calls); diff != "" {
		t.Errorf("calls of the second execution: %s", diff)
	}
	if len(last.Elicitations) != 1 || last.Elicitations[0].State != workflows.ElicitationAnswered {
		t.Errorf("told: %+v", last)
	}
}

// While a failed run undoes one step after the other, what was answered is told.
func TestCompensationTellsWhatWasAnswered(t *testing.T) {
	t.Parallel()
	var last workflows.State
	b := newBench(t, undoable, `{}`, map[string]toolFunc{"unmake": func(call workflows.ToolCall) (string, error) {
		if call.StepPath == "two/compensate#1" {
			return failing(call)
		}
		for _, e := range last.Elicitations {
			if e.State == workflows.ElicitationOpen {
				t.Errorf("open while %s is called: %s", call.StepPath, e.ID)
			}
		}
		return `{}`, nil
	}})
	b.onMemo(func(state workflows.State) { last = workflows.State{Elicitations: slices.Clone(state.Elicitations)} })
	b.answer(time.Hour, "g#1", "decline", "")
	b.answer(2*time.Hour, "two/compensate#1", "accept", "")
	if _, failure := b.run(); failure == nil || len(failure.Compensated) != 2 {
		t.Errorf("got %+v", failure)
	}
}

// The ID of a question that was answered before the run continued as new is not
// that of another one when the run is resumed.
func TestAskedBeforeContinueAsNew(t *testing.T) {
	t.Parallel()
	first := newBench(t, `{name: a, description: d, timeout: 100h, steps: [{id: g, type: elicitation, message: Go on?, timeout: 50h},
		{id: w, type: wait, for: 2h, dependsOn: [g]}, {id: after, tool: t, dependsOn: [w]}]}`, `{}`, nil)
	began := first.env.Now()
	first.answer(time.Hour, "g#1", "accept", `{}`)
	first.suggest(2 * time.Hour)
	first.env.RegisterDelayedCallback(func() { first.env.SignalWorkflow("wake", nil) }, 2*time.Hour)
	second := newBench(t, `{name: a, description: d, steps: [{id: x, tool: t}]}`, `{}`, map[string]toolFunc{"t": failing})
	second.input = first.firstExecution()
	second.env.SetStartTime(began.Add(2 * time.Hour))
	if _, failure := second.run(); failure == nil {
		t.Fatal("completed")
	}
	if n := second.journal().Asked["g"]; n != 1 {
		t.Errorf("g has asked %d times, want 1", n)
	}
}

// onMemo calls f with each state that the run publishes.
func (b *bench) onMemo(f func(workflows.State)) { b.read(&memoReader{f: f}) }

func (b *bench) read(m *memoReader) {
	b.intercept(m)
}

type memoReader struct {
	interceptor.WorkerInterceptorBase
	f       func(workflows.State)
	waiting func(string) // told what the run reports that it waits for; nil = none
}

func (m *memoReader) InterceptWorkflow(ctx workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	if workflow.GetInfo(ctx).ParentWorkflowExecution != nil { // what it asks is asked above
		return next
	}
	return &memoInbound{interceptor.WorkflowInboundInterceptorBase{Next: next}, m}
}

type memoInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	reader *memoReader
}

func (m *memoInbound) Init(outbound interceptor.WorkflowOutboundInterceptor) error {
	return m.Next.Init(&memoOutbound{interceptor.WorkflowOutboundInterceptorBase{Next: outbound}, m.reader})
}

type memoOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	reader *memoReader
}

func (m *memoOutbound) UpsertMemo(ctx workflow.Context, memo map[string]any) error {
	if state, ok := memo[workflows.MemoState].(workflows.State); ok && m.reader.f != nil && len(state.Elicitations) > 0 {
		m.reader.f(state)
	}
	return m.Next.UpsertMemo(ctx, memo)
}

func (m *memoOutbound) UpsertTypedSearchAttributes(ctx workflow.Context, updates ...temporal.SearchAttributeUpdate) error {
	key := temporal.NewSearchAttributeKeyKeyword(workflows.AttrWaiting)
	const untouched = "untouched"
	told := temporal.NewSearchAttributes(append([]temporal.SearchAttributeUpdate{key.ValueSet(untouched)}, updates...)...)
	if value, _ := told.GetKeyword(key); m.reader.waiting != nil && value != untouched {
		m.reader.waiting(value) // "" = nothing any more
	}
	return m.Next.UpsertTypedSearchAttributes(ctx, updates...)
}
