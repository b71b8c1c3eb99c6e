package workflows_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows"
)

func TestFailureModes(t *testing.T) {
	t.Parallel()
	const source = `{name: a, description: d, failureMode: MODE, steps: [
		{id: bad, tool: fail},
		{id: after_bad, tool: t, dependsOn: [bad]},
		{id: after_that, tool: t, dependsOn: [after_bad]},
		{id: slow, type: wait, for: 10m},
		{id: other, tool: t, dependsOn: [slow], arguments: {n: 1}}]}`
	for _, tc := range []struct {
		mode, output, failure string
		calls                 []string
	}{
		{mode: "abort", failure: "step bad: planned failure", calls: []string{"fail {}"}},
		{mode: "continue", failure: "step bad: planned failure", calls: []string{"fail {}", `t {"n":1}`}},
		{mode: "best_effort", output: `{"n":1}`, calls: []string{"fail {}", `t {"n":1}`}},
	} {
		t.Run(tc.mode, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, strings.ReplaceAll(source, "MODE", tc.mode), `{}`, map[string]toolFunc{"fail": failing})
			output, failure := b.run()
			message := ""
			if failure != nil {
				message = failure.Error.Message
			}
			if output != tc.output || message != tc.failure {
				t.Errorf("got %q, %q; want %q, %q", output, message, tc.output, tc.failure)
			}
			if diff := cmp.Diff(tc.calls, b.calls); diff != "" {
				t.Error(diff)
			}
			if tc.mode != "best_effort" {
				return
			}
			var res workflows.RunResult
			if err := b.env.GetWorkflowResult(&res); err != nil || len(res.Errors) != 1 || res.Errors[0].StepID != "bad" {
				t.Errorf("errors of the run: %+v, %v", res.Errors, err)
			}
		})
	}
}

func TestWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t, `{name: a, description: d, timeout: 4000h, parameters: {type: object, properties: {days: {type: integer}}}, steps: [
		{id: w, type: wait, for: "{{mul .params.days 24}}h"},
		{id: t, tool: t, dependsOn: [w], arguments: {until: "{{.steps.w.output.until}}"}}]}`, `{"days":90}`, nil)
	began := b.env.Now()
	output, failure := b.run()
	if failure != nil {
		t.Fatalf("failed: %+v", failure)
	}
	if took := b.env.Now().Sub(began); took < 90*24*time.Hour || took > 91*24*time.Hour {
		t.Errorf("waited %s, want 90 days", took)
	}
	if !strings.Contains(output, began.Add(90*24*time.Hour).UTC().Format("2006-01-02")) {
		t.Errorf("output %s does not say until when", output)
	}
}

func TestObjectsAndCollect(t *testing.T) {
	t.Parallel()
	b := newBench(t, `{name: a, description: d, steps: [
		{id: e, type: forEach, collection: '{"b": 2, "a": 1, "": 0}', collect: "{{.forEach.key}}={{.output.v}}",
		 step: {tool: t, arguments: {v: "{{.forEach.item}}"}}}],
		output: {properties: {all: {type: array, description: d, value: "{{.steps.e.output.collected}}"}}}}`, `{}`, nil)
	output, failure := b.run()
	if failure != nil {
		t.Fatalf("failed: %+v", failure)
	}
	if want := `{"all":["=0","a=1","b=2"]}`; output != want {
		t.Errorf("got %s, want %s", output, want)
	}
}

const undoable = `{name: a, description: d, timeout: 100h, steps: [
	{id: one, tool: make, arguments: {n: 1}, compensate: {tool: unmake, arguments: {n: "{{.output.n}}"}}},
	{id: two, tool: make, dependsOn: [one], arguments: {n: 2}, compensate: {tool: unmake, arguments: {n: "{{.output.n}}"}}},
	{id: not, tool: t, dependsOn: [one], condition: "false", compensate: {tool: unmake, arguments: {n: never}}},
	{id: g, type: elicitation, message: m, dependsOn: [two, not], timeout: 50h},
	{id: three, tool: fail, dependsOn: [g], compensate: {tool: unmake, arguments: {n: never}}}]}`

func TestCompensation(t *testing.T) {
	t.Parallel()
	undone := []string{`make {"n":1}`, `make {"n":2}`, `unmake {"n":"2"}`, `unmake {"n":"1"}`}
	for _, tc := range []struct {
		name, category string
		arrange        func(b *bench)
		calls          []string
	}{
		{"declined", "declined", func(b *bench) { b.answer(time.Hour, "g#1", "decline", "") }, undone},
		{"cancelled", "cancelled", func(b *bench) { b.env.RegisterDelayedCallback(b.env.CancelWorkflow, time.Hour) }, undone},
		{"failed", "tool", func(b *bench) { b.answer(time.Hour, "g#1", "accept", "{}") },
			[]string{`make {"n":1}`, `make {"n":2}`, `fail {}`, `unmake {"n":"2"}`, `unmake {"n":"1"}`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, undoable, `{}`, map[string]toolFunc{"fail": failing})
			tc.arrange(b)
			output, failure := b.run()
			if failure == nil {
				t.Fatalf("completed with %s", output)
			}
			if string(failure.Error.Category) != tc.category {
				t.Errorf("category %s, want %s", failure.Error.Category, tc.category)
			}
			if diff := cmp.Diff([]workflows.StepPath{"two", "one"}, failure.Compensated); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.calls, b.calls); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A compensation that fails makes the run wait for a person, who may have it tried
// again, report that it was done by hand, or leave it.
func TestCompensationThatFails(t *testing.T) {
	t.Parallel()
	broken := true
	b := newBench(t, undoable, `{}`, map[string]toolFunc{"unmake": func(call workflows.ToolCall) (string, error) {
		if broken {
			return failing(call)
		}
		return `{}`, nil
	}})
	b.answer(time.Hour, "g#1", "decline", "")
	b.env.RegisterDelayedCallback(func() { broken = false }, 200*time.Hour)
	b.answer(201*time.Hour, "two/compensate#1", "decline", "") // tried again
	b.env.RegisterDelayedCallback(func() { broken = true }, 201*time.Hour-time.Second)
	b.answer(203*time.Hour, "two/compensate#2", "cancel", "")
	b.answer(204*time.Hour, "one/compensate#1", "accept", "")
	_, failure := b.run()
	if failure == nil {
		t.Fatal("completed")
	}
	if diff := cmp.Diff([]workflows.StepPath{"one"}, failure.Compensated); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]workflows.StepPath{"two"}, failure.Uncompensated); diff != "" {
		t.Error(diff)
	}
}

// A run whose history grows long continues in a new execution, with what is done in its
// journal and its open elicitation as it stands.
func TestContinueAsNew(t *testing.T) {
	t.Parallel()
	const source = `{name: a, description: d, timeout: 100h, steps: [
		{id: one, tool: t, arguments: {n: 1}},
		{id: g, type: elicitation, message: m, dependsOn: [one], timeout: 50h},
		{id: quick, type: wait, for: 1h},
		{id: two, tool: t, dependsOn: [quick], arguments: {n: 2}},
		{id: w, tool: t, dependsOn: [g, two], arguments: {n: "{{.steps.g.output.action}}"}}]}`
	first := newBench(t, source, `{}`, nil)
	began := first.env.Now()
	first.env.RegisterDelayedCallback(func() { first.env.SetContinueAsNewSuggested(true) }, 30*time.Minute)
	first.env.ExecuteWorkflow(first.input.WorkflowType(), first.input)
	var next *workflow.ContinueAsNewError
	if err := first.env.GetWorkflowError(); !errors.As(err, &next) {
		t.Fatalf("got %v, want to continue as new", err)
	}
	if diff := cmp.Diff([]string{`t {"n":1}`}, first.calls); diff != "" {
		t.Errorf("calls of the first execution: %s", diff)
	}

	second := newBench(t, source, `{}`, nil)
	perduretest.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &second.input))
	if len(second.input.Open) != 1 || !second.input.Open[0].Opened.Equal(began) || !second.input.Started.Equal(began) {
		t.Errorf("open elicitations %+v, started %s; want those of %s", second.input.Open, second.input.Started, began)
	}
	second.env.SetStartTime(began.Add(time.Hour))
	second.answer(time.Hour, "g#1", "accept", "{}")
	output, failure := second.run()
	if failure != nil {
		t.Fatalf("failed: %+v", failure)
	}
	if output != `{"n":"accept"}` {
		t.Errorf("got %s", output)
	}
	if diff := cmp.Diff([]string{`t {"n":2}`, `t {"n":"accept"}`}, second.calls); diff != "" {
		t.Errorf("calls of the second execution: %s", diff)
	}
}
