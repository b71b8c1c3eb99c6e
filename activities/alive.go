package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/workflows"
)

// heartbeatInterval is how often a call under way sends a heartbeat, which also shows
// whether it was cancelled.
const heartbeatInterval = time.Second

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
func keepAlive(ctx context.Context, step workflows.StepPath, progress <-chan backends.Progress) (stop func()) {
	done := make(chan struct{})
	ctx = context.WithoutCancel(ctx) // continue after an undelivered one
	go func() {
		tick := time.NewTicker(heartbeatInterval)
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
			}
		}
	}()
	return func() { close(done) }
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
