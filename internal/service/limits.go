package service

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/perdure/perdure/activities"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/workflows"
)

const (
	// handOver is the time of a worker at a stop, besides the grace of calls, to hand
	// the limits that it hosts to another.
	handOver = 2 * time.Second

	// hostLook is how often a worker checks that limits have a host.
	hostLook = time.Minute

	// directPatience is how long a direct call waits for its turn.
	directPatience = time.Minute

	// renewEvery is how often a long direct call renews its permit.
	renewEvery = workflows.PermitLasts / 3
)

// host keeps the limits of backends in this process, if it is chosen.
func (s *executor) host(calls *activities.Activities, gauge *memoryGauge) *activities.Host {
	all := map[string]backends.Limits{}
	for _, b := range s.opts.Loaded.Backends {
		all[b.Name] = s.opts.Loaded.Limits[b.Name]
	}
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	return &activities.Host{
		Client: s.opts.Temporal, Activities: calls, Backends: all, Interceptors: append(gauge.interceptors(), interceptors(s.opts.Telemetry)...),
		Name: fmt.Sprintf("%s, process %d", name, os.Getpid()), Grace: s.opts.Grace, Tuner: gauge.tuner,
	}
}

// startHosting ensures that some worker hosts the limits of all backends, as long as
// this one runs.
func (s *executor) startHosting(all *runs.Client) (stop func()) {
	limited := slices.Sorted(maps.Keys(s.opts.Loaded.Limits))
	if len(limited) == 0 {
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		for {
			pause := hostLook
			for _, name := range limited {
				if err := all.HostBackend(ctx, name); err != nil && ctx.Err() == nil {
					s.opts.Logger.Warn("the limits of a backend may not be enforced; calls of it wait", "backend", name, "error", err)
					pause = hostLook / 30
				}
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
		}
	}()
	return stop
}

// A limitedPool makes direct calls within the limits that a worker hosts for all.
type limitedPool struct {
	tracedPool
	limits  map[string]backends.Limits
	permits *runs.Client
	log     *slog.Logger
}

// Call calls a backend's tool when it is its turn.
func (p limitedPool) Call(ctx context.Context, call backends.Call) (*backends.Result, error) {
	if !p.limits[call.Backend].Limited() {
		return p.tracedPool.Call(ctx, call)
	}
	permit := runs.Permit{Backend: call.Backend, Ticket: "direct " + rand.Text(), Caller: call.Caller.Name}
	if err := p.await(ctx, permit); err != nil {
		p.giveBack(ctx, permit) // it may have been granted by now
		return nil, &backends.CallError{Backend: call.Backend, Tool: call.Tool, Outcome: backends.NotSent, Err: err}
	}
	stop := p.renew(ctx, permit)
	result, err := p.tracedPool.Call(ctx, call)
	stop()
	permit.Outcome = activities.Verdict(ctx, err)
	p.giveBack(ctx, permit)
	return result, err
}

// giveBack ends a permit, in the background. If that fails, the permit ends when it is
// not renewed.
func (p limitedPool) giveBack(ctx context.Context, permit runs.Permit) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), directPatience)
	go func() {
		defer cancel()
		if err := p.permits.GiveBack(ctx, permit); err != nil {
			p.log.Warn("a permit of a backend could not be returned; it expires by itself", "backend", permit.Backend, "error", err)
		}
	}()
}

// await waits for a permit, for a while. The error reports why it was not granted, and
// when to try again.
func (p limitedPool) await(ctx context.Context, permit runs.Permit) error {
	until := time.Now().Add(directPatience)
	for {
		hold, err := p.permits.Permit(ctx, permit)
		if err != nil || hold == nil {
			return err
		}
		if hold.Why == backends.HeldByBreaker || time.Now().Add(hold.Pause).After(until) {
			return fmt.Errorf("%s; try again in %s", holdsBack[hold.Why], max(hold.Pause, time.Second).Round(time.Second))
		}
		select {
		case <-time.After(hold.Pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// holdsBack explains to people why a direct call must wait.
var holdsBack = map[string]string{
	backends.HeldByBreaker:     "the circuit breaker of the backend is open",
	backends.HeldByRate:        "the rate limit of the backend is reached",
	backends.HeldByConcurrency: "the concurrency limit of the backend is reached",
	"":                         "another process is taking over the limits of the backend",
}

// renew keeps a permit for as long as a call takes.
func (p limitedPool) renew(ctx context.Context, permit runs.Permit) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	permit.Renew = true
	go func() {
		tick := time.NewTicker(renewEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if _, err := p.permits.Permit(ctx, permit); err != nil && !errors.Is(err, context.Canceled) {
				p.log.Warn("a permit could not be renewed", "backend", permit.Backend, "error", err)
			}
		}
	}()
	return cancel
}
