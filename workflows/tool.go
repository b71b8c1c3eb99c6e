package workflows

import (
	"cmp"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows/record"
)

type toolKind struct{ view.StepKind }

// Execute calls the tool.
func (toolKind) Execute(ctx workflow.Context, s StepRun) Outcome {
	r, n, at := s.run, s.Node, s.at
	tool, ok := r.in.Tools[n.Step.Tool]
	if !ok {
		return Outcome{status: stepFailed, err: &Error{
			Code: codes.UnknownTool, Category: codes.CategoryTool, Retryable: true,
			Message: fmt.Sprintf("step %s: no backend offered the tool %s when the run started", at.path, n.Step.Tool),
		}}
	}
	args, err := n.Arguments(r.steps.scopeAt(ctx, at), tool.InputSchema)
	if err != nil {
		return Outcome{status: stepFailed, err: templateError(n, at, err)}
	}
	if n := record.PayloadSize(args); n > r.maxValue() {
		return Outcome{status: stepFailed, err: &Error{Code: codes.ArgumentsTooLarge, Category: codes.CategoryLimit,
			Message: fmt.Sprintf("step %s: the arguments have %d bytes; the limit is %d", at.path, n, r.maxValue())}}
	}
	q := request{tool: tool, path: at.path, keyPath: r.keyPath(at.path, at.path), args: args, limit: timeout(n.Step), onError: n.Step.OnError,
		onUnknown: cmp.Or(n.Step.OnUnknown, tool.OnUnknown), undoable: n.Step.Compensate != nil}
	q.probe = func() (*probe, error) { return r.probeOf(ctx, n, at, tool) }
	result, failure := r.calls.call(ctx, q)
	if failure != nil {
		return Outcome{status: stepFailed, err: failure}
	}
	output, err := template.DecodeValue(result.Output)
	if err != nil {
		return Outcome{status: stepFailed, err: &Error{Code: codes.InvalidOutput, Category: codes.CategoryInternal,
			Message: fmt.Sprintf("step %s: reading the output of %s: %s", at.path, tool.Name, err)}}
	}
	return Outcome{status: stepCompleted, output: output}
}
