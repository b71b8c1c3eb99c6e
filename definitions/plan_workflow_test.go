package definitions

import (
	"strings"
	"testing"
)

// A plan goes down into the composite tools that steps call: what they ask and
// write is told with what it holds back.
func TestPlanOfCalledWorkflows(t *testing.T) {
	t.Parallel()
	defs, diags := Parse("plan.yaml", []byte(`
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
	if err := diags.Err(); err != nil {
		t.Fatal(err)
	}
	program, err := Compile(defs[0])
	if err != nil {
		t.Fatal(err)
	}
	tools := func(name string) (Tool, bool) {
		return Tool{Name: name, Backend: "be", Effect: map[string]Effect{"read": Read, "write": Unsafe}[name]}, true
	}
	plan, err := program.PlanCalling([]byte(`{"key": "it"}`), tools, Among(defs), 0)
	if err != nil || plan.Problem != "" {
		t.Fatalf("%v, %s", err, plan.Problem)
	}
	if len(plan.Gates) != 1 || plan.Gates[0].Step != "review/ok" || strings.Join(plan.Gates[0].Before, " ") != "review/save tell" {
		t.Errorf("gates: %+v", plan.Gates)
	}
	if len(plan.Writes) != 2 || plan.Writes[0].Step != "review/save" || plan.Writes[1].Step != "tell" {
		t.Fatalf("writes: %+v", plan.Writes)
	}
	for _, w := range plan.Writes {
		if len(w.Gates) != 1 || w.Gates[0] != (WriteGate{"review/ok", Yes}) {
			t.Errorf("what holds %s back: %+v", w.Step, w.Gates)
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
	if alone, err := program.Plan([]byte(`{"key": "it"}`), tools); err != nil || !strings.Contains(alone.Problem, "there is no composite tool review") {
		t.Errorf("without the other: %v, %s", err, alone.Problem)
	}
}

// How deep definitions may call each other is what the configuration says, for
// checks and for plans.
func TestMaxDepth(t *testing.T) {
	t.Parallel()
	defs, diags := Parse("a.yaml", []byte(`{name: a, description: d, steps: [{id: s, type: workflow, workflow: b}]}
---
{name: b, description: d, script: "call_workflow('c')"}
---
{name: c, description: d, steps: [{id: s, tool: echo}]}`))
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	program, err := Compile(defs[0])
	if err != nil {
		t.Fatal(err)
	}
	for most, tooDeep := range map[int]bool{0: false, 1: true, 2: false} {
		found := Check(defs, CheckOptions{MaxDepth: most})
		if found.HasErrors() != tooDeep {
			t.Errorf("at most %d deep: got %v", most, found)
		}
	}
	plan, err := program.PlanCalling([]byte(`{}`), nil, func(Reference) (*Definition, bool) { return defs[0], true }, 2)
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
