package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/workflows"
)

// A LastAttempt reports whether the attempt before of an activity failed with a
// reported error, so that it is known whether the call was executed. mayHaveRun, for calls
// that are repeated anyway, is true if that attempt or an earlier one may have been
// executed.
type LastAttempt func(ctx context.Context, runID, execution, activityID string) (known, mayHaveRun bool, err error)

// A SentUnread reports whether a call of a run may have been executed before it
// reached a worker that could not read it. activityID is the activity that makes it
// now.
type SentUnread func(ctx context.Context, runID, execution, activityID, key string) (sent bool, err error)

// askAgain is the pause between two queries to Temporal.
const askAgain = 500 * time.Millisecond

// earlierAttempts reads what became of the attempts before, also of those that were made in
// another activity or before a reset: the result of one, a failure if the outcome of one
// forbids another attempt, or neither, and the attempt completed with what they leave open.
func (a *Activities) earlierAttempts(ctx context.Context, attempt workflows.Attempt, info activity.Info) (workflows.Attempt, *workflows.ToolResult, error) {
	attempt, err := a.afterPrevious(ctx, attempt, info)
	if err != nil {
		return attempt, nil, err
	}
	if attempt.Call.Unread && a.opts.SentUnread != nil {
		if err := a.neverSent(ctx, attempt, info); err != nil {
			return attempt, nil, err
		}
	}
	if !attempt.Call.SearchHistory {
		return attempt, nil, nil
	}
	return a.beforeReset(ctx, attempt, info)
}

// afterPrevious completes an attempt with the outcome of the one before, or returns an
// error if that forbids another attempt.
func (a *Activities) afterPrevious(ctx context.Context, attempt workflows.Attempt, info activity.Info) (workflows.Attempt, error) {
	again, repeatable := attempt.Number > 1, workflows.Repeatable(attempt.Call.Effect)
	if again && !repeatable {
		if known, _ := a.lastAttempt(ctx, info); !known {
			return attempt, a.report(ctx)(attempt.Lost(errForgotten.Error()))
		}
	}
	if again && attempt.Call.Effect == definitions.Keyed {
		attempt.EarlierUnknown = a.mayHaveExecuted(ctx, info)
	}
	if err := a.keeps(ctx, attempt, info); err != nil {
		return attempt, err
	}
	if !again || !repeatable || attempt.WorthRepeating() || a.opts.LastAttempt == nil {
		return attempt, nil
	}
	known, mayHaveRun := a.lastAttempt(ctx, info)
	if !known {
		return attempt, a.report(ctx)(attempt.WorkerLost())
	}
	attempt.Unsent = !mayHaveRun
	return attempt, nil
}

// keeps is the failure of a call that is not sent, since a large result of it would be
// lost: its run waits, as for a worker that can read the call.
func (a *Activities) keeps(ctx context.Context, attempt workflows.Attempt, info activity.Info) error {
	if a.opts.Keeps == nil || info.IsLocalActivity {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, keepsLimit)
	defer cancel()
	err := a.opts.Keeps(limited)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	a.logger.WarnContext(ctx, "a call is not sent, since a large result could not be stored", "run", attempt.Call.RunID, "step", attempt.Call.StepPath, "error", err)
	return attempt.ReportHold(workflows.Hold{Why: workflows.HeldByPayload})
}

// keepsLimit is how long the store of large values may take to answer.
const keepsLimit = 3 * time.Second

// lastAttempt calls LastAttempt until Temporal answers. If the SDK cannot deliver
// what an attempt reported, because the worker stops or a result cannot be stored, it
// reports a failure of its own, which Temporal retries.
func (a *Activities) lastAttempt(ctx context.Context, info activity.Info) (known, mayHaveRun bool) {
	if a.opts.LastAttempt == nil {
		return true, false
	}
	for {
		known, mayHaveRun, err := a.opts.LastAttempt(ctx, info.WorkflowExecution.ID, info.WorkflowExecution.RunID, info.ActivityID)
		if err == nil {
			return known, mayHaveRun
		}
		select {
		case <-time.After(askAgain):
		case <-ctx.Done():
			return false, true
		}
	}
}

// lastAttemptLimit is how long Temporal may take to report what it knows of an attempt.
const lastAttemptLimit = 2 * time.Second

// mayHaveExecuted reports whether an earlier attempt may have executed a keyed call, which
// is repeated all the same. If that cannot be read, it is true.
func (a *Activities) mayHaveExecuted(ctx context.Context, info activity.Info) bool {
	if a.opts.LastAttempt == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, lastAttemptLimit)
	defer cancel()
	_, mayHaveRun, err := a.opts.LastAttempt(ctx, info.WorkflowExecution.ID, info.WorkflowExecution.RunID, info.ActivityID)
	return mayHaveRun || err != nil
}

// neverSent is the failure of a call that workers could not read, if one of them was
// given it after an attempt that may have made it. What such a worker reports does not
// show which attempt it was.
func (a *Activities) neverSent(ctx context.Context, attempt workflows.Attempt, info activity.Info) error {
	sent, err := a.opts.SentUnread(ctx, info.WorkflowExecution.ID, info.WorkflowExecution.RunID, info.ActivityID, attempt.Call.IdempotencyKey)
	switch {
	case err != nil:
		return a.report(ctx)(attempt.Unavailable("cannot read the outcome of the earlier call: " + err.Error()))
	case sent:
		return a.report(ctx)(attempt.Lost("the outcome of an earlier attempt was not reported"))
	}
	return nil
}

// beforeReset is the result of the call from before the run was reset; nil = the call can be
// made. A keyed one is made with its key where that covers what is not known, and with
// another one where what the step did was undone since: a backend that knows the key would
// do nothing.
func (a *Activities) beforeReset(ctx context.Context, attempt workflows.Attempt, info activity.Info) (workflows.Attempt, *workflows.ToolResult, error) {
	call, keyed := attempt.Call, attempt.Call.Effect == definitions.Keyed
	if a.opts.CallBeforeReset == nil {
		if keyed {
			return attempt, nil, nil
		}
		return attempt, nil, a.report(ctx)(attempt.SentBefore())
	}
	before, err := a.opts.CallBeforeReset(ctx, info.WorkflowExecution.ID, info.WorkflowExecution.RunID, call.StepPath, call.IdempotencyKey, call.Anew)
	switch {
	case err != nil:
		return attempt, nil, a.report(ctx)(attempt.Unavailable("cannot read what the run did before it was reset: " + err.Error()))
	case before.Other, before.Unknown && !keyed:
		return attempt, nil, a.report(ctx)(attempt.SentBefore())
	case before.Failure != nil && before.Result == nil && !before.Unknown:
		return attempt, nil, a.report(ctx)(before.Failure, false)
	case before.Unknown:
		before.Result = nil
	}
	if before.Undone != "" && before.Result == nil {
		return attempt, nil, a.report(ctx)(attempt.UndoneSince(before.Undone))
	}
	if keyed {
		attempt.Call.IdempotencyKey = workflows.KeyAnew(call.IdempotencyKey, before.Anew)
	}
	return attempt, before.Result, nil
}
