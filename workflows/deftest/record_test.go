package deftest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/temporal"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows"
)

// A recorded failure is shown as the response that leads to it.
func TestRecordedFailures(t *testing.T) {
	t.Parallel()
	why := "why: a reason, backend x cannot be reached: y"
	for kind, r := range map[string]response{
		"error": {Error: &why}, "refused": {Refused: &why}, "unavailable": {Unavailable: &why}, "unknown": {Unknown: &why}, "unauthorized": {Unauthorized: &why},
	} {
		for _, effect := range []definitions.Effect{definitions.Read, definitions.Unsafe} {
			_, err := r.outcome(workflows.ToolCall{Tool: "be_t", Backend: "be", StepPath: "s[1]", Effect: effect}, 1)
			var app *temporal.ApplicationError
			if !errors.As(err, &app) {
				t.Fatalf("%s: %v", kind, err)
			}
			gotKind, gotText := RecordedCall{StepPath: "s[1]", Tool: "be_t", Error: app.Message()}.failure()
			if gotKind != kind || gotText != why {
				t.Errorf("%q is told as %s: %q, want %s: %q", app.Message(), gotKind, gotText, kind, why)
			}
		}
	}
	if kind, _ := (RecordedCall{StepPath: "s", Tool: "t", Error: "step s timed out after 5m0s"}).failure(); kind != "" {
		t.Errorf("a call that timed out is told as %s", kind)
	}
}

// A recording of a run with retries, a question, several items and a call
// without an end becomes a test that passes.
func TestRecordingPasses(t *testing.T) {
	t.Parallel()
	const source = `{name: mixed, description: d, timeout: 100h, steps: [
		{id: a, tool: try, onError: {action: retry, retryCount: 3}},
		{id: ask, type: elicitation, message: "Go?", timeout: 50h, dependsOn: [a], schema: {type: object, properties: {n: {type: integer}}}},
		{id: each, type: forEach, dependsOn: [ask], collection: '["x","y"]', onError: {action: continue}, defaultResults: {iterations: []},
		 step: {tool: get, arguments: {v: "{{.forEach.item}}", run: "{{.workflow.id}}"}}},
		{id: slow, tool: hang, dependsOn: [ask], timeout: 10m, onError: {action: continue}}],
		output: {properties: {n: {type: integer, description: d, value: "{{.steps.ask.output.content.n}}"},
		  all: {type: array, description: d, value: "{{json .steps.each.output.iterations}}"}}}}`
	defs, diags := definitions.Parse("mixed.yaml", []byte(source))
	perduretest.NoError(t, diags.Err())
	d := defs[0]
	started := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	tool := func(name string, effect definitions.Effect) definitions.Tool {
		return definitions.Tool{Name: name, Backend: "be", Original: name, Effect: effect}
	}
	recording := &Recording{
		Run: "mixed/k3v9a2m4qx", Started: started,
		Input: workflows.RunInput{
			Definition: workflows.Pinned{Name: d.Name, Source: d.Source()}, Arguments: json.RawMessage(`{}`),
			Tools: map[string]definitions.Tool{"try": tool("try", definitions.Unsafe), "get": tool("get", definitions.Read), "hang": tool("hang", definitions.Unsafe)},
		},
		Calls: []RecordedCall{
			{StepPath: "a", Tool: "try", Attempts: 3, Took: 3 * time.Second, Output: json.RawMessage(`{"ok":true}`)},
			{StepPath: "each[1]", Tool: "get", Attempts: 1, Output: json.RawMessage(`{"got":12345678901234567890}`)},
			{StepPath: "each[0]", Tool: "get", Attempts: 1, Error: "step each[0]: get failed: no x"},
			{StepPath: "slow", Tool: "hang", Attempts: 1, Took: 10 * time.Minute, Error: "step slow timed out after 10m0s"},
		},
		Elicitations: []workflows.Elicitation{{ID: "ask#1", StepID: "ask", StepPath: "ask", Opened: started.Add(3 * time.Second)}},
		Answers: []RecordedAnswer{{At: started.Add(2 * time.Hour), Answer: workflows.Answer{
			ElicitationID: "ask#1", Action: "accept", Content: json.RawMessage(`{"n":7}`), AnsweredBy: "ada",
		}}},
		Output: json.RawMessage(`{"all":[{"error":"step each[0]: get failed: no x","index":0,"item":"x","status":"failed"},` +
			`{"index":1,"item":"y","output":{"got":12345678901234567890},"status":"completed"}],"n":7}`),
	}
	text := perduretest.Must(recording.TestFile())(t)
	file, diags := Parse("recorded_test.yaml", text, Sources{})
	if err := diags.Err(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	res := file.Cases[0].Run()
	var report strings.Builder
	(&Reporter{W: &report}).Report(res)
	if !res.Passed() {
		t.Fatalf("%s\n%s", report.String(), text)
	}
	statuses := map[string]string{}
	for _, s := range res.Trace.Steps {
		statuses[s.ID] = s.Status
	}
	if diff := cmp.Diff(map[string]string{"a": "completed", "ask": "completed", "each": "completed", "slow": "failed"}, statuses); diff != "" {
		t.Error(diff)
	}
}
