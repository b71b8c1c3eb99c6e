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

// CallBeforeReset returns what became, in executions before the given one, of the call of a
// step with a key. One that the step made with other arguments is of unknown outcome: making
// both would do twice what the step does once. It also names a step that is not done any
// more, though the run was reset to behind it. What was decided until after is known not to
// have been executed; zero = nothing is.
// After a reset, the run's own history lacks what followed the point of the reset, and,
// if an execution was reset that others had followed, what these did.
func (c CallHistory) CallBeforeReset(ctx context.Context, id, execution string, path workflows.StepPath, key string, after time.Time) (before workflows.CallBefore, err error) {
	chains, err := c.chains(ctx, RunID(id))
	if err != nil {
		return before, failure(ctx, "reading", RunID(id), err)
	}
	step := path.Undoes()
	did, err := c.doings(ctx, RunID(id), chains, step)
	if err != nil {
		return before, err
	}
	undone := lastOf(did)
	for _, chain := range chains {
		made := &stepCalls{of: path, key: key, after: after}
		if err := c.readUntil(ctx, RunID(id), chain, made, execution, ""); err != nil {
			return before, err
		}
		f := made.fate(undone)
		lost := chain[0].copied > 0 && after.IsZero() && f.call == nil // what it was reset from has been deleted
		before.Result, before.Failure = cmp.Or(before.Result, f.result), cmp.Or(before.Failure, f.failure)
		before.Unknown, before.Other = before.Unknown || f.unknown || lost, before.Other || f.other
		if step == "" {
			did = append(did, made.doings()...)
		}
	}
	if step != "" {
		before.Anew = timesAnew(did)
		return before, nil
	}
	before.Anew = timesWith(did)
	before.Undone, err = c.undoneBeside(ctx, RunID(id), chains, path)
	return before, err
}

// TimesAnew is how often a step has called another run anew, after what that did was undone,
// with the call that is to come.
func (c CallHistory) TimesAnew(ctx context.Context, id string, step workflows.StepPath) (int, error) {
	chains, err := c.chains(ctx, RunID(id))
	if err != nil {
		return 0, failure(ctx, "reading", RunID(id), err)
	}
	did, err := c.doings(ctx, RunID(id), chains, step)
	return timesWith(did), err
}

// doings are what a step did and what undid it, in all of some chains, which may have some
// executions in common. No step, "", did anything.
func (c CallHistory) doings(ctx context.Context, id RunID, chains [][]execution, step workflows.StepPath) (all []doing, err error) {
	if step == "" {
		return nil, nil
	}
	for _, chain := range chains {
		made := &stepCalls{of: step}
		if err := c.readUntil(ctx, id, chain, made, "", ""); err != nil {
			return nil, err
		}
		all = append(all, made.doings()...)
	}
	return firstOfEachRun(all), nil
}

// SentUnread reports whether the call that has a key may have been executed before a
// worker was given it that could not read it: by an attempt without a reported outcome.
// It looks at what was before an activity of an execution.
func (c CallHistory) SentUnread(ctx context.Context, id, execution, activity, key string) (bool, error) {
	chain, err := c.chain(ctx, RunID(id))
	if err != nil {
		return false, failure(ctx, "reading", RunID(id), err)
	}
	made := &stepCalls{key: key}
	err = c.readUntil(ctx, RunID(id), chain, made, execution, activity)
	return made.sentUnread(), err
}

// A factReader takes the facts of a history in their order.
type factReader interface {
	add(fact history.Fact, at time.Time) error
}

// readUntil reads of calls what was in a chain before an execution, or before an activity
// of it, if that is not ""; all of the chain, if the execution is "".
func (c CallHistory) readUntil(ctx context.Context, id RunID, chain []execution, reads factReader, execution, activity string) error {
	for m, err := range c.past(ctx, id, chain) {
		if err != nil {
			return failure(ctx, "reading", id, err)
		}
		if m.RunID == execution && (activity == "" || begins(m, activity)) {
			break
		}
		for _, fact := range m.Facts {
			if err := reads.add(fact, m.At); err != nil {
				return fmt.Errorf("reading event %d of run %s: %w", m.EventID, id, err)
			}
		}
	}
	return nil
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
