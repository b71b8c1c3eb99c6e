package activities

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/workflows"
)

const (
	// presence is how often a host sends a heartbeat.
	presence = time.Second

	// leaseFor is how long after an accepted heartbeat a host lets calls through: less
	// than the time until it is replaced, so that there are never two.
	leaseFor = workflows.HostLost - 2*time.Second

	// elsewhere is how long Temporal waits, if a process does not have a backend, before
	// it tries another.
	elsewhere = 2 * time.Second
)

// A Host applies the limits of backends while Temporal assigns them to this process:
// ServeBackend is a long activity of the workflow BackendHost.
type Host struct {
	Client     client.Client
	Activities *Activities
	// Backends are the limits of each backend of this process, also of those without
	// limits: earlier runs may have started when these had some.
	Backends map[string]backends.Limits
	Name     string        // of this process, for people
	Grace    time.Duration // for calls under way when this process stops

	Interceptors []interceptor.WorkerInterceptor    // of the worker that serves the queue
	Tuner        func() (worker.WorkerTuner, error) // of each such worker
}

// RegisterHost makes a worker host the limits of backends when Temporal assigns them.
func RegisterHost(r worker.ActivityRegistry, h *Host) {
	r.RegisterActivityWithOptions(h.ServeBackend, activity.RegisterOptions{Name: workflows.HostName})
}

// ServeBackend serves the queue of a backend until the process stops, or another one
// serves it.
func (h *Host) ServeBackend(ctx context.Context, backend string) error {
	cfg, has := h.Backends[backend]
	if !has {
		return temporal.NewApplicationErrorWithOptions("this process has no backend "+backend, "elsewhere",
			temporal.ApplicationErrorOptions{NextRetryDelay: elsewhere})
	}
	// No call starts before Temporal has confirmed that the queue is ours.
	var held atomic.Pointer[lease]
	line := backends.NewLine(cfg, func() bool {
		l := held.Load()
		return l != nil && l.holds(time.Now())
	}, spentBefore(ctx))
	tuner, err := h.Tuner()
	if err != nil {
		return fmt.Errorf("serving the queue of %s: %w", backend, err)
	}
	queue := worker.New(h.Client, workflows.BackendQueue(backend), worker.Options{
		DisableWorkflowWorker:        true,
		MaxHeartbeatThrottleInterval: time.Second,
		WorkerStopTimeout:            h.Grace,
		Interceptors:                 h.Interceptors,
		Tuner:                        tuner,
	})
	registerInTurn(queue, *h.Activities, line)
	if err := h.sayPresent(ctx, line, &held); err != nil {
		return err
	}
	if err := queue.Start(); err != nil {
		return fmt.Errorf("serving the queue of %s: %w", backend, err)
	}
	h.Activities.logger.Info("enforcing the limits of a backend", "backend", backend, "limits", cfg.String())
	err = h.keep(ctx, line, &held)
	line.Close()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		queue.Stop()
	}()
	h.untilStopped(ctx, line, &held, stopped, err)
	if errors.Is(err, errStopping) {
		_ = h.say(ctx, line, &held, true) // if it fails, the next host assumes that the rate is used up
	}
	h.Activities.logger.Info("no longer enforcing the limits of a backend", "backend", backend, "reason", err)
	return err
}

// errStopping makes Temporal assign the backend to another process.
var errStopping = errors.New("the process is stopping")

// keep sends heartbeats until this process must stop serving, and returns why.
func (h *Host) keep(ctx context.Context, line *backends.Line, held *atomic.Pointer[lease]) error {
	tick := time.NewTicker(presence)
	defer tick.Stop()
	for {
		select {
		case <-activity.GetWorkerStopChannel(ctx):
			return errStopping
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if err := h.sayPresent(ctx, line, held); isOver(err) {
			return err
		}
	}
}

// untilStopped keeps the assignment while calls of a stopping host are under way.
func (h *Host) untilStopped(ctx context.Context, line *backends.Line, held *atomic.Pointer[lease], stopped <-chan struct{}, why error) {
	tick := time.NewTicker(presence)
	defer tick.Stop()
	for {
		select {
		case <-stopped:
			return
		case <-tick.C:
			if errors.Is(why, errStopping) {
				_ = h.sayPresent(ctx, line, held) // if it fails, another takes over early
			}
		}
	}
}

// spentBefore is when the previous host had used up the rate: at the latest when its
// lease ended, if it died. Zero = there was none.
func spentBefore(ctx context.Context) time.Time {
	var s workflows.BackendState
	if !activity.HasHeartbeatDetails(ctx) {
		return time.Time{}
	}
	switch err := activity.GetHeartbeatDetails(ctx, &s); {
	case err != nil || s.Reported.IsZero():
		return time.Now()
	case s.Done:
		return s.Spent
	}
	return s.Reported.Add(leaseFor)
}

// sayPresent sends a heartbeat with the state of the line, and extends the lease.
func (h *Host) sayPresent(ctx context.Context, line *backends.Line, held *atomic.Pointer[lease]) error {
	return h.say(ctx, line, held, false)
}

func (h *Host) say(ctx context.Context, line *backends.Line, held *atomic.Pointer[lease], done bool) error {
	s := line.State()
	from := time.Now()
	state := workflows.BackendState{Host: h.Name, Breaker: s.Breaker, Until: s.Until, UnderWay: s.UnderWay, Waiting: s.Waiting,
		Spent: s.Spent, Reported: from, Done: done}
	ctx, cancel := context.WithTimeout(ctx, leaseFor/2)
	defer cancel()
	err := h.Client.RecordActivityHeartbeat(ctx, activity.GetInfo(ctx).TaskToken, state)
	if err == nil {
		held.Store(&lease{from: from, last: leaseFor})
	}
	return err
}

// isOver reports whether Temporal has ended the assignment. No answer means nothing; the
// lease ends then.
func isOver(err error) bool {
	var notFound *serviceerror.NotFound
	var gone *serviceerror.NamespaceNotFound
	return errors.As(err, &notFound) || errors.As(err, &gone) || temporal.IsCanceledError(err) ||
		errors.Is(err, activity.ErrActivityPaused) || errors.Is(err, activity.ErrActivityReset)
}
