package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// A CallHistory reads from histories what became of the calls of runs, for the workers
// that make them. Its methods are safe for concurrent use.
type CallHistory struct {
	*archive
	index *index
}

// CallHistory returns that of the runs of c.
func (c *Client) CallHistory() CallHistory { return CallHistory{c.archive, c.index} }

// CallBeforeReset returns the outcome, in executions before the given one, of the call of a step
// with a key: its result, that its outcome is unknown, or neither, so that it can be made.
// One that the step made with other arguments is of unknown outcome: making both would do
// twice what the step does once. What was decided until after is known not to have been
// executed; zero = nothing is.
// After a reset, the run's own history lacks what followed the point of the reset, and,
// if an execution was reset that others had followed, what these did.
func (c CallHistory) CallBeforeReset(ctx context.Context, id, execution string, path workflows.StepPath, key string, after time.Time) (result *workflows.ToolResult, unknown bool, err error) {
	chains, err := c.chains(ctx, RunID(id))
	if err != nil {
		return nil, false, failure(ctx, "reading", RunID(id), err)
	}
	undone, err := c.lastCall(ctx, RunID(id), chains, path.Undoes())
	if err != nil {
		return nil, false, err
	}
	for _, chain := range chains {
		e := newCallFate(chain, path, key)
		e.after, e.lost = after, e.lost && after.IsZero()
		if err := c.readUntil(ctx, RunID(id), chain, e, execution, ""); err != nil {
			return nil, false, err
		}
		e.undid(undone)
		result, unknown = cmp.Or(result, e.result), unknown || e.unknown || e.mayHaveRun || e.otherSent || e.lost && e.call == nil
	}
	return result, unknown, nil
}

// lastCall is when a step made its last call in any of some chains. No step, "", makes none.
func (c CallHistory) lastCall(ctx context.Context, id RunID, chains [][]execution, step workflows.StepPath) (last lastCall, err error) {
	if step == "" {
		return last, nil
	}
	for _, chain := range chains {
		made := &lastCall{of: step}
		if err := c.readUntil(ctx, id, chain, made, "", ""); err != nil {
			return last, err
		}
		last.completed, last.possible = later(last.completed, made.completed), later(last.possible, made.possible)
	}
	return last, nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// SentUnread reports whether the call that has a key may have been executed before a
// worker was given it that could not read it: by an attempt without a reported outcome.
// It looks at what was before an activity of an execution.
func (c CallHistory) SentUnread(ctx context.Context, id, execution, activity, key string) (bool, error) {
	chain, err := c.chain(ctx, RunID(id))
	if err != nil {
		return false, failure(ctx, "reading", RunID(id), err)
	}
	e := newCallFate(chain, "", key)
	err = c.readUntil(ctx, RunID(id), chain, e, execution, activity)
	return e.mayHaveRun, err
}

// readUntil reads of a call what was in a chain before an execution, or before an activity
// of it, if that is not ""; all of the chain, if the execution is "".
func (c CallHistory) readUntil(ctx context.Context, id RunID, chain []execution, reads fold, execution, activity string) error {
	for m, err := range c.past(ctx, id, chain) {
		if err != nil {
			return failure(ctx, "reading", id, err)
		}
		if m.RunID == execution && (activity == "" || begins(m, activity)) {
			break
		}
		for _, fact := range m.Facts {
			if err := reads.add(fact); err != nil {
				return fmt.Errorf("reading event %d of run %s: %w", m.EventID, id, err)
			}
		}
	}
	return nil
}

// A fold reads facts of a history in their order.
type fold interface{ add(history.Fact) error }

// A lastCall is when a step began its last call that completed, and its last one that did
// or may have; zero = there is none.
type lastCall struct {
	of                  workflows.StepPath
	completed, possible time.Time

	call   *history.Call // the last one
	before time.Time     // possible, without call
}

func (l *lastCall) add(fact history.Fact) error {
	switch f := fact.(type) {
	case history.CallStarted:
		if f.Call.Path == l.of {
			l.call, l.before, l.possible = f.Call, l.possible, f.Call.Started
		}
	case history.CallEnded:
		switch {
		case l.call == nil || f.Call != l.call:
		case f.Status == history.StepCompleted:
			l.completed = l.call.Started
		case f.Failure.Reported().Code == codes.SentBefore, !mayHaveRun(f): // the former was not made, since it had been made before a reset
			l.possible = l.before
		}
	}
	return nil
}

// mayHaveRun reports whether a call may have been executed, now or before a reset.
func mayHaveRun(f history.CallEnded) bool {
	return !f.Unsent && (f.Status == history.StepCompleted || !f.Failure.OfCall() || f.Failure.LeavesUnknown())
}

// begins reports whether an activity is put on its way.
func begins(m history.Moment, activity string) bool {
	return slices.ContainsFunc(m.Facts, func(fact history.Fact) bool {
		f, ok := fact.(history.CallStarted)
		return ok && f.Call.Activity == activity
	})
}

// LastAttempt reports whether the last attempt of an activity under way failed with
// an error that the attempt itself reported and that is no unknown outcome. For a
// call that is repeated all the same, mayHaveRun reports whether that attempt, or one
// before it, may have been executed.
func (c CallHistory) LastAttempt(ctx context.Context, id, execution, activity string) (known, mayHaveRun bool, err error) {
	d, err := c.temporal.WorkflowService().DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: c.namespace,
		Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: execution},
	})
	if err != nil {
		return false, true, failure(ctx, "reading", RunID(id), err)
	}
	for _, p := range d.PendingActivities {
		if p.ActivityId == activity {
			last := history.NewFailure(c.converter, p.LastFailure)
			return last.KnownOutcome(), last.MayHaveRun(), nil
		}
	}
	return false, true, nil
}

// HistorySize is how many bytes the history of an execution of a run has.
func (c CallHistory) HistorySize(ctx context.Context, id, execution string) (int64, error) {
	d, err := c.temporal.WorkflowService().DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: c.namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: execution},
	})
	if err != nil {
		return 0, failure(ctx, "reading", RunID(id), err)
	}
	return d.GetWorkflowExecutionInfo().GetHistorySizeBytes(), nil
}

// A callFate is what has happened to the call of a step with a key.
type callFate struct {
	of    workflows.StepPath // the step; "" = calls with other keys do not matter
	key   string
	after time.Time // calls that were decided until then do not count
	lost  bool      // there were executions before that have been deleted

	callsMade
	before     callsMade // when the last one was put on its way; counts if that was not sent
	mayHaveRun bool      // its last attempt could not read the call, so the one before is all that is known
}

// callsMade are those of a step, and what they have come to.
type callsMade struct {
	call *history.Call      // the last one with the key; nil = none
	path workflows.StepPath // of the step that it was made for

	result  *workflows.ToolResult
	unknown bool
	again   bool // its last attempt followed one without a reported outcome

	other     *history.Call // of the step with another key, after call; nil = none
	undoes    *history.Call // undoes other; nil = none
	otherSent bool          // other may have been executed, and is not known to be undone
}

func newCallFate(chain []execution, of workflows.StepPath, key string) *callFate {
	return &callFate{of: of, key: key, lost: chain[0].copied > 0} // what it was reset from has been deleted
}

// add takes a fact. A call that cannot be read may be the one that is looked for,
// and one that was completed has a result: neither may be passed over.
func (e *callFate) add(fact history.Fact) error {
	switch f := fact.(type) {
	case history.CallStarted:
		return e.started(f)
	case history.CallTried:
		if f.Call == e.call {
			e.again = f.Number > 1 && !f.Before.KnownOutcome()
		}
	case history.CallEnded:
		if f.Call == e.call {
			return e.ended(f)
		}
		e.otherEnded(f)
	}
	return nil
}

func (e *callFate) started(f history.CallStarted) error {
	if f.Call.Type != workflows.CallToolName {
		return nil
	}
	call, err := f.ToolCall()
	if err != nil {
		return err
	}
	switch {
	case !e.after.IsZero() && !call.Decided.After(e.after):
	case call.IdempotencyKey == e.key:
		e.before = e.callsMade
		e.call, e.path = f.Call, call.StepPath
		e.unknown, e.again, e.result = true, false, nil // until more is known
		e.other, e.undoes, e.otherSent = nil, nil, false
	case call.StepPath == e.of:
		e.before = e.callsMade
		e.other, e.undoes, e.otherSent = f.Call, nil, true
	case e.other != nil && call.StepPath.Undoes() == e.of:
		e.undoes = f.Call
	case e.call != nil && call.StepPath.Undoes() == e.path:
		e.unknown, e.result = true, nil // it was undone, or is to be
	}
	return nil
}

func (e *callFate) ended(f history.CallEnded) error {
	switch {
	case f.Status == history.StepCompleted:
		result, err := f.ToolResult()
		if err != nil {
			return err
		}
		e.unknown, e.mayHaveRun, e.result = false, false, &result
	case notSent(f):
		e.mayHaveRun = f.Failure.Held() && (e.mayHaveRun || e.again)
		e.callsMade = e.before
	case f.Failure.OfCall():
		e.unknown, e.mayHaveRun = f.Failure.LeavesUnknown(), false
	}
	return nil
}

// notSent reports whether a call has ended that no backend has answered, and that is not
// of unknown outcome: what was before it is all that counts.
func notSent(f history.CallEnded) bool {
	code := f.Failure.Reported().Code
	return !mayHaveRun(f) && code != codes.ToolError && code != codes.Refused
}

// undid takes it that the call has undone what a step did before, and nothing of what the
// step has called since.
func (e *callFate) undid(made lastCall) {
	switch {
	case e.call == nil:
	case e.call.Started.Before(made.completed):
		e.result, e.unknown, e.mayHaveRun = nil, false, false
	case e.call.Started.Before(made.possible) && e.result != nil:
		e.result, e.unknown = nil, true
	}
}

func (e *callFate) otherEnded(f history.CallEnded) {
	switch {
	case f.Call == e.other && notSent(f):
		e.callsMade = e.before
	case f.Call == e.other:
		e.otherSent = mayHaveRun(f)
	case f.Call == e.undoes:
		e.otherSent = e.otherSent && f.Status != history.StepCompleted
	}
}

// Latest is Temporal's ID of the execution of a run that was started last; "" = there is no
// such run. An error may pass.
func (r reader) Latest(ctx context.Context, id string) (string, error) {
	d, err := r.describe(ctx, RunID(id))
	var gone *serviceerror.NotFound
	if err != nil && !errors.As(err, &gone) {
		return "", failure(ctx, "reading", RunID(id), err)
	}
	return d.GetWorkflowExecutionInfo().GetExecution().GetRunId(), nil
}

// ChildOutcome reports how a run has ended that a step has called; nil = it continues.
// An error may pass.
func (r reader) ChildOutcome(ctx context.Context, id string) (*workflows.ChildOutcome, error) {
	outcome, err := r.Result(ctx, RunID(id))
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
