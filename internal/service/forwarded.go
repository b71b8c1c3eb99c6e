package service

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/credentials"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/store"
)

// A keptPool makes calls of runs with what is kept for them of their callers' requests.
type keptPool struct {
	tracedPool
	kept *credentials.Broker
}

// Call calls a backend's tool.
func (p keptPool) Call(ctx context.Context, call backends.Call) (*backends.Result, error) {
	if who := &call.Caller; who.Run != "" {
		var err error
		if who.Forwarded, err = p.kept.Forwarded(ctx, who.Name, who.Run); err != nil {
			outcome := backends.NotSent
			if needed := new(backends.CredentialsError); errors.As(err, &needed) {
				outcome = backends.CredentialsNeeded
			}
			return nil, &backends.CallError{Backend: call.Backend, Tool: call.Tool, Outcome: outcome, Err: err}
		}
	}
	return p.tracedPool.Call(ctx, call)
}

// sweepForwarded removes what is kept for runs that have ended, until ctx ends.
func (s *executor) sweepForwarded(ctx context.Context) {
	ended := func(ctx context.Context, id string) (bool, error) {
		run, err := s.runs.Get(ctx, runs.RunID(id))
		if errors.Is(err, runs.ErrNotFound) {
			return true, nil
		}
		return err == nil && run.Closed != nil, err
	}
	tick := time.NewTicker(store.RunSweepEvery)
	defer tick.Stop()
	for {
		err := s.claim(ctx)
		if err == nil {
			err = s.credentials.SweepForwarded(ctx, ended)
		}
		if err != nil && ctx.Err() == nil {
			s.opts.Logger.Warn("cannot remove headers of runs that have ended yet", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
