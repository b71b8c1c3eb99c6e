package runs

import (
	"cmp"
	"context"
	"errors"
	"iter"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/perdure/perdure/internal/quarantine"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// An execution is one of the chain that makes up a run.
type execution struct {
	runID  string // Temporal's
	copied int64  // events up to this one are copies of its predecessor's
}

// told are the events that the execution before has told; none if there is none
// any more.
func (x execution) told(first bool) int64 {
	if first {
		return 0
	}
	return x.copied
}

// fold reads the history of a run.
func (c *Client) fold(id RunID) *history.Fold {
	if c.keys == nil {
		return history.New(c.converter, nil)
	}
	return history.New(c.converter, func(execution string) quarantine.Proven {
		return quarantine.ProvenBy(c.keys, &commonpb.WorkflowExecution{WorkflowId: string(id), RunId: execution})
	})
}

// past reads what has happened in a chain of executions.
func (c *Client) past(ctx context.Context, id RunID, chain []execution) iter.Seq2[history.Moment, error] {
	return func(yield func(history.Moment, error) bool) {
		fold := c.fold(id)
		for i, x := range chain {
			fold.Begin(x.runID, x.told(i == 0))
			for e, err := range c.history(ctx, id, x.runID, false) {
				if err != nil {
					yield(history.Moment{}, err)
					return
				}
				if !yield(fold.Add(e), nil) {
					return
				}
			}
		}
	}
}

// all reads what has happened to a run so far.
func (c *Client) all(ctx context.Context, id RunID) iter.Seq2[history.Moment, error] {
	return func(yield func(history.Moment, error) bool) {
		chain, err := c.chain(ctx, id)
		if err != nil {
			yield(history.Moment{}, err)
			return
		}
		c.past(ctx, id, chain)(yield)
	}
}

// chain finds the executions of a run that have not been deleted, the first
// one first.
func (c *Client) chain(ctx context.Context, id RunID) ([]execution, error) {
	d, err := c.describe(ctx, id)
	if err != nil {
		return nil, err
	}
	info := d.WorkflowExecutionInfo
	runID := info.Execution.RunId
	if _, repaired := info.GetMemo().GetFields()[workflows.MemoRepair]; runID == info.FirstRunId && !repaired {
		return []execution{{runID: runID}}, nil
	}
	var chain []execution
	for runID != "" {
		x, before, err := c.predecessor(ctx, id, runID)
		var gone *serviceerror.NotFound
		if errors.As(err, &gone) && len(chain) > 0 {
			break
		}
		if err != nil {
			return nil, err
		}
		chain = append([]execution{x}, chain...)
		runID = before
	}
	return chain, nil
}

// predecessor reads from an execution's history which one it continues; "" is
// none.
func (c *Client) predecessor(ctx context.Context, id RunID, runID string) (x execution, before string, err error) {
	x.runID = runID
	for e, err := range c.history(ctx, id, runID, false) {
		if err != nil {
			return x, "", err
		}
		if a := e.GetWorkflowExecutionStartedEventAttributes(); a != nil {
			before = cmp.Or(a.ContinuedExecutionRunId, c.repairs(a))
		}
		a := e.GetWorkflowTaskFailedEventAttributes()
		if a.GetCause() == enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW && a.NewRunId == runID {
			before, x.copied = a.BaseRunId, e.EventId
		}
	}
	return x, before, nil
}

// repairs is the execution that another one repeats; "" if it repeats none.
func (c *Client) repairs(a *historypb.WorkflowExecutionStartedEventAttributes) string {
	var in workflows.RunInput
	if c.converter.FromPayloads(a.GetInput(), &in) != nil || in.Repair == nil {
		return ""
	}
	return in.Repair.Of
}
