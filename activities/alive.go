package activities

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/workflows"
)

// A call under way sends heartbeats, which also show whether it was cancelled: every
// second, and less often beside many calls of the same run. Temporal takes the heartbeats
// of a run up one by one, together with all else that the run does: hundreds of them a
// second keep it from that, until calls count as lost whose worker lives.
const (
	heartbeatInterval = time.Second
	heartbeatShare    = 20 * time.Millisecond // of a run, between two of all its calls here
	maxHeartbeats     = 3 * time.Second       // so that two may get lost within the heartbeat timeout
)

// A crowd counts the calls that are under way here, by Temporal's run ID. It is safe for
// concurrent use.
type crowd struct {
	mu    sync.Mutex
	calls map[string]int
}

func newCrowd() *crowd { return &crowd{calls: map[string]int{}} }

// join counts a call until left is called. interval is how long it waits between two heartbeats.
func (c *crowd) join(runID string) (interval func() time.Duration, left func()) {
	c.add(runID, 1)
	interval = func() time.Duration {
		return min(max(heartbeatInterval, time.Duration(c.add(runID, 0))*heartbeatShare), maxHeartbeats)
	}
	return interval, func() { c.add(runID, -1) }
}

func (c *crowd) add(runID string, n int) (calls int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls = c.calls[runID] + n
	if c.calls[runID] = calls; calls == 0 {
		delete(c.calls, runID)
	}
	return calls
}

// underWay is the context for a call under way. It ends with ctx, but not after an
// undelivered heartbeat: the SDK cancels the activity for that after a second, but the
// result of a sent call is worth waiting for. After the heartbeat timeout, Temporal
// decides.
func underWay(ctx context.Context) (_ context.Context, stop func()) {
	call, end := context.WithCancelCause(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); meant(cause) {
			end(cause)
		}
	})
	done := func() {}
	if deadline, ok := ctx.Deadline(); ok {
		call, done = context.WithDeadline(call, deadline)
	}
	return call, func() { unhook(); end(nil); done() }
}

// meant reports whether an activity was cancelled on purpose: the run was cancelled or
// has ended, or the worker stops.
func meant(cause error) bool {
	var (
		cancelled *temporal.CanceledError
		gone      *serviceerror.NotFound
		passive   *serviceerror.NamespaceNotActive
		nowhere   *serviceerror.NamespaceNotFound
	)
	for _, err := range []error{worker.ErrWorkerShutdown, activity.ErrActivityPaused, activity.ErrActivityReset, context.Canceled} {
		if errors.Is(cause, err) {
			return true
		}
	}
	return errors.As(cause, &cancelled) || errors.As(cause, &gone) || errors.As(cause, &passive) || errors.As(cause, &nowhere)
}

// keepAlive sends heartbeats, with the progress of the step, until stop is called. The
// first comes after one interval, so a quick call sends none.
func (c *crowd) keepAlive(ctx context.Context, step workflows.StepPath, progress <-chan backends.Progress) (stop func()) {
	done := make(chan struct{})
	interval, left := c.join(activity.GetInfo(ctx).WorkflowExecution.RunID)
	ctx = context.WithoutCancel(ctx) // continue after an undelivered one
	go func() {
		tick := time.NewTimer(interval())
		defer tick.Stop()
		last := workflows.StepProgress{StepPath: step}
		for {
			select {
			case <-done:
				return
			case p := <-progress:
				last.Progress, last.Total, last.Message = p.Progress, p.Total, shorten(p.Message, workflows.MaxProgressMessage)
			case <-tick.C:
				activity.RecordHeartbeat(ctx, last)
				tick.Reset(interval())
			}
		}
	}()
	return func() { close(done); left() }
}

// offer passes progress on, and replaces progress that was not taken yet. It is called by
// one goroutine at a time.
func offer(to chan backends.Progress, p backends.Progress) {
	select {
	case <-to:
	default:
	}
	select {
	case to <- p:
	default:
	}
}
