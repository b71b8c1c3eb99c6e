package workflows_test

import (
	"encoding/json"
	"errors"
	"testing"

	"go.temporal.io/sdk/temporal"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows"
	"github.com/perdure/perdure/workflows/record"
)

// TestRecordOfAnotherBuild: what another build has recorded fails the workflow task, and
// not the run, and no called run begins anew because this one cannot read what it has done.
func TestRecordOfAnotherBuild(t *testing.T) {
	t.Parallel()
	const unknown = `{"kind":"of tomorrow","order":1}`
	for name, journal := range map[string]map[workflows.StepPath]json.RawMessage{
		"of the run": {"s": json.RawMessage(unknown)},
		"of a called run": {"s": mustJSON(record.Entry{Order: 1, Kind: record.Child{ID: "b/1",
			Again: json.RawMessage(`{"journal":{"t":` + unknown + `}}`)}})},
	} {
		called := 0
		b := newBench(t, `{name: a, description: d, steps: [{id: s, type: workflow, workflow: b}]}
---
{name: b, description: d, steps: [{id: t, tool: create}]}`, `{}`, map[string]toolFunc{
			"create": func(workflows.ToolCall) (string, error) { called++; return `{}`, nil },
		})
		var in map[string]any
		perduretest.NoError(t, json.Unmarshal(mustJSON(b.input), &in))
		in["journal"], in["continued"] = journal, true
		b.env.ExecuteWorkflow(b.input.WorkflowType(), in)
		var task *temporal.PanicError
		if err := b.env.GetWorkflowError(); !errors.As(err, &task) || called > 0 {
			t.Errorf("%s: %v, after %d calls", name, err, called)
		}
	}
}
