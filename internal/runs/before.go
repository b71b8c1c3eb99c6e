package runs

import (
	"context"
	"errors"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows"
)

// CallBefore says what the executions of a run before the given one have come to
// with the call that has a key: its result, that its outcome is unknown,
// or neither, so that it can be made. Where a run was reset, its own
// history does not have what came after the point of the reset.
func (c *Client) CallBefore(ctx context.Context, id, execution, key string) (result *workflows.ToolResult, unknown bool, err error) {
	e, err := c.callUntil(ctx, RunID(id), key, execution, "")
	return e.result, e.unknown || e.doubt || e.lost && !e.sent, err
}

// SentUnread says whether the call that has a key may have been executed before a
// worker was given it that could not read it: by an attempt of which nobody has
// told what it came to. It looks at what was before an activity of an execution.
func (c *Client) SentUnread(ctx context.Context, id, execution, activity, key string) (bool, error) {
	e, err := c.callUntil(ctx, RunID(id), key, execution, activity)
	return e.doubt, err
}

// callUntil reads of the call that has a key what was before an execution, or
// before an activity of it, if that is not "".
func (c *Client) callUntil(ctx context.Context, id RunID, key, execution, activity string) (*earlier, error) {
	e := &earlier{converter: c.converter, key: key}
	chain, err := c.chain(ctx, id)
	if err != nil {
		return e, failure(ctx, "reading", RunID(id), err)
	}
	for i, x := range chain {
		last := x.runID == execution
		e.lost = e.lost || i == 0 && x.copied > 0 // what it was reset from has been deleted
		if last && activity == "" {
			break
		}
		e.scheduled = 0
		for event, err := range c.history(ctx, id, x.runID, false) {
			if err != nil {
				return e, failure(ctx, "reading", RunID(id), err)
			}
			if i > 0 && event.EventId <= x.copied {
				continue
			}
			if last && event.GetActivityTaskScheduledEventAttributes().GetActivityId() == activity {
				return e, nil
			}
			if err := e.add(event); err != nil {
				return e, fmt.Errorf("reading event %d of run %s: %w", event.EventId, id, err)
			}
		}
		if last {
			break
		}
	}
	return e, nil
}

// LastAttempt says whether the attempt before of an activity under way has
// failed with something that an attempt has reported, and that is no unknown
// outcome. Doubt says of a call that is repeated nevertheless that this attempt, or
// one before it, may have been executed.
func (c *Client) LastAttempt(ctx context.Context, id, execution, activity string) (known, doubt bool, err error) {
	d, err := c.temporal.WorkflowService().DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: c.namespace,
		Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: execution},
	})
	if err != nil {
		return false, true, failure(ctx, "reading", RunID(id), err)
	}
	for _, p := range d.PendingActivities {
		if p.ActivityId == activity {
			return reportedAsKnown(p.LastFailure), c.leavesDoubt(p.LastFailure), nil
		}
	}
	return false, true, nil
}

// HistorySize is how many bytes the history of an execution of a run has.
func (c *Client) HistorySize(ctx context.Context, id, execution string) (int64, error) {
	d, err := c.temporal.WorkflowService().DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: c.namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: execution},
	})
	if err != nil {
		return 0, failure(ctx, "reading", RunID(id), err)
	}
	return d.GetWorkflowExecutionInfo().GetHistorySizeBytes(), nil
}

// reportedAsKnown goes by the type of a failure, which is the category: of a
// long failure Temporal keeps that and no details, and the failure as a cause.
func reportedAsKnown(f *failurepb.Failure) bool {
	for ; f != nil; f = f.Cause {
		if app := f.GetApplicationFailureInfo(); app != nil {
			return workflows.KnownOutcome(codes.Category(app.Type))
		}
	}
	return false
}

// leavesDoubt says of the failure of an attempt whether the call may have been
// executed, by it or one before. One that nobody has reported, and one that cannot
// be read, leave that open.
func (c *Client) leavesDoubt(f *failurepb.Failure) bool {
	var told workflows.Error
	app := f.GetApplicationFailureInfo()
	return app.GetDetails() == nil || c.converter.FromPayloads(app.GetDetails(), &told) != nil || told.MayHaveHappened()
}

// An earlier is what one execution tells of the call with a key.
type earlier struct {
	converter converter.DataConverter
	key       string
	scheduled int64              // event of the last such call in the execution that is read; 0 = none
	path      workflows.StepPath // of the step that it was made for
	lost      bool               // there were executions before that have been deleted

	sent    bool
	result  *workflows.ToolResult
	unknown bool
	again   bool // its last attempt came after one of which nobody has told what it came to
	doubt   bool // such a one could not be read, so that this is all that is known
}

// add takes an event. A call that cannot be read may be the one that is looked for,
// and one that was completed has a result: neither may be passed over.
func (e *earlier) add(event *historypb.HistoryEvent) error {
	switch event.EventType {
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		var call workflows.ToolCall
		a := event.GetActivityTaskScheduledEventAttributes()
		if a.GetActivityType().GetName() != workflows.CallToolName {
			return nil
		}
		if err := e.converter.FromPayloads(a.GetInput(), &call); err != nil {
			return err
		}
		switch {
		case call.IdempotencyKey == e.key:
			e.scheduled, e.path = event.EventId, call.StepPath
			e.sent, e.unknown, e.again, e.result = true, true, false, nil // until more is known
		case e.sent && call.StepPath.Undoes() == e.path:
			e.unknown, e.result = true, nil // it was undone, or is to be
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED:
		a := event.GetActivityTaskStartedEventAttributes()
		if e.is(a.GetScheduledEventId()) {
			e.again = a.GetAttempt() > 1 && !reportedAsKnown(a.GetLastFailure())
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		a := event.GetActivityTaskCompletedEventAttributes()
		if !e.is(a.GetScheduledEventId()) {
			return nil
		}
		var result workflows.ToolResult
		if err := e.converter.FromPayloads(a.GetResult(), &result); err != nil {
			return err
		}
		e.unknown, e.doubt, e.result = false, false, &result
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED:
		a := event.GetActivityTaskFailedEventAttributes()
		if e.is(a.GetScheduledEventId()) {
			held := a.GetFailure().GetApplicationFailureInfo().GetType() == string(codes.CategoryHeld)
			e.unknown, e.doubt = e.isUnknown(a.GetFailure()), held && (e.doubt || e.again)
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
		a := event.GetActivityTaskCanceledEventAttributes()
		if e.is(a.GetScheduledEventId()) && a.GetStartedEventId() == 0 {
			e.unknown = false // it never left
		}
	}
	return nil
}

func (e *earlier) is(scheduled int64) bool { return e.scheduled != 0 && e.scheduled == scheduled }

// isUnknown says whether a failure leaves it unknown whether a call was made.
func (e *earlier) isUnknown(f *failurepb.Failure) bool {
	var detail Error
	app := f.GetApplicationFailureInfo()
	if app == nil || e.converter.FromPayloads(app.GetDetails(), &detail) != nil {
		return true
	}
	return detail.Category == codes.CategoryOutcomeUnknown || detail.Category == codes.CategoryCancelled
}

// ChildOutcome says how a run has ended that a step has called; nil = it goes on.
// An error may pass.
func (c *Client) ChildOutcome(ctx context.Context, id string) (*workflows.ChildOutcome, error) {
	outcome, err := c.Result(ctx, RunID(id))
	switch {
	case errors.Is(err, ErrNotFinished):
		return nil, nil
	case errors.Is(err, ErrNotFound):
		return &workflows.ChildOutcome{Failure: &workflows.Failure{Error: workflows.Error{
			Code: codes.CalledRunGone, Category: codes.CategoryOutcomeUnknown,
			Message: fmt.Sprintf("run %s was deleted at Temporal; what it did is not known", id),
		}}}, nil
	case err != nil:
		return nil, err
	case outcome.Failure != nil:
		return &workflows.ChildOutcome{Failure: outcome.Failure}, nil
	}
	return &workflows.ChildOutcome{Result: &workflows.RunResult{Output: outcome.Output, Errors: outcome.Errors, Effects: outcome.Effects}}, nil
}
