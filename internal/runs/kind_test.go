package runs_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// A tossKind is a type of steps that is defined here alone: it tosses a coin, which
// shows heads where its arguments have an even length. A new one needs no more than this.
type tossKind struct{}

func init() { workflows.RegisterKind(tossKind{}) }

func (tossKind) Type() definitions.StepType { return "toss" }

func (tossKind) Keys() definitions.StepKeys {
	return definitions.StepKeys{Own: []string{"arguments"}, Must: []string{"arguments"}}
}

func (tossKind) Traits() definitions.Traits { return definitions.Traits{} }

func (tossKind) Check(at definitions.StepCheck) {
	if at.Step().Arguments["coin"] == nil {
		at.Errorf("arguments", "required", "arguments.coin is required: what is tossed")
	}
}

func (tossKind) Output(*definitions.Step) []string { return []string{"side"} }

func (tossKind) Does(s *definitions.Step) string { return fmt.Sprint("toss ", s.Arguments["coin"]) }

func (tossKind) Look() definitions.Look {
	return definitions.Look{Symbol: "¢", Fill: "#ffffff", Line: "#000000", Shape: definitions.Pill, Mermaid: [2]string{"((", "))"}}
}

func (tossKind) Plan(view.StepPlan) view.PlanLimits { return view.PlanLimits{} }

func (tossKind) Headline(view.PlannedStep) string { return "tosses a coin" }

func (tossKind) Execute(ctx workflow.Context, s workflows.StepRun) workflows.Outcome {
	arguments, err := s.Node.Arguments(s.Scope(ctx), nil)
	if err != nil {
		return s.Failed(&workflows.Error{Code: codes.TemplateFailed, Category: codes.CategoryTemplate, Message: err.Error()})
	}
	tossed := string(arguments)
	side, known := s.Recorded(tossed)
	if !known {
		side = json.RawMessage(`"heads"`)
		if len(tossed)%2 == 1 {
			side = json.RawMessage(`"tails"`)
		}
		s.Record(tossed, side)
	}
	return s.Completed(map[string]any{"side": strings.Trim(string(side), `"`)})
}

const tossing = `
name: tossing
description: Tosses a coin, and writes what it shows.
parameters: {type: object, properties: {as: {type: string}}}
steps:
  - {id: first, type: toss, arguments: {coin: "dime"}}
  - {id: save, tool: write, arguments: {as: "{{.params.as}}", n: "{{.steps.first.output.side}}"}}
  - {id: each, type: forEach, dependsOn: [save], collection: '["penny", "cent"]', step: {type: toss, arguments: {coin: "{{.forEach.item}}"}}, collect: "{{.output.side}}"}
output:
  properties:
    sides: {type: array, description: What the coins show., value: "{{json .steps.each.output.collected}}"}
`

// A type of steps is added by one file: it is parsed, checked, drawn, planned,
// executed, and kept when its run is repeated.
func TestStepKindOfItsOwn(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		strings.ReplaceAll(tossing, "{coin: ", "{note: "):          "arguments.coin is required",
		strings.ReplaceAll(tossing, ".side}}", ".face}}"):          "a step of type toss has no such output",
		strings.ReplaceAll(tossing, `"dime"}`, `"dime"}, for: 5s`): "for belongs to a step of type wait, and this one is of type toss",
		strings.ReplaceAll(tossing, "type: toss", "type: toes"):    `did you mean "toss"?`,
	} {
		defs, diags := definitions.Parse("test.yaml", []byte(source))
		diags = append(diags, definitions.Check(defs, definitions.CheckOptions{})...)
		if !slices.ContainsFunc(diags, func(d definitions.Diagnostic) bool { return strings.Contains(d.Message, want) }) {
			t.Errorf("want %q, got %v", want, diags)
		}
	}

	req := request(t, tossing)
	program := perduretest.Must(definitions.Compile(req.Definition))(t)
	if drawn := view.NewGraph(program, nil).Text(); !strings.Contains(drawn, "¢") || !strings.Contains(drawn, "toss dime") {
		t.Errorf("the graph is\n%s", drawn)
	}
	plan, err := view.NewPlan(program, req.Arguments, view.PlanOptions{})
	if err != nil || !strings.Contains(plan.Text(nil), "tosses a coin") {
		t.Errorf("the plan is %v, %v", plan, err)
	}

	c, _ := connect(t)
	s := newScript(t)
	s.fail("save", failing)
	id := start(t, c, req)
	followTo(t, c, id, 0, runs.EventDone)
	s.fail("save", nil)
	if diff := cmp.Diff([]string{"first reused", "save executed"}, fates(resumeRun(t, c, id, history.ResumeRequest{By: "ada"}))); diff != "" {
		t.Errorf("the plan of the repeated run: %s", diff)
	}
	events := followTo(t, c, id, 0, runs.EventDone)
	done := events[len(events)-1].Outcome
	if done.Status != workflows.Completed || string(done.Output) != `{"sides":["heads","tails"]}` {
		t.Errorf("ended %s with %s, %+v", done.Status, done.Output, done.Failure)
	}
	if diff := cmp.Diff([]string{"save tails", "save tails"}, s.made()); diff != "" {
		t.Errorf("calls: %s", diff)
	}
}
