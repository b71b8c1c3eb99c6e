package view

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
)

// A plan goes down into the composite tools that steps call: what they ask and
// write is told with what it holds back.
func TestPlanOfCalledWorkflows(t *testing.T) {
	t.Parallel()
	defs, diags := definitions.Parse("plan.yaml", []byte(`
name: ship
description: d
parameters: {key: string}
steps:
  - {id: review, type: workflow, workflow: review, arguments: {key: "{{.params.key}}"}}
  - {id: tell, tool: write, arguments: {text: "{{.steps.review.output}}"}, dependsOn: [review]}
---
name: review
description: d
parameters: {key: string, depth: integer = 2}
steps:
  - {id: look, tool: read, arguments: {key: "{{.params.key}} {{.params.depth}}"}}
  - {id: ok, type: elicitation, message: "Write {{.params.key}}?", dependsOn: [look]}
  - {id: save, tool: write, arguments: {text: "{{.steps.ok.action}}"}, dependsOn: [ok]}
`))
	perduretest.NoError(t, diags.Err())
	program := perduretest.Must(definitions.Compile(defs[0]))(t)
	tools := func(name string) (definitions.Tool, bool) {
		return definitions.Tool{Name: name, Backend: "be", Effect: map[string]definitions.Effect{"read": definitions.Read, "write": definitions.Unsafe}[name]}, true
	}
	plan, err := NewPlan(program, []byte(`{"key": "it"}`), PlanOptions{Tools: tools, Definitions: definitions.Among(defs)})
	if err != nil || plan.Problem != "" {
		t.Fatalf("%v, %s", err, plan.Problem)
	}
	if len(plan.Approvals) != 1 || plan.Approvals[0].Step != "review/ok" || strings.Join(plan.Approvals[0].Before, " ") != "review/save tell" {
		t.Errorf("approvals: %+v", plan.Approvals)
	}
	if len(plan.Writes) != 2 || plan.Writes[0].Step != "review/save" || plan.Writes[1].Step != "tell" {
		t.Fatalf("writes: %+v", plan.Writes)
	}
	for _, w := range plan.Writes {
		if len(w.Approvals) != 1 || w.Approvals[0] != (WriteApproval{"review/ok", Yes}) {
			t.Errorf("what holds %s back: %+v", w.Step, w.Approvals)
		}
	}
	if plan.AtMost.Calls != 3 || plan.AtMost.Questions != 1 || plan.AtMost.Writes != 2 {
		t.Errorf("at most: %+v", plan.AtMost)
	}
	for _, part := range []string{"calls the composite tool review", "it 2", "Write it?"} {
		if text := plan.Text(nil); !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
	if alone, err := NewPlan(program, []byte(`{"key": "it"}`), PlanOptions{Tools: tools}); err != nil || !strings.Contains(alone.Problem, "composite tool review not found") {
		t.Errorf("without the other: %v, %s", err, alone.Problem)
	}
}

// A dry run of a script tells what the composites write that it calls, and that
// unknown where only a run can tell.
func TestPlanOfAScriptThatCalls(t *testing.T) {
	t.Parallel()
	defs, diags := definitions.Parse("a.yaml", []byte(`{name: a, description: d, script: "for i in [1, 2]:\n  call_workflow('b', n=i)\ncall_workflow('b')"}
---
{name: b, description: d, parameters: {type: object, properties: {n: {type: integer}}, required: [n]}, steps: [{id: s, tool: be_send, arguments: {n: "{{.params.n}}"}}]}`))
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	program := perduretest.Must(definitions.Compile(defs[0]))(t)
	plan, err := NewPlan(program, []byte(`{}`), PlanOptions{Tools: planTools(t), Definitions: definitions.Among(defs)})
	if err != nil {
		t.Fatal(err)
	}
	want := []PlannedWrite{{Step: "script/s", Tool: "be_send", Effect: definitions.Unsafe, Runs: Depends, AtMost: definitions.MaxScriptCalls}}
	if diff := cmp.Diff(want, plan.Writes); diff != "" || plan.AtMost.Writes != 2*definitions.MaxScriptCalls {
		t.Errorf("the writes are %+v, at most %d", plan.Writes, plan.AtMost.Writes)
	}
	alone, err := NewPlan(program, []byte(`{}`), PlanOptions{Tools: planTools(t)})
	if err != nil || len(alone.Writes) != 1 || alone.Writes[0].Tool != "whatever b calls" {
		t.Errorf("without the other: %v, %+v", err, alone.Writes)
	}
}

// A script gets the values of its arguments as they are, and explain tells them so,
// with the calls that it makes.
func TestExplainAScript(t *testing.T) {
	t.Parallel()
	p := program(t, []byte(`{name: a, description: d, steps: [{id: pick, type: script, arguments: {xs: "{{.params.xs}}", text: "n {{.params.n}}"}, script: "be_send(n=data['xs'][0])\n"}]}`))
	scope := &definitions.Scope{Params: map[string]any{"xs": []any{json.Number("1")}, "n": json.Number("2")}}
	x, err := Explain(p, "pick", scope, nil)
	if err != nil || len(x.Script) != 1 || x.Script[0].Line != 1 {
		t.Fatalf("%+v, %v", x, err)
	}
	got := map[string]string{}
	for _, field := range x.Fields {
		got[field.Field] = field.Type + " " + string(field.Value)
	}
	if diff := cmp.Diff(map[string]string{"arguments.xs": "array [1]", "arguments.text": `string "n 2"`}, got); diff != "" {
		t.Error(diff)
	}
	x, err = Explain(program(t, []byte(`{name: a, description: d, script: "be_send(n=data['n'])"}`)), definitions.ScriptID, scope, nil)
	if err != nil || len(x.Fields) != 1 || x.Fields[0].Field != "data" || string(x.Fields[0].Value) != `{"n":2,"xs":[1]}` || len(x.Script) != 1 {
		t.Errorf("of a whole script: %+v, %v", x, err)
	}
}

// How deep definitions may call each other is what the configuration says, for
// checks and for plans.
func TestMaxDepth(t *testing.T) {
	t.Parallel()
	defs, diags := definitions.Parse("a.yaml", []byte(`{name: a, description: d, steps: [{id: s, type: workflow, workflow: b}]}
---
{name: b, description: d, script: "call_workflow('c')"}
---
{name: c, description: d, steps: [{id: s, tool: echo}]}`))
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	program := perduretest.Must(definitions.Compile(defs[0]))(t)
	for most, tooDeep := range map[int]bool{0: false, 1: true, 2: false} {
		found := definitions.Check(defs, definitions.CheckOptions{MaxDepth: most})
		if found.HasErrors() != tooDeep {
			t.Errorf("at most %d deep: got %v", most, found)
		}
	}
	plan, err := NewPlan(program, []byte(`{}`), PlanOptions{Definitions: func(definitions.Reference) (*definitions.Definition, bool) { return defs[0], true }, MaxDepth: 2})
	if err != nil {
		t.Fatal(err)
	}
	step := plan.Steps[0]
	for range 2 {
		step = step.Called.Steps[0]
	}
	if !strings.Contains(step.Problem, "more than 2 deep") {
		t.Errorf("the plan of what never ends is %+v", plan)
	}
}
