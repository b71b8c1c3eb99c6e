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
// what had happened to them at a time of Temporal's clock, zero = now. The error is that of ctx,
// or says that this cannot be known.
type CatchUp func(ctx context.Context, runID string, at time.Time) error

const (
	// atOnce is how long a call takes at most to be sent if it waits for nothing.
	atOnce = 5 * time.Millisecond

	// moment is how long ago the run may have made up its mind about a call that is
	// sent without asking what has become of the run.
	moment = 100 * time.Millisecond

	// lateLimit is how long ago a run may have been stopped while one that it has
	// called still sends calls: a workflow task of reads lasts as long.
	lateLimit = 500 * time.Millisecond

	// catchUpLimit is how long a call waits for its run, before the run makes it anew.
	catchUpLimit = 5 * time.Second
)

// A departure is a call on its way to its backend, which may wait for a worker, for
// the attempts before, for its turn, for a connection or for a credential. The run
// may have been stopped meanwhile without a word to the activity: what happens to a
// run is seen by a workflow task, for which there may be no worker for a while. The
// same is true of the runs above a called run, however soon its calls are sent.
type departure struct {
	a      *Activities
	call   workflows.ToolCall
	reads  bool          // or is executed within a workflow task, as reads are
	begun  time.Time     // the attempt was, by Temporal's clock
	came   time.Time     // at the same time, by that of this process
	waited time.Duration // until since, from when the run has seen what had happened: by Temporal's clock, and on its way here
	since  time.Time
	above  time.Time // when the runs above were asked last; zero = not yet
}

func (a *Activities) departure(call workflows.ToolCall, info activity.Info) *departure {
	from := info.ScheduledTime
	if decided := call.Decided; !decided.IsZero() && decided.Before(from) { // its worker was held up since
		from = decided
	}
	now := time.Now()
	return &departure{
		a: a, call: call, reads: call.Effect == definitions.Read || info.IsLocalActivity,
		begun: info.StartedTime, came: now,
		waited: info.StartedTime.Sub(from) + a.onItsWay.late(info.StartedTime, now), since: now,
	}
}

// leave says why a call is not to be sent any more that has waited, or whose run was
// called by one that has.
func (d *departure) leave(ctx context.Context) error {
	if d.reads {
		return nil
	}
	if d.waited < moment && time.Since(d.since) < atOnce {
		if err := d.catchUpAbove(ctx); err != nil || !d.isLate() {
			return err
		}
	}
	return d.inTurn(ctx)
}

// inTurn has Temporal know that a call is about to be sent, unless it is not to be
// sent any more. So of a call whose process died before that it is known that it was
// not. Heartbeats tell of a cancelled run too late for it.
func (d *departure) inTurn(ctx context.Context) error {
	if !d.reads {
		if err := d.catchUp(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, leaseFor/2)
	defer cancel()
	return activity.GetClient(ctx).RecordActivityHeartbeat(ctx, activity.GetInfo(ctx).TaskToken, workflows.StepProgress{StepPath: d.call.StepPath})
}

// isLate says whether the run may have been stopped since it wanted the call.
func (d *departure) isLate() bool { return d.waited+time.Since(d.since) >= moment }

// catchUp waits until the runs above, and the run itself if the call has waited,
// have seen what has happened to them.
func (d *departure) catchUp(ctx context.Context) error {
	if !d.isLate() {
		if err := d.catchUpAbove(ctx); err != nil {
			return err
		}
	}
	if !d.isLate() {
		return nil
	}
	asked := time.Now()
	err := d.ask(ctx, d.call.RunID, time.Time{})
	d.waited, d.since, d.above = 0, asked, asked
	return err
}

// catchUpAbove waits until the runs above have seen what happened to them a while
// ago. As a rule they have, and one request says so.
func (d *departure) catchUpAbove(ctx context.Context) error {
	if d.call.Parent == "" || time.Since(d.above) < moment {
		return nil
	}
	d.above = time.Now()
	return d.ask(ctx, d.call.Parent, d.begun.Add(elapsed(d.came, d.above)-lateLimit))
}

// ask waits until a run has seen what had happened to it at a time. If it does not,
// the run makes the call anew, if it still wants it.
func (d *departure) ask(ctx context.Context, runID string, at time.Time) error {
	if d.a.catchUp == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, catchUpLimit)
	defer cancel()
	if err := d.a.catchUp(ctx, runID, at); err != nil {
		held := limits.Held{After: presence}
		if d.call.Parent != "" {
			held.Why = workflows.HeldByParent
		}
		return &heldError{held}
	}
	return nil
}

// elapsed is the time between two, also if the machine stood still, which stops one
// of its clocks.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}
