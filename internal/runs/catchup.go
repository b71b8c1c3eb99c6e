package runs

import (
	"context"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"

	"github.com/perdure/perdure/workflows"
)

// delivery is how long Temporal takes at most, as a rule, to bring a run what the run
// above it has just decided, such as a cancel.
const delivery = 100 * time.Millisecond

// CatchUp waits until a run, and before it those that have called it, have seen what
// had happened to them at a time of Temporal's clock, zero = now: a cancel, the end of
// their time, an answer. What happens to a run that no worker takes up is not seen for
// as long. A run that has ended has seen all. Then it reports whether the run still wants
// an attempt of a call that is under way, if the call is its own and not of a run below it.
// workflows.ErrForgotten reports that there was an attempt before this one, which counts as the
// first. ErrOver reports that a run above has ended, as one does that is terminated at Temporal,
// or was cancelled; workflows.ErrAbandoned is in its chain if that one has ended by itself,
// without the run that makes the call. What somebody resumed or reset after that is its own.
//
// As a rule that takes one request for each run, which serves all who ask at the same time.
func (w *watches) CatchUp(ctx context.Context, id string, at time.Time, call *activity.Info) (wanted bool, err error) {
	d, _, err := w.catchUp(ctx, RunID(id), at, call)
	if err != nil || id != call.WorkflowExecution.ID {
		return err == nil, err
	}
	awaited := awaits(d, call)
	if awaited != nil && isForgotten(awaited) {
		return false, workflows.ErrForgotten
	}
	return awaited != nil, nil
}

// awaits is what an execution that waits for an attempt of a call knows of it; nil = it does
// not wait.
func awaits(d *workflowservice.DescribeWorkflowExecutionResponse, call *activity.Info) *workflowpb.PendingActivityInfo {
	if d.GetWorkflowExecutionInfo().GetExecution().GetRunId() != call.WorkflowExecution.RunID {
		return nil
	}
	for _, p := range d.GetPendingActivities() {
		if p.ActivityId == call.ActivityID && p.Attempt == call.Attempt && p.State == enumspb.PENDING_ACTIVITY_STATE_STARTED {
			return p
		}
	}
	return nil
}

// isForgotten reports whether an attempt that counts as the first had one before, of which
// Temporal has kept only when it ended.
func isForgotten(p *workflowpb.PendingActivityInfo) bool {
	return p.Attempt <= 1 && p.LastAttemptCompleteTime != nil
}

// ErrOver is the error of CatchUp if a run above has ended without the runs that it called,
// or was cancelled. Having seen that, it cancels these, but Temporal may take as long as it
// likes to tell them.
var ErrOver = errors.New("a run above has ended or was cancelled")

// isOver reports whether a run above wants no calls of those that it called; nil = it is
// gone.
func isOver(d *workflowservice.DescribeWorkflowExecutionResponse) bool {
	return d == nil || d.GetWorkflowExecutionInfo().GetCloseTime() != nil || d.GetWorkflowExtendedInfo().GetCancelRequested()
}

// isAbandoning reports whether a run above has ended by itself. It waits for the runs that it
// knows: one that has not ended was called after the point to which the run above was reset,
// or was itself reset after its end.
func isAbandoning(d *workflowservice.DescribeWorkflowExecutionResponse) bool {
	switch d.GetWorkflowExecutionInfo().GetStatus() {
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return true
	}
	return false
}

// over is the error of a call of a run below one that is over; nil = the run below was begun
// after that had ended.
func (w *watches) over(ctx context.Context, above *workflowservice.DescribeWorkflowExecutionResponse, call *activity.Info) error {
	if ended := above.GetWorkflowExecutionInfo().GetCloseTime(); ended != nil {
		d, err := w.watched(ctx, RunID(call.WorkflowExecution.ID), first)
		if err != nil || d.GetWorkflowExecutionInfo().GetStartTime().AsTime().After(ended.AsTime()) {
			return err
		}
	}
	if isAbandoning(above) {
		return errors.Join(ErrOver, workflows.ErrAbandoned)
	}
	return ErrOver
}

// catchUp is CatchUp, with the description from when the run had seen it; nil = the run
// is gone. waited reports that one of the runs had not seen it yet. Then those below hear
// of it now, so they have to see everything.
func (w *watches) catchUp(ctx context.Context, id RunID, at time.Time, call *activity.Info) (d *workflowservice.DescribeWorkflowExecutionResponse, waited bool, err error) {
	d, err = w.watched(ctx, id, first)
	switch {
	case err != nil:
		return nil, false, err
	case string(id) != call.WorkflowExecution.ID && isOver(d):
		return nil, false, w.over(ctx, d, call)
	case d == nil:
		return nil, false, nil
	}
	if parent := d.WorkflowExecutionInfo.GetParentExecution(); parent != nil {
		if _, waited, err = w.catchUp(ctx, RunID(parent.WorkflowId), at, call); err != nil {
			return nil, waited, err
		}
	}
	switch {
	case waited && !pauseFor(ctx, delivery):
		return nil, true, ctx.Err()
	case !waited && !isBehind(d.GetPendingWorkflowTask(), at):
		return d, false, nil
	}
	d, err = w.watched(ctx, id, untilSeen())
	return d, true, err
}

// isBehind reports whether a workflow task may have to show its run what happened
// before a time; zero = now. One that has failed is scheduled again, but has the events
// that it had then.
func isBehind(task *workflowpb.PendingWorkflowTaskInfo, at time.Time) bool {
	return task != nil && (at.IsZero() || task.Attempt > 1 || !task.ScheduledTime.AsTime().After(at))
}

func pauseFor(ctx context.Context, d time.Duration) bool {
	return (&backoff{next: d, limit: d}).wait(ctx)
}

// watched describes a run until a description will do, and returns that; nil = there is no
// such run.
func (w *watches) watched(ctx context.Context, id RunID, enough enough) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	d, err := w.until(ctx, id, enough)
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &gone):
		return nil, nil
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, failure(ctx, "reading", id, err)
	}
	return d, nil
}

// Enough reports that a description will do.
type enough func(*workflowservice.DescribeWorkflowExecutionResponse) bool

func first(*workflowservice.DescribeWorkflowExecutionResponse) bool { return true }

// untilSeen waits until a run has no workflow task that waits or is executed, or two have
// ended: what happens while one is executed comes with the next.
func untilSeen() enough {
	var last time.Time
	ended := -1
	return func(d *workflowservice.DescribeWorkflowExecutionResponse) bool {
		task := d.GetPendingWorkflowTask()
		if task == nil {
			return true
		}
		if at := task.ScheduledTime.AsTime(); at.After(last) {
			last = at
			if ended < 0 || task.Attempt <= 1 { // else it is one that has failed, again
				ended++
			}
		}
		return ended == 2
	}
}
