package workflows_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// While the outcome of an unsafe call is unknown, or one has completed that another run
// would repeat, no failure reports that calling again may help; the calls are named.
// This is one rule for whatever ends a run.
func TestEffects(t *testing.T) {
	t.Parallel()
	const retried = "tool_error"
	for _, tc := range []struct {
		name, source       string
		prepare            func(b *bench)
		code               string
		unknown, completed []string // "PATH TOOL"
	}{
		{name: "reads only", source: steps(`{id: r, tool: read}, {id: bad, tool: broken, dependsOn: [r]}`), code: retried},
		{name: "a write has completed", source: steps(`{id: w, tool: write}, {id: bad, tool: broken, dependsOn: [w]}`), code: retried, completed: []string{"w write"}},
		{name: "what was written is undone", source: steps(`{id: w, tool: write, compensate: {tool: undo}}, {id: bad, tool: broken, dependsOn: [w]}`), code: retried},
		{name: "items are undone", source: steps(`{id: e, type: forEach, collection: '[1,2]', step: {tool: write, compensate: {tool: undo}}}, {id: bad, tool: broken, dependsOn: [e]}`), code: retried},
		{name: "what was written stays", source: steps(`{id: w, tool: write, compensate: {tool: broken}}, {id: bad, tool: broken, dependsOn: [w]}`), code: retried, completed: []string{"w write"},
			prepare: func(b *bench) { b.answer(time.Hour, "w/compensate#1", "cancel", `{}`) }},
		{name: "whether it was undone is not known", source: steps(`{id: w, tool: write, compensate: {tool: lost}}, {id: bad, tool: broken, dependsOn: [w]}`), code: retried,
			prepare: func(b *bench) { b.answer(time.Hour, "w/compensate#1", "cancel", `{}`) }, unknown: []string{"w/compensate#1 lost"}, completed: []string{"w write"}},
		{name: "repeating is harmless", source: steps(`{id: w, tool: again}, {id: bad, tool: broken, dependsOn: [w]}`), code: retried},
		{name: "another run has another key", source: steps(`{id: w, tool: keyed}, {id: bad, tool: broken, dependsOn: [w]}`), code: retried, completed: []string{"w keyed"}},
		{name: "an attempt is lost, and the last one was not sent", source: steps(`{id: w, tool: doubtful}`), code: "backend_unavailable", unknown: []string{"w doubtful"}},
		{name: "an attempt is lost, and the last one was answered", source: steps(`{id: w, tool: contradicted}`), code: retried, unknown: []string{"w contradicted"}},
		{name: "an attempt is lost, then the call is held and not sent", source: steps(`{id: w, tool: heldBack}`), code: "backend_unavailable", unknown: []string{"w heldBack"}},
		{name: "no attempt was sent", source: steps(`{id: w, tool: down}`), code: "backend_unavailable"},
		{name: "a keyed compensation is lost, and undone by hand", source: steps(`{id: w, tool: write, compensate: {tool: gone}}, {id: bad, tool: broken, dependsOn: [w]}`), code: retried,
			prepare: func(b *bench) { b.answer(time.Hour, "w/compensate#1", "accept", `{}`) }},
		{name: "the outcome is not known", source: steps(`{id: w, tool: lost}`), code: "connection_lost", unknown: []string{"w lost"}},
		{name: "the run goes on without knowing", source: steps(`{id: w, tool: lost, onError: {action: continue}}, {id: bad, tool: broken, dependsOn: [w]}`), code: retried, unknown: []string{"w lost"}},
		{name: "the output is of no use", source: steps(`{id: w, tool: strange, onError: {action: continue}}, {id: bad, tool: broken, dependsOn: [w]}`), code: retried, completed: []string{"w strange"}},
		{name: "items", source: steps(`{id: e, type: forEach, collection: '[1,2]', maxParallel: 1, step: {tool: write}}, {id: bad, tool: broken, dependsOn: [e]}`), code: retried, completed: []string{"e[0] write", "e[1] write"}},
		{name: "a sibling fails", source: steps(`{id: w, tool: slowly}, {id: bad, tool: awaiting}`), code: retried, unknown: []string{"w slowly"}},
		{name: "the run is cancelled", source: steps(`{id: w, tool: write}, {id: s, tool: slowly, dependsOn: [w]}`), code: "cancelled", unknown: []string{"s slowly"}, completed: []string{"w write"},
			prepare: func(b *bench) { b.whenSlow(b.env.CancelWorkflow) }},
		{name: "the run is out of time", source: steps(`{id: w, tool: write}, {id: p, type: wait, for: 2h, dependsOn: [w]}`) + "\ntimeout: 10m", code: "run_timeout", completed: []string{"w write"}},
		{name: "a forEach is out of time", source: steps(`{id: e, type: forEach, timeout: 10m, collection: '[1,2]', maxParallel: 2, step: {type: script, script: "write()\nsleep('2h')\n"}}`), code: "step_timeout",
			completed: []string{"e[0]/main:1 write", "e[1]/main:1 write"}},
		{name: "a person declines", source: steps(`{id: w, tool: write}, {id: g, type: elicitation, message: m, dependsOn: [w]}`), code: "declined", completed: []string{"w write"},
			prepare: func(b *bench) { b.answer(time.Minute, "g#1", "decline", ``) }},
		{name: "a script fails", source: script("write()\nbroken()"), code: retried, completed: []string{"script/main:1 write"}},
		{name: "a script undoes", source: script(`call_tool("write", {}, None, policy(undo=undo("undo")))` + "\nbroken()"), code: retried},
		{name: "a script goes on without knowing", source: script("try_call_tool(\"lost\")\nbroken()"), code: retried, unknown: []string{"script/main:1 lost"}},
		{name: "within", source: script("def f():\n    write()\n    sleep(\"2h\")\nwithin(\"10m\", f)"), code: "step_timeout", completed: []string{"script/f:2 write"}},
		{name: "a sibling in a script", source: script("parallel([lambda: slowly(), lambda: awaiting()])"), code: retried, unknown: []string{"script/main:1[0]/lambda:1 slowly"}},
		{name: "a script is out of time", source: steps(`{id: s, type: script, timeout: 10m, script: "write()\nsleep('2h')\n"}`), code: "step_timeout", completed: []string{"s/main:1 write"}},
		{name: "a called run has completed", source: steps(`{id: c, type: workflow, workflow: writes}, {id: bad, tool: broken, dependsOn: [c]}`) + writes, code: retried, completed: []string{"c/w write"}},
		{name: "a called run has failed", source: steps(`{id: c, type: workflow, workflow: fails}`) + writes, code: retried, completed: []string{"c/deeper/w write"}},
		{name: "the run goes on without a called one", source: steps(`{id: c, type: workflow, workflow: loses, onError: {action: continue}}, {id: bad, tool: broken, dependsOn: [c]}`) + writes, code: retried, unknown: []string{"c/w lost"}},
		{name: "a called run is undone", source: steps(`{id: c, type: workflow, workflow: writes, compensate: {tool: undo}}, {id: bad, tool: broken, dependsOn: [c]}`) + writes, code: retried},
		{name: "a script has called a run", source: script("call_workflow(\"writes\")\nbroken()") + writes, code: retried, completed: []string{"script/main:1/w write"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tc.source, `{}`, nil)
			b.forEffects()
			if tc.prepare != nil {
				tc.prepare(b)
			}
			_, failure := b.run()
			if failure == nil || string(failure.Error.Code) != tc.code {
				t.Fatalf("got %+v; want it to fail with %s", failure, tc.code)
			}
			effects := failure.Effects
			if effects == nil {
				effects = &workflows.Effects{}
			}
			if diff := cmp.Diff(tc.unknown, callsOf(effects.Unknown)); diff != "" {
				t.Errorf("unknown: %s", diff)
			}
			if diff := cmp.Diff(tc.completed, callsOf(effects.Completed)); diff != "" {
				t.Errorf("completed: %s", diff)
			}
			none := tc.unknown == nil && tc.completed == nil
			if failure.Error.Retryable != (none && tc.code != "cancelled" && tc.code != "declined") {
				t.Errorf("retryable is %t, and the effects are %v", failure.Error.Retryable, effects)
			}
			for _, call := range slices.Concat(effects.Unknown, effects.Completed) {
				if !strings.Contains(effects.String(), call.String()) {
					t.Errorf("%q does not name %s", effects, call)
				}
			}
		})
	}
}

func steps(list string) string { return "name: a\ndescription: d\nsteps: [" + list + "]" }

func script(body string) string {
	return "name: a\ndescription: d\nscript: |\n  " + strings.ReplaceAll(body, "\n", "\n  ") + "\n"
}

// writes are definitions that others call.
const writes = "\n---\n" + `{name: writes, description: d, steps: [{id: w, tool: write}]}
---
{name: fails, description: d, steps: [{id: deeper, type: workflow, workflow: writes}, {id: bad, tool: broken, dependsOn: [deeper]}]}
---
{name: loses, description: d, steps: [{id: w, tool: lost}]}
`

func callsOf(calls []workflows.EffectCall) (text []string) {
	for _, c := range calls {
		text = append(text, string(c.StepPath)+" "+c.Tool)
	}
	return text
}

// forEffects gives a bench tools of all classes. One is under way until it is
// stopped, and one waits until that is under way before it fails.
func (b *bench) forEffects() {
	began := make(chan struct{}, 1)
	stopped := make(chan struct{})
	b.env.SetOnActivityCanceledListener(func(*activity.Info) { close(stopped) })
	broken := func(call workflows.ToolCall) (string, error) {
		e, repeat := workflows.Attempt{Call: call, Number: 1}.Answered("no")
		return "", workflows.Report(e, repeat)
	}
	heldBefore := false
	b.tools = map[string]toolFunc{
		"broken": broken,
		"doubtful": func(call workflows.ToolCall) (string, error) {
			return "", workflows.Report(workflows.Attempt{Call: call, Number: 4, EarlierUnknown: true}.Unavailable("no route"))
		},
		"contradicted": func(call workflows.ToolCall) (string, error) {
			return "", workflows.Report(workflows.Attempt{Call: call, Number: 2, EarlierUnknown: true}.Answered("busy"))
		},
		"down": func(call workflows.ToolCall) (string, error) {
			return "", workflows.Report(workflows.Attempt{Call: call, Number: 4}.Unavailable("no route"))
		},
		"heldBack": func(call workflows.ToolCall) (string, error) {
			if !heldBefore {
				heldBefore = true
				return "", workflows.Attempt{Call: call, Number: 2, EarlierUnknown: true}.ReportHold(workflows.Hold{Why: workflows.HeldByBreaker, Pause: time.Second})
			}
			return "", workflows.Report(workflows.Attempt{Call: call, Number: 1}.Unavailable("no route"))
		},
		"gone": func(call workflows.ToolCall) (string, error) {
			return "", workflows.Report(workflows.Attempt{Call: call, Number: 4}.Lost("broken pipe"))
		},
		"lost": answerLost,
		"slowly": func(workflows.ToolCall) (string, error) {
			began <- struct{}{}
			<-stopped
			return `{}`, nil
		},
		"awaiting": func(call workflows.ToolCall) (string, error) {
			<-began
			return broken(call)
		},
		"strange": func(call workflows.ToolCall) (string, error) {
			_, err := workflows.Attempt{Call: call, Number: 1}.Succeeded(nil, []workflows.ContentBlock{{Type: "text", Text: strings.Repeat("x", workflows.MaxResultSize+1)}})
			return "", err
		},
	}
	for name, effect := range map[string]definitions.Effect{"again": definitions.Idempotent, "keyed": definitions.Keyed, "doubtful": definitions.Keyed,
		"contradicted": definitions.Keyed, "down": definitions.Keyed, "heldBack": definitions.Keyed, "gone": definitions.Keyed} {
		if tool, ok := b.input.Tools[name]; ok {
			tool.Effect = effect
			b.input.Tools[name] = tool
		}
	}
	b.slow = began
}

// whenSlow does something as soon as the slow call is under way.
func (b *bench) whenSlow(then func()) {
	go func() {
		<-b.slow
		then()
	}()
}

// checkEffects says of a failed run what took effect, and was not undone, without
// being named.
func checkEffects(t *testing.T, failure *workflows.Failure, executed func(path string) bool, paths []string) {
	t.Helper()
	named := map[string]bool{}
	effects := failure.Effects
	if effects == nil {
		effects = &workflows.Effects{}
	}
	for _, call := range slices.Concat(effects.Unknown, effects.Completed) {
		named[string(call.StepPath)] = true
	}
	for _, path := range paths {
		known := named[path]
		for above := range named {
			known = known || strings.HasPrefix(path, above+"/")
		}
		if executed(path) && !known && effects.More == 0 {
			t.Errorf("%s was executed and not undone, and the failure says only: %s", path, effects)
		}
		if executed(path) && failure.Error.Retryable {
			t.Errorf("%s was executed and not undone, and yet: %s", path, fmt.Sprintf("%+v", failure.Error))
		}
	}
}

// What an execution before has done counts as well, whether the run continues as new or
// is resumed; and a run that completes despite failures says no more of these.
func TestEffectsOfExecutionsBefore(t *testing.T) {
	t.Parallel()
	const source = `{name: a, description: d, timeout: 100h, steps: [{id: w, tool: write}, {id: l, tool: lost, onError: {action: continue}}, {id: c, type: workflow, workflow: writes},
		{id: p, type: wait, for: 10h, dependsOn: [w, l, c]}, {id: bad, tool: broken, dependsOn: [p]}]}` + writes
	want := []string{"c/w write", "w write"}
	check := func(b *bench) {
		t.Helper()
		_, failure := b.result()
		if failure == nil || failure.Error.Retryable || failure.Effects == nil {
			t.Fatalf("got %+v", failure)
		}
		if diff := cmp.Diff([]string{"l lost"}, callsOf(failure.Effects.Unknown)) + cmp.Diff(want, callsOf(failure.Effects.Completed)); diff != "" {
			t.Error(diff)
		}
	}
	first := newBench(t, source, `{}`, nil)
	first.forEffects()
	first.suggest(time.Hour)
	first.env.ExecuteWorkflow(first.input.WorkflowType(), first.input)
	second := first.continued(t, source)
	if second == nil {
		t.Fatal("it did not continue as new")
	}
	second.forEffects()
	second.run()
	check(second)

	plan := second.resumption(t, history.ResumeRequest{})
	third := newBench(t, source, `{}`, nil)
	third.input = plan.Input
	third.forEffects()
	third.run()
	check(third)
}

// A run that was reset, and ends before it comes to what the execution before has done,
// does not say that calling again may help; nor does a run that has called it.
func TestEffectsBeforeAReset(t *testing.T) {
	t.Parallel()
	const late = `{name: a, description: d, timeout: 1h, steps: [{id: p, type: wait, for: 10h}, {id: w, tool: write, dependsOn: [p]}]}`
	for _, reset := range []bool{false, true} {
		b := newBench(t, late, `{}`, nil)
		b.forEffects()
		b.input.WasReset = reset
		_, failure := b.run()
		if failure == nil || failure.Error.Code != codes.RunTimeout {
			t.Fatalf("got %+v", failure)
		}
		if failure.Error.Retryable == reset || failure.Effects.Repeatable() == reset {
			t.Errorf("reset %t: retryable %t, %+v", reset, failure.Error.Retryable, failure.Effects)
		}
		above := (&workflows.Effects{BeforeReset: reset}).Within("step")
		if above.Repeatable() == reset || strings.Contains(failure.Text(), "before it was reset") != reset {
			t.Errorf("reset %t: %+v, %s", reset, above, failure.Text())
		}
	}
}

// A run that completes although steps of it have failed says of these no more that
// calling again may help.
func TestEffectsOfACompletedRun(t *testing.T) {
	t.Parallel()
	for tool, retryable := range map[string]bool{"read": true, "write": false} {
		b := newBench(t, fmt.Sprintf(`{name: a, description: d, failureMode: best_effort, steps: [{id: w, tool: %s}, {id: bad, tool: broken, dependsOn: [w]}]}`, tool), `{}`, nil)
		b.forEffects()
		if _, failure := b.run(); failure != nil {
			t.Fatalf("failed: %+v", failure)
		}
		var result workflows.RunResult
		perduretest.NoError(t, b.env.GetWorkflowResult(&result))
		if len(result.Errors) != 1 || result.Errors[0].Retryable != retryable {
			t.Errorf("beside %s: %+v", tool, result.Errors)
		}
	}
}

// A call of a keyed tool that may have been executed stays in doubt when the run
// continues as new: while it is held, and when it has failed.
func TestDoubtOutlivesContinueAsNew(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"held":   `{name: a, description: d, timeout: 100h, steps: [{id: h, tool: heldBack}]}`,
		"failed": `{name: a, description: d, timeout: 100h, steps: [{id: h, tool: doubtful, onError: {action: continue}}, {id: p, type: wait, for: 3h}, {id: bad, tool: down, dependsOn: [p, h]}]}`,
		"script": scripted("attempt(lambda: doubtful())\nsleep('3h')\ndown()", ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := newBench(t, source, `{}`, nil)
			first.forEffects()
			first.tools["heldBack"] = func(call workflows.ToolCall) (string, error) {
				return "", workflows.Attempt{Call: call, Number: 2, EarlierUnknown: true}.ReportHold(workflows.Hold{Why: workflows.HeldByBreaker, Pause: 3 * time.Hour})
			}
			first.suggest(time.Hour)
			first.env.RegisterDelayedCallback(func() { first.env.SignalWorkflow("wake", nil) }, time.Hour)
			first.env.ExecuteWorkflow(first.input.WorkflowType(), first.input)
			second := first.continued(t, source)
			if second == nil {
				t.Fatal("it did not continue as new")
			}
			second.forEffects()
			second.tools["heldBack"] = second.tools["down"]
			_, failure := second.run()
			if failure == nil || failure.Error.Retryable || failure.Effects == nil {
				t.Fatalf("got %+v", failure)
			}
			if len(failure.Effects.Unknown) != 1 {
				t.Errorf("%+v", failure.Effects)
			}
		})
	}
}
