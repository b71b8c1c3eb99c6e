package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/perdure/perdure/workflows"
)

// A line holds the calls of the tool pay for a while, and takes note of them.
type line struct {
	*bench
	began   time.Time
	from    time.Duration // since then, when calls are made
	pause   time.Duration // for which each is held until then
	why     string
	calls   []workflows.ToolCall
	queues  map[string]bool // on which activities came
	waiting []string        // what the run said that it waits for, in turn
}

func newLine(t *testing.T, source string, from time.Duration) *line {
	l := &line{from: from, pause: time.Hour, why: workflows.HeldByRate, queues: map[string]bool{}}
	l.bench = newBench(t, source, `{}`, map[string]toolFunc{"pay": l.call})
	l.began = l.env.Now()
	tool := l.input.Tools["pay"]
	tool.Limited = true
	l.input.Tools["pay"] = tool
	l.env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		l.queues[info.TaskQueue] = true
	})
	l.read(&memoReader{waiting: func(what string) { l.waiting = append(l.waiting, what) }})
	return l
}

func (l *line) call(call workflows.ToolCall) (string, error) {
	l.mu.Lock()
	l.calls = append(l.calls, call)
	l.mu.Unlock()
	if left := l.from - l.env.Now().Sub(l.began); left > 0 {
		return "", workflows.Attempt{Call: call, Number: 1}.ReportHold(workflows.Hold{Why: l.why, Pause: min(left, l.pause)})
	}
	return `{"id":"from the tool"}`, nil
}

const queued = `{name: a, description: d, timeout: 100h, steps: [
	{id: pay, tool: pay, arguments: {n: 1}, timeout: 1m},
	{id: after, tool: t, dependsOn: [pay], arguments: {id: "{{.steps.pay.output.id}}"}}]}`

// A call that the limits of its backend hold waits much longer than its step may
// take, tells what it waits for, and is made as if nothing had been.
func TestHeld(t *testing.T) {
	t.Parallel()
	for _, why := range []string{workflows.HeldByRate, workflows.HeldByBreaker, workflows.HeldByConcurrency} {
		l := newLine(t, queued, 5*time.Hour)
		l.why = why
		output, failure := l.run()
		if failure != nil || output != `{"id":"from the tool"}` {
			t.Fatalf("%s: got %s, %+v", why, output, failure)
		}
		if took := l.env.Now().Sub(l.began); took < 5*time.Hour || took > 5*time.Hour+time.Minute {
			t.Errorf("%s: took %s", why, took)
		}
		if len(l.calls) != 6 || l.calls[0].IdempotencyKey != l.calls[5].IdempotencyKey || l.calls[5].Limit != time.Minute {
			t.Errorf("%s: %d calls, %+v", why, len(l.calls), l.calls)
		}
		if !slices.Contains(l.waiting, why) || l.waiting[len(l.waiting)-1] != "" {
			t.Errorf("%s: the run told that it waits for %q", why, l.waiting)
		}
		if !l.queues[workflows.BackendQueue("be")] {
			t.Errorf("%s: called on %v", why, slices.Collect(maps.Keys(l.queues)))
		}
	}
}

// A call of a backend that cannot be reached is made again within its time and its
// attempts, and the run shows meanwhile what it waits for.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		step  string
		pause time.Duration
		code  string
		calls []int // MaxAttempts of each
	}{
		{"timeout: 1m", 10 * time.Second, "", []int{1, 1}},
		{"timeout: 1m, onError: {action: retry, retryCount: 3}", 10 * time.Second, "", []int{4, 3}},
		{"timeout: 1m", time.Minute, "backend_unavailable", []int{1}},
	} {
		var calls []workflows.ToolCall
		b := newBench(t, strings.Replace(queued, "timeout: 1m", tc.step, 1), `{}`, map[string]toolFunc{"pay": func(call workflows.ToolCall) (string, error) {
			if calls = append(calls, call); call.Waits {
				return `{"id": 1}`, nil
			}
			a := workflows.Attempt{Call: call, Number: 1}
			e, _ := a.Unavailable("connection refused")
			return "", a.ReportUnreachable(e, tc.pause)
		}})
		var waiting []string
		b.read(&memoReader{waiting: func(what string) { waiting = append(waiting, what) }})
		_, failure := b.run()
		var attempts []int
		for _, call := range calls {
			attempts = append(attempts, call.MaxAttempts)
		}
		code := ""
		if failure != nil {
			code = string(failure.Error.Code)
		}
		if code != tc.code || !slices.Equal(attempts, tc.calls) {
			t.Errorf("%s: %+v after calls with %v attempts", tc.step, failure, attempts)
		}
		if failure != nil {
			if failure.Error.Category != "tool" || len(waiting) > 0 {
				t.Errorf("%s: %+v, it waited for %v", tc.step, failure.Error, waiting)
			}
			continue
		}
		if !slices.Equal(waiting, []string{workflows.HeldByBackend, ""}) || calls[0].IdempotencyKey != calls[1].IdempotencyKey {
			t.Errorf("%s: it waited for %q, calls %+v", tc.step, waiting, calls)
		}
	}
}

// Where nothing is limited, nothing is said.
func TestNotHeld(t *testing.T) {
	t.Parallel()
	l := newLine(t, queued, 0)
	if _, failure := l.run(); failure != nil {
		t.Fatalf("%+v", failure)
	}
	if len(l.waiting) > 0 {
		t.Errorf("the run told that it waits for %q", l.waiting)
	}
	b := newBench(t, queued, `{}`, nil)
	if _, failure := b.run(); failure != nil {
		t.Fatalf("%+v", failure)
	}
}

// Being held ends with the run, with a forEach around it, and never makes an
// outcome unknown.
func TestHeldEndsWithTheRun(t *testing.T) {
	t.Parallel()
	l := newLine(t, queued, 1000*time.Hour)
	l.env.RegisterDelayedCallback(l.env.CancelWorkflow, 90*time.Minute)
	if _, failure := l.run(); categoryOf(failure) != "cancelled" {
		t.Errorf("cancelled: %+v", failure)
	}
	if journal := l.journal(); len(journal.OutcomeUnknown) > 0 {
		t.Errorf("cancelled: the journal says %+v", journal.OutcomeUnknown)
	}
	l = newLine(t, queued, 1000*time.Hour)
	if _, failure := l.run(); failure == nil || failure.Error.Code != "run_timeout" {
		t.Errorf("out of time: %+v", failure)
	}
	l = newLine(t, `{name: a, description: d, timeout: 100h, steps: [
		{id: each, type: forEach, collection: "[1,2]", timeout: 2h, step: {tool: pay}}]}`, 1000*time.Hour)
	if _, failure := l.run(); failure == nil || failure.Error.Code != "step_timeout" {
		t.Errorf("forEach: %+v", failure)
	}
}

// A run whose call is held continues as new, where the call is made with the
// same key; and one that was cancelled meanwhile is resumed.
func TestHeldAfterContinueAsNew(t *testing.T) {
	t.Parallel()
	first := newLine(t, queued, 1000*time.Hour)
	first.suggest(2*time.Hour + time.Minute)
	first.env.RegisterDelayedCallback(func() { first.env.SignalWorkflow("wake", nil) }, 2*time.Hour+2*time.Minute)
	in := first.firstExecution()
	if len(first.waiting) == 0 || first.waiting[len(first.waiting)-1] != "" {
		t.Errorf("the run told that it waits for %q", first.waiting)
	}
	second := newLine(t, queued, time.Hour)
	second.input = in
	if output, failure := second.run(); failure != nil || output != `{"id":"from the tool"}` {
		t.Errorf("got %s, %+v", output, failure)
	}
	if first.calls[0].IdempotencyKey != second.calls[0].IdempotencyKey {
		t.Error("the call has another key")
	}
}

// Failures before a call was held count: the call is made no oftener than onError says,
// and being held uses up no attempt.
func TestHeldGivesNoMoreAttempts(t *testing.T) {
	t.Parallel()
	executed, held := 0, 0
	b := newLine(t, `{name: a, description: d, timeout: 100h, steps: [
		{id: pay, tool: pay, onError: {action: retry, retryCount: 2, retryDelay: 1s}}]}`, 0)
	b.tools["pay"] = func(call workflows.ToolCall) (string, error) {
		if executed == 1 && held < 5 {
			held++
			attempt := 1
			if held == 1 {
				attempt = 2
			}
			return "", workflows.Attempt{Call: call, Number: attempt}.ReportHold(workflows.Hold{Why: workflows.HeldByBreaker, Pause: time.Minute})
		}
		executed++
		e, repeat := workflows.Attempt{Call: call, Number: max(executed-1, 1)}.Answered("no")
		return "", workflows.Report(e, repeat)
	}
	if _, failure := b.run(); failure == nil || failure.Error.Code != "tool_error" {
		t.Errorf("failed: %+v", failure)
	}
	if executed != 3 {
		t.Errorf("executed %d times, want 3: once, and two retries", executed)
	}
}

// A call that no process has taken was not made, also one of an unsafe tool.
func TestNobodyKeepsTheLimits(t *testing.T) {
	t.Parallel()
	l := newLine(t, queued, 0)
	l.tools["pay"] = func(workflows.ToolCall) (string, error) {
		return "", temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
	}
	_, failure := l.run()
	if failure == nil || failure.Error.Code != "backend_unavailable" || !strings.Contains(failure.Error.Message, "pay was not called, backend be cannot be reached") {
		t.Fatalf("%+v", failure)
	}
	if journal := l.journal(); len(journal.OutcomeUnknown) > 0 {
		t.Errorf("the journal says %+v", journal.OutcomeUnknown)
	}
}

// What became of an attempt that has told nothing, since its process stopped, is
// not known either where no process has taken the next.
func TestNobodyKeepsTheLimitsAnyMore(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{false, true} {
		l := newLine(t, queued, 0)
		l.tools["pay"] = func(call workflows.ToolCall) (string, error) {
			before := temporal.NewApplicationError("the worker stops", "")
			if known {
				before = workflows.Report(workflows.Attempt{Call: call, Number: 1}.Answered("no"))
			}
			return "", temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_START, before)
		}
		_, failure := l.run()
		want := "outcome_unknown"
		if known {
			want = "tool"
		}
		if categoryOf(failure) != want || len(l.journal().OutcomeUnknown) > 0 == known {
			t.Errorf("known = %t: %+v, journal %+v", known, failure, l.journal().OutcomeUnknown)
		}
	}
}

// Many calls that are held at once, and a question beside them: what people are
// asked is told first, and what is told is told seldom.
func TestManyHeld(t *testing.T) {
	t.Parallel()
	l := newLine(t, `{name: a, description: d, timeout: 100h, steps: [
		{id: each, type: forEach, collection: "{{json .params.items}}", maxParallel: 50, timeout: 90h, step: {tool: pay, arguments: {n: "{{.forEach.item}}"}}},
		{id: g, type: elicitation, message: m, timeout: 90h}]}`, 5*time.Hour)
	var items []string
	for i := range 50 {
		items = append(items, fmt.Sprint(i))
	}
	l.input.Arguments = []byte(`{"items":[` + strings.Join(items, ",") + `]}`)
	l.answer(2*time.Hour+time.Minute, "g#1", "accept", `{}`)
	if _, failure := l.run(); failure != nil {
		t.Fatalf("%+v", failure)
	}
	if len(l.waiting) > 20 || l.waiting[0] != "approval" || !slices.Contains(l.waiting, workflows.HeldByRate) || l.waiting[len(l.waiting)-1] != "" {
		t.Errorf("the run told that it waits for %q", l.waiting)
	}
}

// A process that dies before a call has left it, which it would have told, has
// not made it: another does. After that it is unknown.
func TestHostDies(t *testing.T) {
	t.Parallel()
	for _, left := range []bool{false, true} {
		l := newLine(t, queued, 0)
		died := 0
		l.tools["pay"] = func(workflows.ToolCall) (string, error) {
			if died++; died > 5 && !left { // the test environment repeats what Temporal does not
				return `{"id":"from the tool"}`, nil
			}
			if left {
				return "", temporal.NewHeartbeatTimeoutError(workflows.StepProgress{StepPath: "pay"})
			}
			return "", temporal.NewHeartbeatTimeoutError()
		}
		output, failure := l.run()
		switch {
		case left && categoryOf(failure) != "outcome_unknown":
			t.Errorf("it had left: %s, %+v after %d calls", output, failure, died)
		case !left && (failure != nil || died != 6):
			t.Errorf("it had not left: %+v after %d calls", failure, died)
		}
	}
}

// A call that workers take up and cannot read, or whose run may have been stopped by
// one above that no worker executes, waits for a worker that can, longer than its step
// may take, and is then made once: nothing was sent before.
func TestUnread(t *testing.T) {
	t.Parallel()
	unread := workflows.Unread(workflows.CallToolName, errors.New(`it was sealed with key "first"`))
	below := workflows.Attempt{Number: 1}.ReportHold(workflows.Hold{Why: workflows.HeldByParent, Pause: time.Second})
	for why, held := range map[string]error{workflows.HeldByPayload: unread, workflows.HeldByParent: below} {
		for _, limited := range []bool{false, true} {
			testAbsent(t, why, held, limited)
		}
	}
	l := newLine(t, queued, 0)
	l.tools["pay"] = func(workflows.ToolCall) (string, error) { return "", unread }
	l.env.RegisterDelayedCallback(l.env.CancelWorkflow, time.Hour)
	if _, failure := l.run(); categoryOf(failure) != "cancelled" || len(l.journal().OutcomeUnknown) > 0 {
		t.Errorf("cancelled meanwhile: %+v, %+v", failure, l.journal().OutcomeUnknown)
	}
}

// testAbsent has workers refuse a call for a reason a dozen times.
func testAbsent(t *testing.T, why string, held error, limited bool) {
	t.Helper()
	left := 12
	l := newLine(t, queued, 0)
	tool := l.input.Tools["pay"]
	tool.Limited = limited
	l.input.Tools["pay"] = tool
	var keys []string
	l.tools["pay"] = func(call workflows.ToolCall) (string, error) {
		keys = append(keys, call.IdempotencyKey)
		if left--; left >= 0 {
			return "", held
		}
		return `{"id":"from the tool"}`, nil
	}
	output, failure := l.run()
	if failure != nil || output != `{"id":"from the tool"}` {
		t.Fatalf("%s, limited %t: got %s, %+v", why, limited, output, failure)
	}
	if len(keys) != 13 || keys[0] != keys[12] {
		t.Errorf("%s, limited %t: taken up with %v", why, limited, keys)
	}
	if took := l.env.Now().Sub(l.began); took < 5*time.Minute || took > 10*time.Minute {
		t.Errorf("%s, limited %t: took %s", why, limited, took)
	}
	if !slices.Contains(l.waiting, why) || l.waiting[len(l.waiting)-1] != "" {
		t.Errorf("%s, limited %t: the run told that it waits for %q", why, limited, l.waiting)
	}
}
