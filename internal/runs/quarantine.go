package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/quarantine"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// pauseAttribute is the search attribute in which Temporal reports why a workflow is
// paused.
const pauseAttribute = "TemporalPauseInfo"

// quarantinedQuery selects the runs that are quarantined.
var quarantinedQuery = "ExecutionStatus = 'Paused' AND " + pauseAttribute + " = " + quote("Reason:"+quarantine.Reason)

// isQuarantined reports whether Temporal has paused an execution because it kills its
// workers, and not on an operator's request.
func isQuarantined(info *workflowpb.WorkflowExecutionInfo) bool {
	if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED {
		return false
	}
	var why []string
	if p := info.GetSearchAttributes().GetIndexedFields()[pauseAttribute]; p != nil {
		_ = converter.GetDefaultDataConverter().FromPayload(p, &why) // never encoded otherwise
	}
	return slices.Contains(why, "Reason:"+quarantine.Reason)
}

// isOpen reports whether an execution has not ended.
func isOpen(s enumspb.WorkflowExecutionStatus) bool {
	return s == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING || s == enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED
}

// Release has a quarantined run executed again, alone. By and reason are for the
// record.
func (c control) Release(ctx context.Context, id RunID, by, reason string) error {
	d, err := c.quarantined(ctx, id, "releasing")
	if err != nil {
		return err
	}
	if err := c.operate(ctx, d, quarantine.ReleaseSignal, history.Released{By: by, Reason: reason}); err != nil {
		return failure(ctx, "releasing", id, err)
	}
	return nil
}

// FailQuarantined has a quarantined run end as failed, without executing it, by a
// worker. What it has completed is not undone. It returns when the run has ended. If
// somebody released it meanwhile, and a worker executes it, it is ErrNotQuarantined.
func (c control) FailQuarantined(ctx context.Context, id RunID, by, reason string) error {
	d, err := c.quarantined(ctx, id, "failing")
	if err != nil {
		return err
	}
	message := "the run was quarantined, as it took its worker down, and " + by + " has ended it"
	if reason != "" {
		message += ": " + reason
	}
	details := Failure{Error: Error{Code: codes.Quarantined, Category: codes.CategoryInternal, Message: message}}
	if err := c.operate(ctx, d, quarantine.FailSignal, details); err != nil {
		return failure(ctx, "failing", id, err)
	}
	for pause := newBackoff(); ; {
		run, err := c.Get(ctx, id)
		switch {
		case err == nil && run.Status == workflows.Failed:
			return nil
		case err == nil && run.Closed != nil: // released meanwhile, and executed
			return fmt.Errorf("failing run %s, which is %s: %w", id, run.Status, ErrNotQuarantined)
		case err != nil && !errors.Is(err, ErrUnavailable):
			return err
		case !pause.wait(ctx):
			if _, err := c.quarantined(context.WithoutCancel(ctx), id, "failing"); errors.Is(err, ErrNotQuarantined) {
				return err
			}
			return fmt.Errorf("failing run %s: no worker has taken that up yet, and the first one will: %w", id, ctx.Err())
		}
	}
}

// quarantined finds a run, if it is quarantined.
func (c control) quarantined(ctx context.Context, id RunID, doing string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	d, err := c.describe(ctx, id)
	if err != nil {
		return nil, failure(ctx, doing, id, err)
	}
	if isQuarantined(d.WorkflowExecutionInfo) {
		return d, nil
	}
	if isOpen(d.WorkflowExecutionInfo.Status) { // a Temporal that cannot pause a run
		so := newDetailed()
		for m, err := range c.all(ctx, id) {
			if err != nil {
				return nil, failure(ctx, doing, id, err)
			}
			so.add(m)
		}
		if so.Quarantine != nil {
			return d, nil
		}
	}
	return nil, fmt.Errorf("%s run %s: %w", doing, id, ErrNotQuarantined)
}

// operate signals an operator's decision about a quarantined run, and has Temporal hand
// the run out to workers.
func (c control) operate(ctx context.Context, d *workflowservice.DescribeWorkflowExecutionResponse, signal string, content any) error {
	run := d.WorkflowExecutionInfo.Execution
	if c.keys == nil {
		return ErrNoKey
	}
	said, err := converter.WithDataConverterSerializationContext(c.converter,
		converter.WorkflowSerializationContext{Namespace: c.namespace, WorkflowID: run.WorkflowId}).ToPayload(content)
	if err != nil {
		return fmt.Errorf("encoding a signal to run %s: %w", run.WorkflowId, err)
	}
	if _, err := c.temporal.WorkflowService().SignalWorkflowExecution(ctx, &workflowservice.SignalWorkflowExecutionRequest{
		Namespace: c.namespace, WorkflowExecution: run, SignalName: signal, Input: quarantine.Prove(c.keys, signal, run, said),
		Identity: "perdure", RequestId: randomName(26),
	}); err != nil {
		return err
	}
	if d.WorkflowExecutionInfo.Status != enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED {
		return nil
	}
	_, err = c.temporal.WorkflowService().UnpauseWorkflowExecution(ctx, &workflowservice.UnpauseWorkflowExecutionRequest{
		Namespace: c.namespace, WorkflowId: run.WorkflowId, RunId: run.RunId, Identity: "perdure", RequestId: randomName(26),
	})
	var already *serviceerror.FailedPrecondition
	if errors.As(err, &already) { // another process was faster
		return nil
	}
	return err
}
