package workflows_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows"
)

// A step of type workflow is a run of its own, with arguments of the types that
// its parameters have and their defaults.
func TestCalledWorkflow(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, source, args, want string
		tools                    map[string]toolFunc
	}{
		{
			name: "arguments are of the types of the parameters, with their defaults",
			source: `{name: a, description: d, parameters: {type: object, properties: {n: {type: integer}}}, steps: [{id: call, type: workflow, workflow: b, arguments: {count: "{{.params.n}}"}}]}
---
{name: b, description: d, parameters: {type: object, properties: {count: {type: integer}, mode: {type: string, default: fast}}}, steps: [{id: s, tool: echo, arguments: {is: "{{.params.count}} {{.params.mode}}"}}]}`,
			args: `{"n": 3}`, want: `{"is":"3 fast"}`,
		},
		{
			name: "for each item",
			source: `{name: a, description: d, steps: [{id: all, type: forEach, collection: '["x","y"]', step: {type: workflow, workflow: b, arguments: {v: "{{.forEach.item}}"}}, collect: "{{.output.v}}"}],
  output: {properties: {got: {type: array, description: d, value: "{{json .steps.all.output.collected}}"}}}}
---
{name: b, description: d, parameters: {type: object, properties: {v: {type: string}}}, steps: [{id: s, tool: echo, arguments: {v: "{{.params.v}}!"}}]}`,
			args: `{}`, want: `{"got":["x!","y!"]}`,
		},
		{
			name: "a workflow that calls another",
			source: `{name: a, description: d, steps: [{id: s, type: workflow, workflow: b}]}
---
{name: b, description: d, steps: [{id: s, type: workflow, workflow: c}]}
---
{name: c, description: d, steps: [{id: s, tool: echo, arguments: {deep: "yes"}}]}`,
			args: `{}`, want: `{"deep":"yes"}`,
		},
		{
			name: "one that fails, and goes on",
			source: `{name: a, description: d, steps: [{id: s, type: workflow, workflow: b, onError: {action: continue}, defaultResults: {v: none}}, {id: t, tool: echo, arguments: {got: "{{.steps.s.output.v}}", status: "{{.steps.s.status}}"}, dependsOn: [s]}]}
---
{name: b, description: d, steps: [{id: s, tool: fail}]}`,
			args: `{}`, want: `{"got":"none","status":"failed"}`, tools: map[string]toolFunc{"fail": failing},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out, failure := newBench(t, tc.source, tc.args, tc.tools).run()
			if failure != nil {
				t.Fatalf("failed: %+v", failure)
			}
			if out != tc.want {
				t.Errorf("got %s, want %s", out, tc.want)
			}
		})
	}
}

// The error of a called workflow reports where it happened, seen from the one that
// called it.
func TestCalledWorkflowFails(t *testing.T) {
	t.Parallel()
	chain := func(depth int) string {
		var docs []string
		for i := range depth {
			docs = append(docs, fmt.Sprintf(`{name: w%d, description: d, steps: [{id: s, type: workflow, workflow: w%d}]}`, i, i+1))
		}
		return strings.Join(append(docs, fmt.Sprintf(`{name: w%d, description: d, steps: [{id: s, tool: echo}]}`, depth)), "\n---\n")
	}
	child := "\n---\n{name: b, description: d, parameters: {type: object, properties: {n: {type: integer}}, required: [n]}, steps: [{id: put, tool: fail}]}"
	for _, tc := range []struct{ name, source, code, path, message string }{
		{"its step", `{name: a, description: d, steps: [{id: s, type: workflow, workflow: b, arguments: {n: "1"}}]}` + child, "tool_error", "s/put", "step s: b failed: step put: planned failure"},
		{"its arguments", `{name: a, description: d, steps: [{id: s, type: workflow, workflow: b, arguments: {n: "{{.params.none}}"}}]}` + child, "invalid_arguments", "s", "step s: b: invalid arguments: n is required"},
		{"no such workflow", `{name: a, description: d, steps: [{id: s, type: workflow, workflow: c}]}`, "unknown_workflow", "s", "step s: there is no composite tool c"},
		{"too deep", chain(11), "workflow_too_deep", strings.Repeat("s/", 10) + "s", "maxWorkflowDepth is 10"},
		{"its time", `{name: a, description: d, steps: [{id: s, type: workflow, workflow: b, timeout: 1h}]}
---
{name: b, description: d, steps: [{id: w, type: wait, for: 20m}, {id: v, type: wait, for: 2h}], timeout: 10h}`, "run_timeout", "s", "b timed out after 1h0m0s in step v"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.name == "its time" {
				tc.source = strings.Replace(tc.source, "description: d, steps", "description: d, timeout: 5h, steps", 1)
			}
			defs, diags := definitions.Parse("test.yaml", []byte(tc.source))
			perduretest.NoError(t, diags.Err())
			_, failure := benchFor(t, defs, `{}`, map[string]toolFunc{"fail": failing}).run()
			if failure == nil {
				t.Fatal("did not fail")
			}
			e := failure.Error
			if string(e.Code) != tc.code || string(e.StepPath) != tc.path || e.StepID != "s" || !strings.Contains(e.Message, tc.message) {
				t.Errorf("got %+v, want %s at %s: %s", e, tc.code, tc.path, tc.message)
			}
		})
	}
}

func TestDepthIsAllowed(t *testing.T) {
	t.Parallel()
	var docs []string
	for i := range 10 {
		docs = append(docs, fmt.Sprintf(`{name: w%d, description: d, steps: [{id: s, type: workflow, workflow: w%d}]}`, i, i+1))
	}
	source := strings.Join(append(docs, `{name: w10, description: d, steps: [{id: s, tool: echo, arguments: {bottom: "yes"}}]}`), "\n---\n")
	if out, failure := newBench(t, source, `{}`, nil).run(); failure != nil || out != `{"bottom":"yes"}` {
		t.Errorf("got %s, %+v", out, failure)
	}
}

// The calls of a called workflow have keys of the whole lineage, are made for the
// same caller, and by the right of the composite tool that called it.
func TestCalledWorkflowCallsTools(t *testing.T) {
	t.Parallel()
	calls := map[string]workflows.ToolCall{}
	note := func(call workflows.ToolCall) (string, error) {
		calls[call.Tool] = call
		return `{}`, nil
	}
	b := newBench(t, `{name: a, description: d, runAs: composite, steps: [{id: put, tool: put_a}, {id: call, type: workflow, workflow: b, dependsOn: [put]}]}
---
{name: b, description: d, steps: [{id: put, tool: put_b}]}`, `{}`, map[string]toolFunc{"put_a": note, "put_b": note})
	if _, failure := b.run(); failure != nil {
		t.Fatal(failure)
	}
	got := calls["put_b"]
	if got.As != "a" || got.Caller.Subject != "tester" || got.StepPath != "put" || !strings.HasPrefix(got.RunID, "b/") {
		t.Errorf("called as %q for %q at %s of %s", got.As, got.Caller.Subject, got.StepPath, got.RunID)
	}
	if got.IdempotencyKey == calls["put_a"].IdempotencyKey {
		t.Error("two calls have one key")
	}
}

// The run above asks the question of a called workflow and passes the answer down, also
// through a workflow between the two.
func TestCalledWorkflowAsks(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"accept", "decline"} {
		b := newBench(t, `{name: a, description: d, steps: [{id: call, type: workflow, workflow: b}]}
---
{name: b, description: d, steps: [{id: inner, type: workflow, workflow: c}]}
---
{name: c, description: d, steps: [{id: ok, type: elicitation, message: Ship it?, schema: {type: object, properties: {n: {type: integer}}, required: [n]}}, {id: ship, tool: ship, arguments: {n: "{{.steps.ok.output.content.n}}"}}]}`, `{}`, nil)
		var states []string
		b.onMemo(func(state workflows.State) {
			for _, e := range state.Elicitations {
				states = append(states, e.ID+" "+string(e.State)+" "+e.By)
			}
		})
		b.answer(time.Second, "call/inner/ok#1", "accept", `{"n": "x"}`) // does not fit
		b.answer(2*time.Second, "call/inner/ok#1", action, `{"n": 4}`)
		b.answer(2*time.Second, "call/inner/ok#1", "accept", `{"n": 5}`)
		out, failure := b.run()
		if action == "accept" && (failure != nil || out != `{"n":"4"}`) {
			t.Errorf("%s: got %s, %+v", action, out, failure)
		}
		if action == "decline" && (failure == nil || failure.Error.Category != codes.CategoryDeclined || failure.Error.StepPath != "call/inner/ok") {
			t.Errorf("%s: got %s, %+v", action, out, failure)
		}
		seen := strings.Join(states, "\n")
		if !strings.Contains(seen, "call/inner/ok#1 open") || !strings.Contains(seen, "call/inner/ok#1 answered ada") {
			t.Errorf("%s: the states were\n%s", action, seen)
		}
	}
}

// A run that is cancelled has the runs cancelled that it has called, and waits
// for what they undo.
func TestCalledWorkflowIsCancelled(t *testing.T) {
	t.Parallel()
	b := newBench(t, `{name: a, description: d, steps: [{id: call, type: workflow, workflow: b}]}
---
{name: b, description: d, steps: [{id: put, tool: put, compensate: {tool: undo}}, {id: ok, type: elicitation, message: Go on?, dependsOn: [put]}]}`, `{}`, nil)
	b.env.RegisterDelayedCallback(b.env.CancelWorkflow, time.Second)
	_, failure := b.run()
	if failure == nil || failure.Error.Category != codes.CategoryCancelled {
		t.Fatalf("got %+v", failure)
	}
	if diff := cmp.Diff([]string{"put {}", "undo {}"}, b.calls); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]workflows.StepPath{"call/put"}, failure.Compensated); diff != "" {
		t.Errorf("undone are (-want +got):\n%s", diff)
	}
}

// The result lists what a called workflow and the one above have undone, in the order
// of undoing.
func TestUndoneBelow(t *testing.T) {
	t.Parallel()
	_, failure := newBench(t, `{name: a, description: d, steps: [{id: one, tool: echo, compensate: {tool: undo}}, {id: call, type: workflow, workflow: b, dependsOn: [one]}]}
---
{name: b, description: d, steps: [{id: call, type: workflow, workflow: c, onError: {action: continue}}, {id: two, tool: echo, compensate: {tool: undo}, dependsOn: [call]}, {id: bad, tool: fail, dependsOn: [two]}]}
---
{name: c, description: d, steps: [{id: three, tool: echo, compensate: {tool: undo}}, {id: bad, tool: fail, dependsOn: [three]}]}`, `{}`, map[string]toolFunc{"fail": failing}).run()
	if failure == nil {
		t.Fatal("did not fail")
	}
	if diff := cmp.Diff([]workflows.StepPath{"call/call/three", "call/two", "one"}, failure.Compensated); diff != "" {
		t.Errorf("undone are (-want +got):\n%s", diff)
	}
}

// However many runs a run has called that have undone something, its failure fits
// into a payload.
func TestUndoneBelowIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("s", 60)
	_, failure := newBench(t, `{name: a, description: d, parameters: {items: array}, steps: [
{id: `+long+`, type: forEach, collection: "{{.params.items}}", itemVar: i, maxIterations: 1000, step: {id: c, type: workflow, workflow: b, onError: {action: continue}}}, {id: bad, tool: fail, dependsOn: [`+long+`]}]}
---
{name: b, description: d, steps: [{id: x`+long+`, tool: echo, compensate: {tool: undo}}, {id: y`+long+`, tool: echo, compensate: {tool: undo}}, {id: bad, tool: fail, dependsOn: [x`+long+`, y`+long+`]}]}`,
		`{"items":[`+strings.Repeat("0,", 400)+`0]}`, map[string]toolFunc{"fail": failing}).run()
	if failure == nil {
		t.Fatal("did not fail")
	}
	told := 0
	for _, path := range failure.Compensated {
		told += len(path)
	}
	if told < 60<<10 || told > 64<<10 {
		t.Errorf("%d bytes of paths are told", told)
	}
}

// A step that has called a workflow can be undone as a whole.
func TestCalledWorkflowIsUndone(t *testing.T) {
	t.Parallel()
	b := newBench(t, `{name: a, description: d, steps: [{id: call, type: workflow, workflow: b, compensate: {tool: undo, arguments: {id: "{{.output.id}}"}}}, {id: bad, tool: fail, dependsOn: [call]}]}
---
{name: b, description: d, steps: [{id: put, tool: put, arguments: {id: "7"}}]}`, `{}`, map[string]toolFunc{"fail": failing})
	_, failure := b.run()
	if failure == nil || len(failure.Compensated) != 1 || failure.Compensated[0] != "call" {
		t.Fatalf("got %+v", failure)
	}
	if diff := cmp.Diff([]string{`put {"id":"7"}`, "fail {}", `undo {"id":"7"}`}, b.calls); diff != "" {
		t.Error(diff)
	}
}

// The failure lists what a called workflow had completed.
func TestPartialOfCalledWorkflow(t *testing.T) {
	t.Parallel()
	b := newBench(t, `{name: a, description: d, steps: [{id: one, tool: echo, arguments: {v: "1"}}, {id: call, type: workflow, workflow: b, dependsOn: [one]}]}
---
{name: b, description: d, steps: [{id: two, tool: echo, arguments: {v: "2"}}, {id: bad, tool: fail, dependsOn: [two]}]}`, `{}`, map[string]toolFunc{"fail": failing})
	_, failure := b.run()
	want := map[workflows.StepPath]json.RawMessage{"one": json.RawMessage(`{"v":"1"}`), "call/two": json.RawMessage(`{"v":"2"}`)}
	if failure == nil {
		t.Fatal("did not fail")
	}
	if diff := cmp.Diff(want, failure.Partial); diff != "" {
		t.Error(diff)
	}
}

// A failure names completed outputs that are too large to be part of it, also those of a
// called workflow.
func TestOmittedOutputs(t *testing.T) {
	t.Parallel()
	b := newBench(t, `{name: a, description: d, steps: [{id: large, tool: big}, {id: small, tool: echo, arguments: {v: "1"}}, {id: call, type: workflow, workflow: b, dependsOn: [large, small]}]}
---
{name: b, description: d, script: "big()\necho(v=2)\nfail_tool()\n"}`, `{}`,
		map[string]toolFunc{"fail_tool": failing, "big": func(workflows.ToolCall) (string, error) {
			return `"` + strings.Repeat("x", 70_000) + `"`, nil
		}})
	_, failure := b.run()
	if failure == nil {
		t.Fatal("did not fail")
	}
	if diff := cmp.Diff([]workflows.StepPath{"large", "call/script/main:1"}, failure.Omitted); diff != "" {
		t.Error(diff)
	}
	want := map[workflows.StepPath]json.RawMessage{"small": json.RawMessage(`{"v":"1"}`), "call/script/main:2": json.RawMessage(`{"v":2}`)}
	if diff := cmp.Diff(want, failure.Partial); diff != "" {
		t.Error(diff)
	}
}

// How deep workflows may call each other goes down with the input.
func TestDepthThatIsConfigured(t *testing.T) {
	t.Parallel()
	const source = `{name: a, description: d, steps: [{id: s, type: workflow, workflow: b}]}
---
{name: b, description: d, steps: [{id: s, type: workflow, workflow: c}]}
---
{name: c, description: d, steps: [{id: s, tool: echo, arguments: {bottom: "yes"}}]}`
	for depth, want := range map[int]string{1: "workflow_too_deep", 2: "", 20: ""} {
		b := newBench(t, source, `{}`, nil)
		b.input.MaxDepth = depth
		got := ""
		if _, failure := b.run(); failure != nil {
			got = string(failure.Error.Code)
		}
		if got != want {
			t.Errorf("at most %d deep: got %q, want %q", depth, got, want)
		}
	}
}
