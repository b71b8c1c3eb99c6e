package workflows_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/workflows"
)

// A locked tool lacks a credential until it is given one, and takes note of the
// keys with which it was called.
type locked struct {
	*bench
	began time.Time
	from  time.Duration // since then, when the credential is there
	keys  []string
}

func (l *locked) call(call workflows.ToolCall) (string, error) {
	l.mu.Lock()
	l.keys = append(l.keys, call.IdempotencyKey)
	l.mu.Unlock()
	if l.env.Now().Sub(l.began) < l.from {
		return "", needed(call, 1)
	}
	return `{"id":"from the tool"}`, nil
}

func needed(call workflows.ToolCall, attempt int) error {
	e, repeat := workflows.Attempt{Call: call, Number: attempt}.Unauthorized("it has expired")
	return workflows.Report(e, repeat)
}

const guarded = `{name: a, description: d, timeout: 100h, steps: [
	{id: pay, tool: pay, arguments: {n: 1}, timeout: 1m},
	{id: after, tool: t, dependsOn: [pay], arguments: {id: "{{.steps.pay.output.id}}"}}]}`

func newLocked(t *testing.T, source string, from time.Duration) *locked {
	l := &locked{from: from}
	l.bench = newBench(t, source, `{}`, map[string]toolFunc{"pay": l.call})
	l.began = l.env.Now()
	return l
}

// A run that lacks a credential waits much longer than its step may take, and
// makes the same call when it is given.
func TestCredentials(t *testing.T) {
	t.Parallel()
	b := newLocked(t, guarded, 50*time.Hour)
	var asked []workflows.Elicitation
	b.onMemo(func(state workflows.State) {
		for _, e := range state.Elicitations {
			if e.State == workflows.ElicitationOpen && !slices.ContainsFunc(asked, func(a workflows.Elicitation) bool { return a.ID == e.ID }) {
				asked = append(asked, e)
			}
		}
	})
	b.answer(50*time.Hour+time.Second, "pay/credentials#1", "accept", `{}`)
	b.answer(50*time.Hour+2*time.Second, "pay/credentials#1", "accept", `{}`) // given twice
	output, failure := b.run()
	if failure != nil || output != `{"id":"from the tool"}` {
		t.Fatalf("got %s, %+v", output, failure)
	}
	if keys := slices.Compact(slices.Clone(b.keys)); len(keys) != 1 {
		t.Errorf("the call was made with the keys %v, want one", keys)
	}
	if len(asked) != 1 {
		t.Fatalf("asked %d times, want once: %+v", len(asked), asked)
	}
	e := asked[0]
	if e.Kind != workflows.Credentials || e.StepID != "pay" || e.Backend != "be" || e.Expires.Sub(e.Opened) != 100*time.Hour || // with the run

		!strings.Contains(e.Message, "pay needs a credential for backend be: it has expired") {
		t.Errorf("asked %+v", e)
	}
	if n := len(b.keys); n > 60 {
		t.Errorf("tried %d times within 50 hours", n)
	}
}

// Without a signal, the run finds the credential by itself, soon at first.
func TestCredentialsAreFound(t *testing.T) {
	t.Parallel()
	for _, from := range []time.Duration{3 * time.Second, 30 * time.Hour} {
		b := newLocked(t, guarded, from)
		if _, failure := b.run(); failure != nil {
			t.Fatalf("failed: %+v", failure)
		}
		if late := b.env.Now().Sub(b.began) - from; late > time.Hour || from == 3*time.Second && late > 10*time.Second {
			t.Errorf("found %s after they were there", late)
		}
		if n := len(b.keys); from == 3*time.Second && n != 2 {
			t.Errorf("called %d times", n)
		}
	}
}

// A credential that is brought and is none makes the run wait again.
func TestCredentialsThatDoNotHelp(t *testing.T) {
	t.Parallel()
	b := newLocked(t, guarded, 2*time.Hour)
	b.answer(time.Hour+time.Minute, "pay/credentials#1", "accept", `{}`)
	b.answer(time.Hour+2*time.Minute, "pay/credentials#1", "accept", `{}`) // was closed
	b.answer(2*time.Hour+time.Minute, "pay/credentials#2", "accept", `{}`)
	if _, failure := b.run(); failure != nil {
		t.Errorf("failed: %+v", failure)
	}
	if took := b.env.Now().Sub(b.began); took > 2*time.Hour+2*time.Minute {
		t.Errorf("took %s", took)
	}
}

func TestCredentialsThatNobodyBrings(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"decline", "cancel"} {
		b := newLocked(t, guarded, 1000*time.Hour)
		b.answer(time.Hour, "pay/credentials#1", action, "")
		if _, failure := b.run(); categoryOf(failure) != "credentials" || failure.Error.Code != "credentials_needed" || failure.Error.StepID != "pay" {
			t.Errorf("%s: %+v", action, failure)
		}
	}
}

// Waiting for a credential ends with the run, and with a forEach around it.
func TestCredentialsEndWithTheRun(t *testing.T) {
	t.Parallel()
	b := newLocked(t, guarded, 1000*time.Hour)
	b.env.RegisterDelayedCallback(b.env.CancelWorkflow, time.Hour)
	if _, failure := b.run(); categoryOf(failure) != "cancelled" {
		t.Errorf("cancelled: %+v", failure)
	}
	b = newLocked(t, guarded, 1000*time.Hour)
	if _, failure := b.run(); categoryOf(failure) != "timeout" || failure.Error.Code != "run_timeout" {
		t.Errorf("out of time: %+v", failure)
	}
	b = newLocked(t, `{name: a, description: d, timeout: 100h, steps: [
		{id: each, type: forEach, collection: "[1,2]", timeout: 2h, step: {tool: pay}}]}`, 1000*time.Hour)
	if _, failure := b.run(); failure == nil || failure.Error.Code != "step_timeout" {
		t.Errorf("forEach: %+v", failure)
	}
	if took := b.env.Now().Sub(b.began); took > 3*time.Hour {
		t.Errorf("the forEach took %s", took)
	}
}

// A read lacks credentials as well, within the workflow task.
func TestCredentialsOfARead(t *testing.T) {
	t.Parallel()
	b := newLocked(t, guarded, 50*time.Hour)
	tool := b.input.Tools["pay"]
	tool.Effect = "read"
	b.input.Tools["pay"] = tool
	b.answer(51*time.Hour, "pay/credentials#1", "accept", `{}`)
	if output, failure := b.run(); failure != nil || output != `{"id":"from the tool"}` {
		t.Errorf("got %s, %+v", output, failure)
	}
}

// Failures before the credential was missing count: the call is made no oftener than
// onError says.
func TestCredentialsGiveNoMoreAttempts(t *testing.T) {
	t.Parallel()
	executed, lacking := 0, 0
	b := newBench(t, `{name: a, description: d, timeout: 100h, steps: [
		{id: pay, tool: pay, onError: {action: retry, retryCount: 2, retryDelay: 1s}}]}`, `{}`, map[string]toolFunc{
		"pay": func(call workflows.ToolCall) (string, error) {
			if executed == 1 && lacking == 0 {
				lacking++
				return "", needed(call, 2)
			}
			executed++
			e, repeat := workflows.Attempt{Call: call, Number: executed - lacking}.Answered("no")
			return "", workflows.Report(e, repeat)
		}})
	if _, failure := b.run(); failure == nil || failure.Error.Code != "tool_error" {
		t.Errorf("failed: %+v", failure)
	}
	if executed != 3 {
		t.Errorf("executed %d times, want 3: once, and two retries", executed)
	}
}

// A run that waits for a credential continues as new, also when it waits for the second
// time, and continues when it is told there.
func TestCredentialsAfterContinueAsNew(t *testing.T) {
	t.Parallel()
	source := strings.Replace(guarded, "{id: pay,", `{id: pay, defaultResults: {id: none}, condition: "{{lt .workflow.duration_ms 1000}}",`, 1)
	first := newLocked(t, source, 1000*time.Hour)
	first.answer(time.Hour+time.Minute, "pay/credentials#1", "accept", `{}`)
	first.suggest(2 * time.Hour)
	first.env.RegisterDelayedCallback(func() { first.env.SignalWorkflow("wake", nil) }, 2*time.Hour)
	in := first.firstExecution()
	if len(in.Open) != 1 || in.Open[0].ID != "pay/credentials#2" || in.Open[0].Backend != "be" {
		t.Fatalf("open are %+v", in.Open)
	}
	for _, from := range []time.Duration{0, 10 * time.Hour} { // at once, and when it is told
		second := newLocked(t, source, from)
		second.input = in
		second.env.SetStartTime(first.began.Add(2 * time.Hour))
		second.began = first.began.Add(2 * time.Hour)
		var ids []string
		second.onMemo(func(state workflows.State) {
			for _, e := range state.Elicitations {
				ids = append(ids, e.ID+" "+string(e.State))
			}
		})
		second.answer(10*time.Hour+time.Minute, "pay/credentials#2", "accept", `{}`)
		if output, failure := second.run(); failure != nil || output != `{"id":"from the tool"}` {
			t.Errorf("got %s, %+v", output, failure)
		}
		want := []string{"pay/credentials#2 open", "pay/credentials#2 dropped"}
		if from > 0 {
			want[1] = "pay/credentials#2 answered"
		}
		if diff := cmp.Diff(want, slices.Compact(ids)); diff != "" {
			t.Errorf("elicitations of the second execution: %s", diff)
		}
	}
}

// An answer that comes while the run is about to continue as new is not lost,
// though the call is no longer made in this execution.
func TestCredentialsWhileDraining(t *testing.T) {
	t.Parallel()
	b := newLocked(t, `{name: a, description: d, timeout: 100h, steps: [
		{id: pay, tool: pay, arguments: {n: 1}, timeout: 1m},
		{id: slow, tool: slow, timeout: 5h, onError: {action: retry, retryCount: 2, retryDelay: 1h}}]}`, 1000*time.Hour)
	slow := 0
	b.tools["slow"] = func(call workflows.ToolCall) (string, error) {
		slow++
		return "", toolError(call, slow, 2, "not yet")
	}
	b.suggest(30 * time.Second)
	b.answer(30*time.Minute, "pay/credentials#1", "decline", "")
	if _, failure := b.run(); categoryOf(failure) != "credentials" {
		t.Errorf("got %+v", failure)
	}
}
