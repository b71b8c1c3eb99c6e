package runs

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
)

// delivery is how long Temporal takes at most, as a rule, to bring a run what the run
// above it has just decided, such as a cancel.
const delivery = 100 * time.Millisecond

// CatchUp waits until a run, and before it those that have called it, have seen what
// had happened to them at a time of Temporal's clock, zero = now: a cancel, the end of
// their time, an answer. What happens to a run that no worker takes up is not seen for
// as long. A run that has ended has seen all. As a rule that takes one request for
// each run.
func (c *Client) CatchUp(ctx context.Context, id string, at time.Time) error {
	_, err := c.catchUp(ctx, RunID(id), at)
	return err
}

// catchUp is CatchUp; waited says that one of the runs had not seen it yet. Then those
// below hear of it now, so they have to see everything.
func (c *Client) catchUp(ctx context.Context, id RunID, at time.Time) (waited bool, err error) {
	d, err := c.describe(ctx, id)
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &gone):
		return false, nil
	case err != nil:
		return false, failure(ctx, "reading", id, err)
	}
	task := d.GetPendingWorkflowTask()
	if parent := d.WorkflowExecutionInfo.GetParentExecution(); parent != nil {
		if waited, err = c.catchUp(ctx, RunID(parent.WorkflowId), at); err != nil {
			return waited, err
		}
	}
	switch {
	case waited && !pauseFor(ctx, delivery):
		return true, ctx.Err()
	case !waited && !isBehind(task, at):
		return false, nil
	}
	return true, c.sees(ctx, id)
}

// isBehind says whether a workflow task may have to show its run what happened before
// a time; zero = now. One that has failed is scheduled again, but has the events that it
// had then.
func isBehind(task *workflowpb.PendingWorkflowTaskInfo, at time.Time) bool {
	return task != nil && (at.IsZero() || task.Attempt > 1 || !task.ScheduledTime.AsTime().After(at))
}

func pauseFor(ctx context.Context, d time.Duration) bool {
	return (&backoff{next: d, limit: d}).wait(ctx)
}

// sees waits until a run has no workflow task that waits or is executed, or two have
// ended: what happens while one is executed comes with the next.
func (c *Client) sees(ctx context.Context, id RunID) error {
	pause := &backoff{next: 4 * time.Millisecond, limit: 100 * time.Millisecond}
	var last time.Time
	for ended := -1; ; {
		d, err := c.describe(ctx, id)
		task := d.GetPendingWorkflowTask()
		var gone *serviceerror.NotFound
		switch {
		case errors.As(err, &gone):
			return nil
		case err != nil:
			return failure(ctx, "reading", id, err)
		case task == nil:
			return nil
		}
		if at := task.ScheduledTime.AsTime(); at.After(last) {
			last = at
			if ended < 0 || task.Attempt <= 1 { // else it is one that has failed, again
				ended++
			}
		}
		if ended == 2 {
			return nil
		}
		if !pause.wait(ctx) {
			return ctx.Err()
		}
	}
}
