package history

import (
	"encoding/json"
	"testing"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows"
	"github.com/perdure/perdure/workflows/record"
)

// A run that is resumed with another definition does not have the run of one
// composite tool stand for that of another: the other is called, by who may.
func TestAttackHiddenToolsByResume(t *testing.T) {
	t.Parallel()
	define := func(calls string) *definitions.Definition {
		defs, diags := definitions.Parse("test.yaml", []byte("{name: a, description: d, steps: [{id: r, type: workflow, workflow: "+calls+"}]}"))
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		return defs[0]
	}
	pinned := func(d *definitions.Definition) workflows.Pinned {
		return workflows.Pinned{Name: d.Name, Digest: d.Digest(), Source: d.Source()}
	}
	for calls, kept := range map[string]bool{"one": true, "one@>=1": true, "two": false} {
		was := &workflows.RunRecord{
			Input:   workflows.RunInput{Definition: pinned(define("one")), Arguments: json.RawMessage("{}")},
			Entries: map[workflows.StepPath]record.Entry{"r": {Kind: record.Child{ID: "one/x", Started: true}}},
		}
		below := &workflows.RunRecord{Input: workflows.RunInput{Definition: pinned(define("none")), Arguments: json.RawMessage("{}")}}
		req, called := ResumeRequest{Definition: define(calls)}, map[workflows.StepPath]*CalledRun{}
		_, unfinished := req.Split(was)
		for path, own := range unfinished {
			again := perduretest.Must(PlanResume("one/x", "execution", below, own, nil))(t)
			called[path] = &CalledRun{Again: again}
		}
		plan := perduretest.Must(PlanResume("a/1", "execution", was, req, called))(t)
		if child, ok := plan.Input.Journal["r"].Kind.(record.Child); ok != kept {
			t.Errorf("the step calls %s now, and the run of one is kept as %+v", calls, child)
		}
	}
}

// The call of a called run was not executed, as somebody has recorded: that is kept where the
// run above was reset, since the called run then looks into its history before it calls.
func TestUnknownCallBelowAReset(t *testing.T) {
	t.Parallel()
	define := func(step string) workflows.Pinned {
		defs, diags := definitions.Parse("test.yaml", []byte("{name: a, description: d, steps: [{id: s, "+step+"}]}"))
		perduretest.NoError(t, diags.Err())
		return workflows.Pinned{Name: "a", Digest: defs[0].Digest(), Source: defs[0].Source()}
	}
	for _, reset := range []bool{false, true} {
		above := &workflows.RunRecord{
			Input:   workflows.RunInput{Definition: define("type: workflow, workflow: a"), Arguments: json.RawMessage("{}"), WasReset: reset},
			Entries: map[workflows.StepPath]record.Entry{"s": {Kind: record.Child{ID: "a/x", Started: true}}},
		}
		below := &workflows.RunRecord{
			Input:          workflows.RunInput{Definition: define("tool: pay"), Arguments: json.RawMessage("{}")},
			OutcomeUnknown: map[workflows.StepPath]workflows.UnknownCall{"s": {Times: 1}},
		}
		_, requests := ResumeRequest{Otherwise: workflows.NotHappened}.Split(above)
		plan := perduretest.Must(PlanResume("a/x", "execution", below, requests["s"], nil))(t)
		if _, kept := plan.Input.Journal["s"]; kept != reset {
			t.Errorf("the run above was reset: %t; the called one begins with %+v", reset, plan.Input.Journal)
		}
	}
}

// The key of a keyed call depends on its arguments: with others it may be executed a second
// time, and the plan says so.
func TestRiskOfKeyedCalls(t *testing.T) {
	t.Parallel()
	define := func(text string) *definitions.Definition {
		defs, diags := definitions.Parse("test.yaml", []byte("{name: a, description: d, steps: [{id: s, tool: pay, arguments: {text: "+text+"}}]}"))
		perduretest.NoError(t, diags.Err())
		return defs[0]
	}
	first := define("one")
	done := map[workflows.StepPath]record.Entry{"s": {Kind: record.Call{Tool: "pay", Output: json.RawMessage("{}")}}}
	left := map[workflows.StepPath]string{"s": "pay"}
	for _, tc := range []struct {
		name string
		done map[workflows.StepPath]record.Entry
		left map[workflows.StepPath]string
		as   *definitions.Definition
		risk bool
	}{
		{"completed, as it was", done, nil, nil, false},
		{"completed, with other arguments", done, nil, define("two"), true},
		{"left unknown, as it was", nil, left, nil, false},
		{"left unknown, with other arguments", nil, left, define("two"), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			was := &workflows.RunRecord{Entries: tc.done, Input: workflows.RunInput{
				Definition: workflows.Pinned{Name: "a", Digest: first.Digest(), Source: first.Source()}, Arguments: json.RawMessage("{}"),
				Tools: map[string]definitions.Tool{"pay": {Name: "pay", Effect: definitions.Keyed}}, EarlierUnknown: tc.left,
			}}
			plan := perduretest.Must(PlanResume("a/1", "execution", was, ResumeRequest{Definition: tc.as}, nil))(t)
			if risk := len(plan.AtRisk()) > 0; risk != tc.risk {
				t.Errorf("planned: %+v; want at risk: %t", plan.Steps, tc.risk)
			}
		})
	}
}
