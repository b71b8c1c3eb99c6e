package workflows_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"go.temporal.io/sdk/temporal"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// continuedRun plays a definition until it is woken after a while, and the execution
// after that. Ends reports how that ended.
func continuedRun(t *testing.T, source string, tools map[string]toolFunc, after time.Duration) (output string, failure *workflows.Failure, calls []string) {
	t.Helper()
	first := newBench(t, source, `{}`, tools)
	began := first.env.Now()
	first.suggest(after)
	first.env.RegisterDelayedCallback(func() { first.env.SignalWorkflow("wake", nil) }, after)
	second := newBench(t, source, `{}`, tools)
	second.input = first.firstExecution()
	second.env.SetStartTime(began.Add(after))
	output, failure = second.run()
	return output, failure, second.calls
}

// stoppedPay never ends in time: it fails, and is to be called again in an hour.
func stoppedPay(call workflows.ToolCall) (string, error) {
	return "", toolError(call, 1, 1, "not yet")
}

// How within has ended stays so when the run continues as new: what was in time does
// not run out of it, and what has run out of it does not continue.
func TestWithinContinuesAsNew(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, script, want string }{
		{"in time", `
r = within("5m", lambda: parallel([lambda: echo(n=1)["n"], lambda: echo(n=2)["n"]]))
sleep("10h")
return r`, `[1,2]`},
		{"run out while it sleeps", `
seen = []
def late():
    seen.append(echo(n=1)["n"])
    sleep("10m")
    seen.append(echo(n=2)["n"])
r = attempt(lambda: within("5m", late))
sleep("10h")
return [r.error.category, seen]`, `["timeout",[1]]`},
		{"run out while it calls", `
def late():
    r = try_call_tool("pay", {}, "9h", policy(retries=1, delay="1h"))
    echo(n=1)
    return r.ok
r = attempt(lambda: within("5m", late))
sleep("10h")
return [r.error.category, r.error.code]`, `["timeout","step_timeout"]`},
		{"run out while it asks", `
r = attempt(lambda: within("5m", lambda: elicit("well?", timeout="1h").action))
sleep("10h")
return [r.error.category, r.error.code]`, `["timeout","step_timeout"]`},
		{"run out in branches", `
def late(n):
    echo(n=n)
    sleep("%dm" % (n * 3))
    return echo(n=n * 10)
seen = []
def all():
    seen.append(map_parallel(late, [1], on_error="collect")[0].ok)
    seen.append(map_parallel(late, [1, 2, 3], on_error="collect"))
r = attempt(lambda: within("5m", all))
sleep("10h")
return [r.error.category, seen]`, `["timeout",[true]]`},
		{"run out around another", `
def late():
    return within("20m", lambda: sleep("10m"))
r = attempt(lambda: within("5m", late, name="outer"))
sleep("10h")
return r.error.message`, `"step outer timed out after 5m0s"`},
		{"run out and repeated", `
tries = []
def late():
    tries.append(1)
    sleep("10m" if len(tries) < 2 else "1s")
    return echo(n=len(tries))["n"]
r = retry(lambda: within("5m", late))
sleep("10h")
return r`, `2`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			output, failure, calls := continuedRun(t, scripted(test.script, ""), map[string]toolFunc{"pay": stoppedPay}, 3*time.Hour)
			if failure != nil {
				t.Fatalf("failed: %+v", failure.Error)
			}
			if output != test.want || len(calls) > 0 {
				t.Errorf("got %s and calls %q, want %s", output, calls, test.want)
			}
		})
	}
}

// A script step that has completed does not run out of its time in the execution
// after, which executes it from what is recorded.
func TestScriptStepInTimeContinuesAsNew(t *testing.T) {
	t.Parallel()
	output, failure, calls := continuedRun(t, `{name: a, description: d, timeout: 100h, steps: [
		{id: s, type: script, timeout: 5m, script: "return parallel([lambda: echo(n=1)['n'], lambda: echo(n=2)['n']])\n"},
		{id: w, type: wait, for: 10h, dependsOn: [s]}],
		output: {properties: {n: {type: string, description: d, value: "{{json .steps.s.output}}"}}}}`, nil, 3*time.Hour)
	if failure != nil {
		t.Fatalf("failed: %+v", failure.Error)
	}
	if output != `{"n":"[1,2]"}` || len(calls) > 0 {
		t.Errorf("got %s and calls %q", output, calls)
	}
}

// A run that fails undoes the calls that its script made in an earlier execution, also
// where the later execution does not reach them.
func TestUndoContinuesAsNew(t *testing.T) {
	t.Parallel()
	const undoing = `
def pay(n):
    return call_tool("echo", {"n": n}, None, policy(undo=undo("unpay", lambda out: {"n": out["n"]})))
def late(n):
    sleep("%ds" % n) # so that the order is known
    pay(n)
    sleep("20m")
def early():
    sleep("10m")
    fail("early")
`
	for _, test := range []struct {
		name, source string
		want         []string
	}{
		{"reached again", scripted(undoing+"pay(1)\npay(2)\nsleep('10h')\nfail('no')", ""), []string{`unpay {"n":2}`, `unpay {"n":1}`}},
		{"stopped by a branch that failed", scripted(undoing+"attempt(lambda: parallel([lambda: late(1), lambda: late(2), early]))\npay(3)\nsleep('10h')\nfail('no')", ""),
			[]string{`unpay {"n":3}`, `unpay {"n":2}`, `unpay {"n":1}`}},
		{"run out of time", scripted(undoing+"attempt(lambda: within('5m', lambda: map_parallel(late, [1, 2])))\nsleep('10h')\nfail('no')", ""),
			[]string{`unpay {"n":2}`, `unpay {"n":1}`}},
		{"items of a forEach that failed", `{name: a, description: d, timeout: 900h, failureMode: continue, steps: [
			{id: each, type: forEach, collection: '[1, 2]', maxParallel: 1, step: {type: script, arguments: {n: "{{.forEach.item}}"},
				script: "call_tool('echo', {'n': data['n']}, None, policy(undo=undo('unpay', lambda out: {'n': out['n']})))\nif str(data['n']) == '2':\n  fail('no')\n"}},
			{id: w, type: wait, for: 100h},
			{id: bad, type: script, script: "fail('no')\n", dependsOn: [w]}],
			output: {properties: {n: {type: string, description: d, value: "{{.steps.bad.output.x.y.z}}"}}}}`, []string{`unpay {"n":2}`, `unpay {"n":1}`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, failure, calls := continuedRun(t, test.source, nil, 3*time.Hour)
			if failure == nil {
				t.Fatal("it did not fail")
			}
			if diff := cmp.Diff(test.want, calls); diff != "" {
				t.Errorf("%s, failed with %+v", diff, failure)
			}
		})
	}
}

// The result has each report once, in the order in which it was made.
func TestReportContinuesAsNew(t *testing.T) {
	t.Parallel()
	source := scripted(`
def slow(n):
    sleep("%dm" % (30 - n))
    report(attempt(lambda: fail("no %d" % n)).error)
map_parallel(slow, [1, 2, 3])
def early():
    report(attempt(lambda: fail("no 0")).error)
    sleep("20m")
attempt(lambda: parallel([early, lambda: sleep("10m") or fail("stops it")]))
sleep("10h")
return 1`, "failureMode: best_effort")
	first := newBench(t, source, `{}`, nil)
	began := first.env.Now()
	first.suggest(3 * time.Hour)
	first.env.RegisterDelayedCallback(func() { first.env.SignalWorkflow("wake", nil) }, 3*time.Hour)
	second := newBench(t, source, `{}`, nil)
	second.input = first.firstExecution()
	second.env.SetStartTime(began.Add(3 * time.Hour))
	second.env.ExecuteWorkflow(second.input.WorkflowType(), second.input)
	var result workflows.RunResult
	perduretest.NoError(t, second.env.GetWorkflowResult(&result))
	var got []string
	for _, e := range result.Errors {
		got = append(got, e.Message)
	}
	if diff := cmp.Diff([]string{"no 3", "no 2", "no 1", "no 0"}, got); diff != "" {
		t.Error(diff)
	}
}

// Undoing that a script has prepared counts for the room that the next execution needs:
// a run that has prepared more than fits continues in the one that it has.
func TestUndoOutgrowsTheJournal(t *testing.T) {
	t.Parallel()
	b := newBench(t, scripted(`
for i in range(6):
    call_tool("echo", {"n": i}, None, policy(undo=undo("unpay", {"text": "x" * 400000})))
sleep("10h")
return 1`, ""), `{}`, nil)
	b.suggest(time.Hour)
	b.env.RegisterDelayedCallback(func() { b.env.SignalWorkflow("wake", nil) }, time.Hour)
	if output, failure := b.run(); failure != nil || output != "1" {
		t.Errorf("got %s, %+v", output, failure)
	}
}

// resumptionOf plans the resumption of a run of a bench that has ended, for which nothing
// else is said.
func resumptionOf(t *testing.T, b *bench) *history.ResumePlan {
	t.Helper()
	journal := b.journal()
	plan, err := history.PlanResume("scripted/test", "execution", &journal, history.ResumeRequest{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// What a script has repeated until it succeeded is not called again when the run is
// resumed; what has failed in the end is, and so is what the script continued from.
func TestResumptionOfRepeatedCalls(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, script string
		want         []string
	}{
		{"by retry", `
r = retry(lambda: flaky(n=1)["n"], delay=0)
broken()
return r`, []string{"broken {}"}},
		{"by hand", `
for i in range(5):
    r = try_call_tool("flaky", n=1)
    if r.ok:
        break
broken()
return r.value["n"]`, []string{"broken {}"}},
		{"with others", `
def f():
    a = try_call_tool("flaky", n=1)
    if not a.ok:
        broken_once()
    return a.value["n"]
r = retry(f, delay=0)
broken()
return r`, []string{"broken {}"}},
		{"items", `
call_tool("echo", {}, None, policy(undo=undo("unpay")))
r = [try_call_tool("flaky", n=n).ok for n in [1, 2]]
broken()
return 1`, []string{"echo {}", `flaky {"n":1}`, "broken {}"}},
		{"where something was undone", `
call_tool("echo", {}, None, policy(undo=undo("unpay")))
r = retry(lambda: flaky(n=1)["n"], delay=0)
broken()
return r`, []string{"echo {}", "broken {}"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			failures := 0
			flaky := func(call workflows.ToolCall) (string, error) {
				if failures++; failures == 1 {
					return answerFails("not yet")(call)
				}
				return string(call.Arguments), nil
			}
			before := newBench(t, scripted(test.script, ""), `{}`, map[string]toolFunc{"flaky": flaky, "broken": answerFails("no"), "broken_once": answerFails("no")})
			if _, failure := before.run(); failure == nil {
				t.Fatal("it did not fail")
			}
			after := newBench(t, scripted(test.script, ""), `{}`, nil)
			after.input = resumptionOf(t, before).Input
			if got, failure := after.run(); failure != nil || got != "1" {
				t.Errorf("got %s, %+v", got, failure)
			}
			if diff := cmp.Diff(test.want, after.calls); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What a script has repeated until nobody knew what came of it is not called again where it
// had failed before: that would succeed, and the script would not come to the call about
// which somebody has said something.
func TestResumptionOfRepeatedCallsOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	for said, want := range map[string][]string{workflows.Happened: nil, workflows.NotHappened: {`flaky {"n":1}`}} {
		t.Run(said, func(t *testing.T) {
			t.Parallel()
			source, calls := scripted("retry(lambda: flaky(n=1), delay=0)\nreturn 1", ""), 0
			flaky := func(call workflows.ToolCall) (string, error) {
				if calls++; calls == 1 {
					return answerFails("not yet")(call)
				}
				return answerLost(call)
			}
			before := newBench(t, source, `{}`, map[string]toolFunc{"flaky": flaky})
			if _, failure := before.run(); failure == nil || failure.Error.Category != codes.CategoryOutcomeUnknown {
				t.Fatalf("it ended with %+v", failure)
			}
			journal := before.journal()
			plan := perduretest.Must(history.PlanResume("scripted/test", "execution", &journal, history.ResumeRequest{Otherwise: said}, nil))(t)
			after := newBench(t, source, `{}`, nil)
			after.input = plan.Input
			if got, failure := after.run(); failure != nil || got != "1" {
				t.Errorf("got %s, %+v", got, failure)
			}
			if diff := cmp.Diff(want, after.calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// A within that ran out of its time, or had not ended, has all of it again when
// the run is resumed, and what was done in it counts.
func TestResumptionOfWithin(t *testing.T) {
	t.Parallel()
	source := scripted(`
def slow():
    a = echo(n=1)["n"]
    sleep("1h" if fails() else "1s")
    return a
def fails():
    return not try_call_tool("flaky").ok
return within("5m", slow)`, "")
	before := newBench(t, source, `{}`, map[string]toolFunc{"flaky": answerFails("no")})
	if _, failure := before.run(); failure == nil || failure.Error.Code != "step_timeout" {
		t.Fatalf("it ended with %+v", failure)
	}
	after := newBench(t, source, `{}`, nil)
	after.input = resumptionOf(t, before).Input
	after.env.SetStartTime(before.env.Now().Add(10 * time.Hour))
	if got, failure := after.run(); failure != nil || got != "1" {
		t.Errorf("got %s, %+v", got, failure)
	}
	if diff := cmp.Diff([]string{"flaky {}"}, after.calls); diff != "" {
		t.Error(diff)
	}
}

// What was undone when the run failed is called again by a resumption, with a key of
// its own, and undone again when that fails, too; what was not is not.
func TestResumptionOfUndoneCalls(t *testing.T) {
	t.Parallel()
	source := scripted(`
call_tool("echo", {"n": 1}, None, policy(undo=undo("unpay", lambda out: {"n": out["n"]})))
broken()
return 1`, "")
	tools := map[string]toolFunc{"broken": answerFails("no")}
	before := newBench(t, source, `{}`, tools)
	if _, failure := before.run(); failure == nil || len(failure.Compensated) != 1 {
		t.Fatalf("it ended with %+v", failure)
	}
	after := newBench(t, source, `{}`, tools)
	after.input = resumptionOf(t, before).Input
	if _, failure := after.run(); failure == nil || len(failure.Compensated) != 1 {
		t.Fatalf("it ended with %+v", failure)
	}
	if diff := cmp.Diff([]string{`echo {"n":1}`, "broken {}", `unpay {"n":1}`}, after.calls); diff != "" {
		t.Error(diff)
	}
}

// Each repetition by a script has another key. So retry does not repeat a call of a keyed
// tool whose outcome is unknown, also after the run has continued as new. It does repeat
// one that was answered.
func TestRetrySparesTheKeyed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, script string
		calls        int
	}{
		{"lost", `attempt(lambda: retry(lambda: lost(), delay=0))`, 1},
		{"stopped", `attempt(lambda: retry(lambda: parallel([lambda: call_tool("slow", {}, "9h", policy(retries=1, delay="1h")), lambda: sleep("1m") or broken()]), delay=0))`, 2},
		{"answered", `attempt(lambda: retry(lambda: broken(), delay=0))`, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			source := scripted("r = "+test.script+"\nsleep('10h')\nreturn [r.ok, r.error.message.count('not known whether')]", "")
			lost := func(call workflows.ToolCall) (string, error) {
				return "", workflows.Report(workflows.Attempt{Call: call, Number: 4}.Lost("gone"))
			}
			tools := map[string]toolFunc{"slow": stoppedPay, "broken": answerFails("no"), "lost": func(call workflows.ToolCall) (string, error) {
				_, err := lost(call)
				return "", temporal.NewNonRetryableApplicationError(err.Error(), "tool", nil, errorOf(t, err))
			}}
			first := keyed(newBench(t, source, `{}`, tools))
			began := first.env.Now()
			first.suggest(3 * time.Hour)
			first.env.RegisterDelayedCallback(func() { first.env.SignalWorkflow("wake", nil) }, 3*time.Hour)
			second := keyed(newBench(t, source, `{}`, tools))
			second.input = first.firstExecution()
			if len(first.calls) != test.calls {
				t.Errorf("calls %q, want %d", first.calls, test.calls)
			}
			second.env.SetStartTime(began.Add(3 * time.Hour))
			want := "[false,1]"
			if test.name == "answered" {
				want = "[false,0]"
			}
			if got, failure := second.run(); failure != nil || got != want || len(second.calls) > 0 {
				t.Errorf("got %s, %+v, with calls %q", got, failure, second.calls)
			}
		})
	}
}

// keyed makes all tools of a bench keyed.
func keyed(b *bench) *bench {
	for name, tool := range b.input.Tools {
		tool.Effect = definitions.Keyed
		b.input.Tools[name] = tool
	}
	return b
}

// errorOf is what an activity has reported.
func errorOf(t *testing.T, err error) (e workflows.Error) {
	t.Helper()
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Details(&e) != nil {
		t.Fatal(err)
	}
	return e
}
