package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/workflows"
)

// A LastAttempt tells whether the attempt before of an activity has failed with
// something that an attempt has reported, and that does not leave open whether
// the call was executed. Doubt is for calls that are repeated nevertheless: that
// attempt, or one before it, may have been executed.
type LastAttempt func(ctx context.Context, runID, execution, activityID string) (known, doubt bool, err error)

// A SentUnread tells whether a call of a run may have been executed before a
// worker was given it that could not read it. activityID is the activity that is
// to make it now.
type SentUnread func(ctx context.Context, runID, execution, activityID, key string) (sent bool, err error)

// askAgain is how long it takes to ask Temporal once more what it knows.
const askAgain = 500 * time.Millisecond

// following is an attempt with what the one before says of it, or the failure of
// a call that is not made again because of that one.
func (a *Activities) following(ctx context.Context, attempt workflows.Attempt, info activity.Info) (workflows.Attempt, error) {
	if attempt.Number == 1 {
		return attempt, nil
	}
	if !workflows.Repeatable(attempt.Call.Effect) {
		if known, _ := a.attemptBefore(ctx, info); !known {
			return attempt, a.report(ctx)(attempt.Lost("what became of the attempt before was not told"))
		}
		return attempt, nil
	}
	if attempt.Call.Effect == definitions.Keyed {
		attempt.Doubt = a.inDoubt(ctx, info)
	}
	if attempt.WorthRepeating() || a.last == nil {
		return attempt, nil
	}
	known, doubt := a.attemptBefore(ctx, info)
	if !known {
		return attempt, a.report(ctx)(attempt.WorkerLost())
	}
	attempt.Unsent = !doubt
	return attempt, nil
}

// attemptBefore is what LastAttempt says of the attempt before. It asks until Temporal
// answers. The SDK replaces what an attempt has reported by a failure of its own
// when it cannot hand it over, because the worker stops or a result cannot be
// stored, and has Temporal retry that.
func (a *Activities) attemptBefore(ctx context.Context, info activity.Info) (known, doubt bool) {
	if a.last == nil {
		return true, false
	}
	for {
		known, doubt, err := a.last(ctx, info.WorkflowExecution.ID, info.WorkflowExecution.RunID, info.ActivityID)
		if err == nil {
			return known, doubt
		}
		select {
		case <-time.After(askAgain):
		case <-ctx.Done():
			return false, true
		}
	}
}

// doubtLimit is how long Temporal may take to say what it knows of an attempt.
const doubtLimit = 2 * time.Second

// inDoubt says whether an attempt before may have executed a keyed call, which is
// made again all the same. Where that cannot be read, it may.
func (a *Activities) inDoubt(ctx context.Context, info activity.Info) bool {
	if a.last == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, doubtLimit)
	defer cancel()
	_, doubt, err := a.last(ctx, info.WorkflowExecution.ID, info.WorkflowExecution.RunID, info.ActivityID)
	return doubt || err != nil
}

// neverSent is the failure of a call that workers could not read, if one of them
// was given it after an attempt that may have made it. What such a worker reports
// does not say which attempt it was.
func (a *Activities) neverSent(ctx context.Context, attempt workflows.Attempt, info activity.Info) error {
	sent, err := a.unread(ctx, info.WorkflowExecution.ID, info.WorkflowExecution.RunID, info.ActivityID, attempt.Call.IdempotencyKey)
	switch {
	case err != nil:
		return a.report(ctx)(attempt.Unavailable("what became of it before cannot be read: " + err.Error()))
	case sent:
		return a.report(ctx)(attempt.Lost("what became of an attempt before was not told"))
	}
	return nil
}
