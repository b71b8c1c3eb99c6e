package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/limits"
	"github.com/perdure/perdure/workflows"
)

// A CatchUp waits until a run, and before it those that have called it, have seen
// what had happened to them when it was asked. The error is that of ctx, or says
// that this cannot be known.
type CatchUp func(ctx context.Context, runID string) error

const (
	// atOnce is how long a call takes at most to be sent if it waits for nothing.
	atOnce = 5 * time.Millisecond

	// moment is how long ago the run may have made up its mind about a call that is
	// sent without asking what has become of the run.
	moment = 100 * time.Millisecond

	// catchUpLimit is how long a call waits for its run, before the run makes it anew.
	catchUpLimit = 5 * time.Second
)

// A departure is a call on its way to its backend, which may wait for a worker, for
// the attempts before, for its turn, for a connection or for a credential. The run
// may have been stopped meanwhile without a word to the activity: what happens to a
// run is seen by a workflow task, for which there may be no worker for a while.
type departure struct {
	a      *Activities
	call   workflows.ToolCall
	reads  bool          // or is executed within a workflow task, as reads are
	waited time.Duration // until since, from when the run has seen what had happened
	since  time.Time
}

func (a *Activities) departure(call workflows.ToolCall, info activity.Info) *departure {
	from := info.ScheduledTime
	if decided := call.Decided; !decided.IsZero() && decided.Before(from) { // its worker was held up since
		from = decided
	}
	return &departure{
		a: a, call: call, reads: call.Effect == definitions.Read || info.IsLocalActivity,
		waited: info.StartedTime.Sub(from), since: time.Now(), // both of Temporal's clock
	}
}

// leave says why a call is not to be sent any more that has waited.
func (d *departure) leave(ctx context.Context) error {
	if d.reads || d.waited < moment && time.Since(d.since) < atOnce {
		return nil
	}
	return d.inTurn(ctx)
}

// inTurn has Temporal know that a call is about to be sent, unless it is not to be
// sent any more. So of a call whose process died before that it is known that it was
// not. Heartbeats tell of a cancelled run too late for it.
func (d *departure) inTurn(ctx context.Context) error {
	if !d.reads && d.a.catchUp != nil && d.waited+time.Since(d.since) >= moment {
		asked := time.Now()
		wait, cancel := context.WithTimeout(ctx, catchUpLimit)
		defer cancel()
		if err := d.a.catchUp(wait, d.call.RunID); err != nil {
			return &heldError{limits.Held{After: presence}} // the run makes it anew, if it still wants it
		}
		d.waited, d.since = 0, asked
	}
	ctx, cancel := context.WithTimeout(ctx, leaseFor/2)
	defer cancel()
	return activity.GetClient(ctx).RecordActivityHeartbeat(ctx, activity.GetInfo(ctx).TaskToken, workflows.StepProgress{StepPath: d.call.StepPath})
}
