package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/workflows"
)

// A CatchUp waits until a run, and before it the runs above it, have seen all that had
// happened to them at a time of Temporal's clock, zero = now. Then it reports whether the
// run still wants an attempt of a call, if that is its own. The error is that of ctx, that this
// cannot be known, or workflows.ErrForgotten: there was an attempt before.
type CatchUp func(ctx context.Context, runID string, at time.Time, call *activity.Info) (wanted bool, err error)

// errUnwanted is the error of a call that its run has cancelled, or does not wait for.
var errUnwanted = errors.New("the run does not want the call any more")

// errForgotten is the error of a call that may have been made by an attempt before.
var errForgotten = errors.New("the outcome of the attempt before is not known")

const (
	// atOnce is the most that sending a call takes without waiting.
	atOnce = 5 * time.Millisecond

	// moment is how old the run's decision about a call may be without a check of the
	// run's state.
	moment = 100 * time.Millisecond

	// lateLimit is how long after the stop of a run a called run may still send calls: a
	// workflow task of reads can last as long.
	lateLimit = 500 * time.Millisecond

	// catchUpLimit is how long a call waits for its run before the run makes it again.
	catchUpLimit = 5 * time.Second
)

// A sendCheck decides whether a call may still be sent. On its way it may wait for a worker, earlier
// attempts, its turn, a connection or a credential. Meanwhile the run may have been
// stopped without the activity's knowledge: only a workflow task sees that, and there may
// be no worker for it. The same is true of the runs above, even for calls that do not
// wait.
type sendCheck struct {
	a      *Activities
	call   workflows.ToolCall
	info   activity.Info
	reads  bool          // or is executed within a workflow task, as reads are
	begun  time.Time     // the attempt was here, by Temporal's clock
	came   time.Time     // at the same time, by that of this process
	waited time.Duration // until since, from when the run has seen what had happened: by Temporal's clock, and on its way here
	since  time.Time
	above  time.Time // when the runs above were asked last; zero = not yet
}

func (a *Activities) newSendCheck(call workflows.ToolCall, info activity.Info) *sendCheck {
	from := info.ScheduledTime
	if decided := call.Decided; !decided.IsZero() && decided.Before(from) { // its worker was held up since
		from = decided
	}
	now := time.Now()
	begun := info.StartedTime.Add(a.onItsWay.late(info.StartedTime, now))
	return &sendCheck{
		a: a, call: call, info: info, reads: call.Effect == definitions.Read || info.IsLocalActivity,
		begun: begun, came: now, waited: begun.Sub(from), since: now,
	}
}

// allow reports why a call must no longer be sent; nil = it may be.
func (c *sendCheck) allow(ctx context.Context) error {
	if c.reads {
		return nil
	}
	if c.isOver() {
		return c.held()
	}
	if c.waited < moment && time.Since(c.since) < atOnce {
		if err := c.catchUpAbove(ctx); err != nil || !c.isLate() {
			return err
		}
	}
	if asked, err := c.catchUp(ctx); asked || err != nil {
		return err
	}
	return c.record(ctx)
}

// announce records with Temporal that a call is about to be sent, unless it must no longer
// be. So if the process dies before, the call is known not to have been sent.
func (c *sendCheck) announce(ctx context.Context) error {
	if !c.reads {
		if c.isOver() {
			return c.held()
		}
		if _, err := c.catchUp(ctx); err != nil {
			return err
		}
	}
	return c.record(ctx)
}

// record sends a heartbeat, which fails if the call was cancelled. Those that are sent now
// and then show that too late.
func (c *sendCheck) record(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaseFor/2)
	defer cancel()
	return activity.GetClient(ctx).RecordActivityHeartbeat(ctx, c.info.TaskToken, workflows.StepProgress{StepPath: c.call.StepPath})
}

// isOver reports whether the time of the run, or of one above it, is over. After Temporal
// itself stood still, neither may have heard of that.
func (c *sendCheck) isOver() bool {
	return !c.call.Ends.IsZero() && !c.now().Before(c.call.Ends)
}

// now is the time by Temporal's clock.
func (c *sendCheck) now() time.Time { return c.begun.Add(elapsed(c.came, time.Now())) }

// isLate reports whether the run may have been stopped since it decided on the call.
func (c *sendCheck) isLate() bool { return c.waited+time.Since(c.since) >= moment }

// catchUp waits until the runs above, and the run itself if the call has waited, are up
// to date. asked reports that the run was asked, and wants the call.
func (c *sendCheck) catchUp(ctx context.Context) (asked bool, err error) {
	if !c.isLate() {
		if err := c.catchUpAbove(ctx); err != nil {
			return false, err
		}
	}
	if !c.isLate() || c.a.opts.CatchUp == nil {
		return false, nil
	}
	now := time.Now()
	err = c.ask(ctx, c.call.RunID, time.Time{})
	c.waited, c.since, c.above = 0, now, now
	return err == nil, err
}

// catchUpAbove waits until the runs above have seen what happened to them a while ago.
// Usually they have, and one request confirms it.
func (c *sendCheck) catchUpAbove(ctx context.Context) error {
	if c.call.Parent == "" || time.Since(c.above) < moment {
		return nil
	}
	c.above = time.Now()
	return c.ask(ctx, c.call.Parent, c.now().Add(-lateLimit))
}

// ask waits until a run has seen what had happened to it at a time. Otherwise the run
// makes the call again, if it still needs it.
func (c *sendCheck) ask(ctx context.Context, runID string, at time.Time) error {
	if c.a.opts.CatchUp == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, catchUpLimit)
	defer cancel()
	switch wanted, err := c.a.opts.CatchUp(ctx, runID, at, &c.info); {
	case err == nil && !wanted:
		return errUnwanted
	case errors.Is(err, workflows.ErrAbandoned):
		return &heldError{backends.HeldBack{Why: workflows.HeldForGood}}
	case errors.Is(err, workflows.ErrForgotten):
		if !workflows.Repeatable(c.call.Effect) {
			return errForgotten
		}
	case err != nil:
		return c.held()
	}
	return nil
}

// held is the error of a call that the run makes again, if it is not stopped by then.
func (c *sendCheck) held() error {
	held := backends.HeldBack{After: presence}
	if c.call.Parent != "" {
		held.Why = workflows.HeldByParent
	}
	return &heldError{held}
}

// elapsed is the time between two, also if the machine slept, which stops one of its
// clocks.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}
