package runs

import (
	"context"
	"errors"
	"slices"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
)

// A control ends runs; quarantine.go has what it does with those that are quarantined.
type control struct{ lists }

// Terminate ends a run at once, without a word from it, and after it those that
// its steps have called. For a run that has ended it does nothing. An error names
// each run that it could not end; the others have ended.
func (c control) Terminate(ctx context.Context, id RunID, reason string) error {
	d, err := c.describe(ctx, id)
	if err != nil {
		return failure(ctx, "reading", id, err)
	}
	err = c.temporal.TerminateWorkflow(ctx, string(id), "", reason)
	var gone *serviceerror.NotFound
	if err != nil && !errors.As(err, &gone) { // one that has ended need not be
		return failure(ctx, "terminating", id, err)
	}
	called, err := c.calledBy(ctx, d)
	for _, child := range called {
		if e := c.Terminate(ctx, child, reason); !errors.Is(e, ErrNotFound) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// maxCalled bounds the called runs of one run that are looked for.
const maxCalled = 1000

// calledBy are the runs under way that a run has called: those that Temporal lists, and
// those that earlier executions have called. With an error the list is incomplete.
func (c control) calledBy(ctx context.Context, d *workflowservice.DescribeWorkflowExecutionResponse) ([]RunID, error) {
	var called []RunID
	for _, p := range d.PendingChildren {
		called = append(called, RunID(p.WorkflowId))
	}
	info := d.WorkflowExecutionInfo
	if info.FirstRunId == info.Execution.RunId {
		return called, nil
	}
	before, err := c.List(ctx, Filter{Called: true, Limit: maxCalled, Query: "ParentWorkflowId = " + quote(info.Execution.WorkflowId) + " AND CloseTime IS NULL"})
	for _, run := range before {
		if !slices.Contains(called, run.ID) {
			called = append(called, run.ID)
		}
	}
	return called, err
}

// Cancel asks a run to end. It may be called more than once, and for a run that has
// ended: then it does nothing. The run has ended when Follow returns its end.
func (c control) Cancel(ctx context.Context, id RunID, reason string) error {
	if _, err := c.Get(ctx, id); err != nil {
		return err
	}
	_, err := c.temporal.WorkflowService().RequestCancelWorkflowExecution(ctx, &workflowservice.RequestCancelWorkflowExecutionRequest{
		Namespace:         c.namespace,
		WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: string(id)},
		RequestId:         randomName(26),
		Reason:            reason,
		Identity:          "perdure",
	})
	var (
		requested *serviceerror.CancellationAlreadyRequested
		gone      *serviceerror.NotFound
	)
	switch {
	case err == nil || errors.As(err, &requested):
		return nil
	case errors.As(err, &gone): // it has ended
		return nil
	}
	return failure(ctx, "cancelling", id, err)
}
