package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
)

// A LastAttempt tells whether the attempt before of an activity has failed with
// something that an attempt has reported, and that does not leave open whether
// the call was executed.
type LastAttempt func(ctx context.Context, runID, execution, activityID string) (known bool, err error)

// askAgain is how long it takes to ask Temporal once more what it knows.
const askAgain = 500 * time.Millisecond

// maySendAgain says whether a further attempt may send an unsafe call. The SDK
// replaces what an attempt has reported by a failure of its own when it cannot
// hand it over, because the worker stops or a result cannot be stored, and has
// Temporal retry that.
func (a *Activities) maySendAgain(ctx context.Context, info activity.Info) bool {
	if a.last == nil {
		return true
	}
	for {
		known, err := a.last(ctx, info.WorkflowExecution.ID, info.WorkflowExecution.RunID, info.ActivityID)
		if err == nil {
			return known
		}
		select {
		case <-time.After(askAgain):
		case <-ctx.Done():
			return false
		}
	}
}
