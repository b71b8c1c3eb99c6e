package workflows_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/temporal"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// scripted is a definition that is a script.
func scripted(script, fields string) string {
	return fmt.Sprintf("name: scripted\ndescription: d\ntimeout: 100h\n%s\nscript: |\n  %s\n", fields, strings.ReplaceAll(strings.TrimSpace(script), "\n", "\n  "))
}

func answerFails(message string) toolFunc {
	return func(call workflows.ToolCall) (string, error) {
		e := workflows.Error{Code: "tool_error", Category: codes.CategoryTool, Message: call.Tool + " failed: " + message, StepPath: call.StepPath, Tool: call.Tool, Attempt: 1}
		return "", temporal.NewApplicationErrorWithOptions(e.Message, string(e.Category), temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{e}})
	}
}

// answerLost is a tool whose outcome is unknown.
func answerLost(call workflows.ToolCall) (string, error) {
	e := workflows.Error{Code: "connection_lost", Category: codes.CategoryOutcomeUnknown, Message: "gone", StepPath: call.StepPath, Tool: call.Tool}
	return "", temporal.NewApplicationErrorWithOptions(e.Message, string(e.Category), temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{e}})
}

// A definition that is a script gets the arguments as data, calls tools by
// their names, and what it returns is the result.
func TestScriptIsADefinition(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, script, fields, args, want string
		calls                            []string
	}{
		{"returns a value", `return [data["n"], 12345678901234567890]`, "", `{"n":1}`, `[1,12345678901234567890]`, nil},
		{"returns nothing", `x = 1`, "", `{}`, `null`, nil},
		{"calls tools", "a = echo(n=data[\"n\"])\nb = call_tool(\"echo\", n=a[\"n\"] + 1)\nreturn {\"sum\": a[\"n\"] + b[\"n\"]}", "", `{"n":1}`, `{"sum":3}`, []string{`echo {"n":1}`, `echo {"n":2}`}},
		{"output block", `return {"n": 7, "deep": {"x": "y"}, "more": 1}`,
			"output: {properties: {n: {type: string, description: d}, deep: {type: object, description: d, properties: {x: {type: string, description: d}}}, m: {type: integer, description: d, default: 3}}}",
			`{}`, `{"deep":{"x":"y"},"m":3,"n":"7"}`, nil},
		{"goes on after a failure", "r = try_call_tool(\"broken\")\nreturn [r.ok, r.error.message, r.error.code]", "", `{}`, `[false,"broken failed: no","tool_error"]`, []string{"broken {}"}},
		{"parallel", "return parallel([lambda: echo(n=1), lambda: read_it(n=2)])", "", `{}`, `[{"n":1},{"n":2}]`, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, scripted(test.script, test.fields), test.args, map[string]toolFunc{"broken": answerFails("no")})
			got, failure := b.run()
			if failure != nil {
				t.Fatalf("failed: %+v", failure.Error)
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if diff := cmp.Diff(test.calls, b.calls); test.calls != nil && diff != "" {
				t.Errorf("calls: %s", diff)
			}
		})
	}
}

// A script that fails says at which line, with which call, and how it came
// there.
func TestScriptSaysWhereItFailed(t *testing.T) {
	t.Parallel()
	b := newBench(t, scripted("def ship(n):\n  return broken(n=n)\necho(n=1)\nship(2)", ""), `{}`, map[string]toolFunc{"broken": answerFails("no")})
	_, failure := b.run()
	if failure == nil {
		t.Fatal("it did not fail")
	}
	want := workflows.Error{Code: "tool_error", Category: "tool", StepID: "script", StepPath: "script/ship:2", Tool: "broken", Attempt: 1,
		Message: "broken failed: no", RunID: failure.Error.RunID, Backtrace: failure.Error.Backtrace}
	if diff := cmp.Diff(want, failure.Error); diff != "" {
		t.Error(diff)
	}
	for _, line := range []string{"script:4", "script:2"} {
		if !strings.Contains(failure.Error.Backtrace, line) {
			t.Errorf("the backtrace does not name %s: %s", line, failure.Error.Backtrace)
		}
	}
}

// A script that continues as new in the middle continues at the line that it had reached.
// It repeats no call, also none that failed, and no question, and keeps the time it had.
func TestScriptContinuesAsNew(t *testing.T) {
	t.Parallel()
	const script = `
began = now()
failed = try_call_tool("broken", n=0).error.message
seen = [echo(n=i)["n"] for i in range(3)]
answers = parallel([lambda: elicit("first?", timeout="5h").action, lambda: elicit("second?").action])
sleep("10h")
seen += [echo(n=i)["n"] for i in range(3)]
return {"began": str(began), "failed": failed, "seen": seen, "answers": answers}
`
	tools := map[string]toolFunc{"broken": answerFails("no")}
	first := newBench(t, scripted(script, ""), `{}`, tools)
	began := first.env.Now()
	first.answer(time.Minute, "script/main:4[1]/lambda:4#1", "decline", ``)
	first.suggest(2 * time.Minute)
	first.env.RegisterDelayedCallback(func() { first.env.SignalWorkflow("wake", nil) }, 2*time.Minute)
	second := newBench(t, scripted(script, ""), `{}`, tools)
	second.input = first.firstExecution()
	if diff := cmp.Diff([]string{`broken {"n":0}`, `echo {"n":0}`, `echo {"n":1}`, `echo {"n":2}`}, first.calls); diff != "" {
		t.Fatalf("calls of the first execution: %s", diff)
	}
	second.env.SetStartTime(began.Add(2 * time.Minute))
	second.answer(time.Hour, "script/main:4[0]/lambda:4#1", "accept", `{}`)
	output, failure := second.run()
	if failure != nil {
		t.Fatalf("failed: %+v", failure.Error)
	}
	if !strings.Contains(output, `"answers":["accept","decline"]`) || !strings.Contains(output, `"failed":"broken failed: no"`) ||
		!strings.Contains(output, began.UTC().Format("2006-01-02T15:04")) && !strings.Contains(output, began.UTC().Format("2006-01-02 15:04")) {
		t.Errorf("got %s, began %s", output, began)
	}
	if diff := cmp.Diff([]string{`echo {"n":0}`, `echo {"n":1}`, `echo {"n":2}`}, second.calls); diff != "" {
		t.Errorf("calls of the second execution: %s", diff)
	}
}

// A step of type script is one of the graph: it waits for what its arguments
// read, its value is its output, and its timeout, onError and condition count.
func TestScriptStep(t *testing.T) {
	t.Parallel()
	const source = `{name: a, description: d, timeout: 100h, steps: [
		{id: get, tool: echo, arguments: {items: [1, 2, 3]}},
		{id: sum, type: script, script: "return {'total': sum(data['items'])}\n", arguments: {items: "{{.steps.get.output.items}}"}},
		{id: slow, type: script, script: "log('soon')\nsleep('1h')\n", timeout: 1m, onError: {action: continue}, defaultResults: {late: true}},
		{id: never, type: script, script: "return fail('no')\n", condition: "false"},
		{id: each, type: forEach, collection: "[1,2]", step: {type: script, arguments: {n: "{{.forEach.item}}"}, script: "return echo(n=data['n'] * 10)\n"}, collect: "{{.output.n}}"}],
		output: {properties: {
			total: {type: integer, description: d, value: "{{.steps.sum.output.total}}"},
			slow: {type: string, description: d, value: "{{.steps.slow.status}} {{.steps.slow.error}} {{.steps.slow.output.late}}"},
			never: {type: string, description: d, value: "{{.steps.never.status}}"},
			each: {type: array, description: d, value: "{{json .steps.each.output.collected}}"}}}}`
	b := newBench(t, source, `{}`, nil)
	got, failure := b.run()
	if failure != nil {
		t.Fatalf("failed: %+v", failure.Error)
	}
	const want = `{"each":[10,20],"never":"skipped","slow":"failed step slow timed out after 1m0s, at line 2 of script (sleeps until `
	if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, `) true","total":6}`) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Scripts that use up what they may fail with a limit, and runs that share the
// worker with them complete.
func TestBombsBesideOtherRuns(t *testing.T) {
	t.Parallel()
	bombs := map[string]string{
		"text":      `return len("x" * 1000000000)`,
		"range":     `return list(range(1 << 62))`,
		"recursion": "def f(n):\n  return f(n + 1)\nreturn f(0)",
		"loop":      "while True:\n  pass",
		"growth":    "d = {}\nfor i in range(100000000):\n  d[i] = [i] * 1000\nreturn d",
		"calls":     "return [echo(n=i) for i in range(1000000)]",
		"branches":  "return map_parallel(lambda i: echo(n=i), range(1000000))",
		"template":  "for i in range(1000000):\n  attempt(template, '{{$s := repeat 5000000 \"a\"}}{{range until 100000}}{{$x := trunc 1 $s}}{{end}}')",
	}
	for name, bomb := range bombs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, scripted(bomb, ""), `{}`, nil)
			b.input.ScriptLimits = &workflows.ScriptLimits{Calls: 20}
			_, failure := b.run()
			if failure == nil || failure.Error.Category != codes.CategoryLimit {
				t.Errorf("it ended with %+v", failure)
			}
		})
	}
	for i := range 1000 / 50 {
		t.Run(fmt.Sprintf("beside %d", i), func(t *testing.T) {
			t.Parallel()
			for range 50 {
				b := newBench(t, scripted("return echo(n=1)", ""), `{}`, nil)
				if got, failure := b.run(); failure != nil || got != `{"n":1}` {
					t.Fatalf("got %s, %+v", got, failure)
				}
			}
		})
	}
}

// A resumed script continues after its failure: what it has done counts, what failed is
// tried again, also where the script continued, and a question that was declined is asked
// again.
func TestScriptIsResumed(t *testing.T) {
	t.Parallel()
	const script = `
a = echo(n=1)["n"]
b = try_call_tool("flaky", n=2)
agreed = elicit("sure?").action
note(n=3)
lost(n=4)
if agreed != "accept":
    fail("nobody agreed")
return [a, b.ok, agreed]
`
	before := newBench(t, scripted(script, ""), `{}`, map[string]toolFunc{"flaky": answerFails("no"), "lost": answerLost})
	before.answer(time.Minute, "script/main:3#1", "decline", ``)
	if _, failure := before.run(); failure == nil || failure.Error.Category != codes.CategoryOutcomeUnknown || failure.Error.StepPath != "script/main:5" {
		t.Fatalf("it ended with %+v", failure)
	}
	answer := perduretest.Must(before.env.QueryWorkflow(workflows.RecordQuery))(t)
	var journal workflows.RunRecord
	perduretest.NoError(t, answer.Get(&journal))
	plan, err := history.PlanResume("scripted/test", "execution", &journal, history.ResumeRequest{}, nil)
	if err != nil || len(plan.OutcomeUnknown) != 1 || plan.OutcomeUnknown[0].Path != "script/main:5" {
		t.Fatalf("the plan is %+v, %v", plan, err)
	}
	plan, err = history.PlanResume("scripted/test", "execution", &journal, history.ResumeRequest{Unknown: map[workflows.StepPath]string{"script/main:5": runs.Happened}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	fates := map[string]string{}
	for _, step := range plan.Steps {
		fates[string(step.Path)] = step.Plan
	}
	want := map[string]string{"script/main:1": history.PlanReused, "script/main:2": history.PlanExecuted, "script/main:3": history.PlanExecuted,
		"script/main:4": history.PlanReused, "script/main:5": history.PlanGiven}
	if diff := cmp.Diff(want, fates); diff != "" {
		t.Errorf("the plan: %s", diff)
	}
	after := newBench(t, scripted(script, ""), `{}`, nil)
	after.input = plan.Input
	after.answer(time.Minute, "script/main:3#2", "accept", `{}`)
	got, failure := after.run()
	if failure != nil || got != `[1,true,"accept"]` {
		t.Errorf("got %s, %+v", got, failure)
	}
	if diff := cmp.Diff([]string{`flaky {"n":2}`}, after.calls); diff != "" {
		t.Errorf("calls: %s", diff)
	}
}

// A question of a script names who may answer it, also in the execution after the one
// that has asked, and nobody is not everybody.
func TestScriptSaysWhoAnswers(t *testing.T) {
	t.Parallel()
	first := newBench(t, scripted("approve(\"Sure?\", by=[\"group:leads\", \"ada\"])\nreturn 1", ""), `{}`, nil)
	first.suggest(time.Minute)
	first.env.RegisterDelayedCallback(func() { first.env.SignalWorkflow("wake", nil) }, time.Minute)
	in := first.firstExecution()
	if len(in.Open) != 1 || strings.Join(in.Open[0].Approvers, " ") != "group:leads ada" {
		t.Errorf("open are %+v", in.Open)
	}
	for by, want := range map[string]string{`[]`: "names 0 people", `[""]`: "want subjects", `"group:"`: "want subjects", `[1]`: "want subjects", `["x"] * 101`: "names 101 people"} {
		b := newBench(t, scripted(`elicit("Sure?", by=`+by+`)`, ""), `{}`, nil)
		if _, failure := b.run(); failure == nil || !strings.Contains(failure.Error.Message, want) {
			t.Errorf("by = %s: %+v", by, failure)
		}
	}
}

// The time of a script is over when the configuration says so, where neither the
// definition nor the step ends it before; also when the run has continued as new.
func TestScriptTime(t *testing.T) {
	t.Parallel()
	limits := &workflows.ScriptLimits{Time: time.Hour}
	step := func(fields string) string {
		return "{name: a, description: d, timeout: 100h, steps: [{id: slow, type: script, script: \"sleep('10h')\\n\"" + fields + "}]}"
	}
	for name, test := range map[string]struct{ source, code, message string }{
		"a definition":                 {scripted("x = 1\napprove('Sure?', timeout='10h')", ""), "script_time", "step script: the script has taken 1h0m0s, which is its limit, at line 2 of script (waits for an answer)"},
		"one that ends before":         {strings.Replace(scripted("sleep('10h')", ""), "100h", "30m", 1), "run_timeout", "scripted timed out after 30m0s in step script, at line 1 of script (sleeps until "},
		"a step":                       {step(", timeout: 20h"), "script_time", "step slow: the script has taken 1h0m0s"},
		"a step that ends before":      {step(", timeout: 30m"), "step_timeout", "step slow timed out after 30m0s, at line 1 of script (sleeps until"},
		"caught by nothing":            {scripted("parallel([lambda: sleep('10h')], on_error='collect')\necho()", ""), "script_time", "which is its limit"},
		"long computing, and no limit": {scripted("while True:\n  pass", ""), "script_steps", "which is its limit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, test.source, `{}`, nil)
			b.input.ScriptLimits = limits
			_, failure := b.run()
			if failure == nil || string(failure.Error.Code) != test.code || !strings.Contains(failure.Error.Message, test.message) || len(b.calls) > 0 {
				t.Errorf("it ended with %+v, calls %v", failure, b.calls)
			}
		})
	}
	t.Run("continued", func(t *testing.T) {
		t.Parallel()
		first := newBench(t, scripted("sleep('10h')", ""), `{}`, nil)
		first.input.ScriptLimits = limits
		began := first.env.Now()
		first.suggest(50 * time.Minute)
		first.env.RegisterDelayedCallback(func() { first.env.SignalWorkflow("wake", nil) }, 50*time.Minute)
		second := newBench(t, scripted("sleep('10h')", ""), `{}`, nil)
		second.input = first.firstExecution()
		second.env.SetStartTime(began.Add(50 * time.Minute))
		_, failure := second.run()
		if took := second.env.Now().Sub(began); failure == nil || failure.Error.Code != "script_time" || took > 61*time.Minute {
			t.Errorf("it ended after %s with %+v", took, failure)
		}
	})
}

// A tool that a run has only as the probe of another one is not called by a
// script, whatever name it computes.
func TestScriptsDoNotCallProbes(t *testing.T) {
	t.Parallel()
	for only, want := range map[bool]int{true: 0, false: 1} {
		b := newBench(t, `{name: a, description: d, tools: ["*"], parameters: {name: string}, script: "return call_tool(data['name'])"}`, `{"name": "secret"}`, nil)
		b.input.Tools["be.secret"] = definitions.Tool{Name: "secret", Backend: "be", Original: "secret", ForProbe: only}
		if _, failure := b.run(); len(b.calls) != want || (failure == nil) == only {
			t.Errorf("for a probe only: %t; it called %v and ended with %+v", only, b.calls, failure)
		}
	}
}

// Nor has a script it called to undo a call, or to find out about one.
func TestScriptsDoNotUndoByProbes(t *testing.T) {
	t.Parallel()
	for only, want := range map[bool]string{true: "echo {}", false: `echo {},secret {"n":1}`} {
		b := newBench(t, scripted("call_tool('echo', {}, None, policy(undo=undo(data['name'], {'n': 1})))\nfail('no')", "tools: ['*']\nparameters: {name: string}"), `{"name": "secret"}`, nil)
		b.input.Tools["be.secret"] = definitions.Tool{Name: "secret", Backend: "be", Original: "secret", Effect: definitions.Read, ForProbe: only}
		b.answer(time.Hour, "script/main:1/compensate#1", "cancel", "")
		if b.run(); strings.Join(b.calls, ",") != want {
			t.Errorf("for a probe only: %t; it called %v", only, b.calls)
		}
	}
}

// The failure of a script lists what the script had called before.
func TestPartialOfScripts(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]map[string]string{
		`{name: a, description: d, script: "echo(v=1)\necho(v=2)\nfail_tool()\n"}`:                                                                                    {"script/main:1": `{"v":1}`, "script/main:2": `{"v":2}`},
		`{name: a, description: d, steps: [{id: one, tool: echo, arguments: {v: "0"}}, {id: s, type: script, script: "echo(v=1)\nfail_tool()\n", dependsOn: [one]}]}`: {"one": `{"v":"0"}`, "s/main:1": `{"v":1}`},
	} {
		_, failure := newBench(t, source, `{}`, map[string]toolFunc{"fail_tool": failing}).run()
		if failure == nil {
			t.Fatal("did not fail")
		}
		got := map[string]string{}
		for path, out := range failure.Partial {
			got[string(path)] = string(out)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", source, diff)
		}
	}
}
