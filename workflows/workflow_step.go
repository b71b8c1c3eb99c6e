package workflows

import (
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/codes"
)

type workflowKind struct{ view.StepKind }

// Execute calls the composite tool.
func (workflowKind) Execute(ctx workflow.Context, s StepRun) Outcome {
	r, n, at := s.run, s.Node, s.at
	result, failure := r.children.callWorkflow(ctx, childCall{
		path: at.path, keyPath: r.keyPath(at.path, at.path), undoable: n.Step.Compensate != nil, workflow: n.Step.Workflow, limit: time.Duration(n.Step.Timeout),
		arguments: func(schema json.RawMessage) (json.RawMessage, error) {
			return n.Arguments(r.steps.scopeAt(ctx, at), schema)
		},
	})
	if failure != nil {
		return Outcome{status: stepFailed, err: failure}
	}
	output, err := template.DecodeValue(result)
	if err != nil {
		return Outcome{status: stepFailed, err: &Error{Code: codes.InvalidOutput, Category: codes.CategoryInternal,
			Message: fmt.Sprintf("step %s: reading the result of %s: %s", at.path, n.Step.Workflow, err)}}
	}
	return Outcome{status: stepCompleted, output: output}
}
