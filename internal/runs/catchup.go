package runs

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/api/serviceerror"
)

// CatchUp waits until a run, and before it those that have called it, have seen what
// had happened to them when it was asked: a cancel, the end of their time, an answer.
// What happens to a run that no worker takes up is not seen for as long. A run that
// has ended has seen all.
func (c *Client) CatchUp(ctx context.Context, id string) error {
	d, err := c.describe(ctx, RunID(id))
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &gone):
		return nil
	case err != nil:
		return failure(ctx, "reading", RunID(id), err)
	}
	if parent := d.WorkflowExecutionInfo.GetParentExecution(); parent != nil {
		if err := c.CatchUp(ctx, parent.WorkflowId); err != nil {
			return err
		}
	}
	return c.sees(ctx, RunID(id))
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
