package runs

import (
	"context"
	"errors"
	"slices"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/perdure/perdure/internal/runs/history"
)

// A control ends runs; quarantine.go has what it does with those that are quarantined.
type control struct{ lists }

// Terminate ends a run at once, without a word from it, and after it those that
// its steps have called. For a run that has ended it does nothing. An error names
// each run that it could not end; the others have ended.
func (c control) Terminate(ctx context.Context, id RunID, reason string) error {
	if _, err := c.describe(ctx, id); err != nil { // it may be another program's
		return failure(ctx, "reading", id, err)
	}
	err := c.temporal.TerminateWorkflow(ctx, string(id), "", reason)
	var gone *serviceerror.NotFound
	if err != nil && !errors.As(err, &gone) { // one that has ended need not be
		return failure(ctx, "terminating", id, err)
	}
	called, err := c.calledBy(ctx, id)
	for _, child := range called {
		if e := c.Terminate(ctx, child, reason); !errors.Is(e, ErrNotFound) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// calledBy are the runs under way that a run has called, in any of its executions.
// Temporal lists those of the last one. With an error some are missing. Of a run that
// is under way there may soon be more.
func (c control) calledBy(ctx context.Context, id RunID) (called []RunID, err error) {
	d, err := c.describe(ctx, id)
	if err != nil {
		return nil, failure(ctx, "reading", id, err)
	}
	add := func(run string) {
		if !slices.Contains(called, RunID(run)) {
			called = append(called, RunID(run))
		}
	}
	for _, p := range d.PendingChildren {
		add(p.WorkflowId)
	}
	if isFirst(d.WorkflowExecutionInfo) {
		return called, nil
	}
	underWay := map[string]bool{}
	for m, err := range c.all(ctx, id) {
		if err != nil {
			return called, failure(ctx, "reading", id, err)
		}
		for _, fact := range m.Facts {
			switch f := fact.(type) {
			case history.CallStarted:
				underWay[f.Call.Run] = true
			case history.CallEnded:
				if f.Call.Activity == "" { // else it is what an activity has found out
					delete(underWay, f.Call.Run)
				}
			}
		}
	}
	delete(underWay, "") // calls of tools
	for run := range underWay {
		add(run)
	}
	return called, nil
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
