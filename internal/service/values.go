package service

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/store"
)

// sweepValues deletes the values of runs that Temporal does not keep any more,
// until ctx ends.
func (s *executor) sweepValues(ctx context.Context) {
	all := s.runs
	look := func(ctx context.Context, run string) (bool, string, error) {
		needed, parent, err := all.Needed(ctx, runs.RunID(run))
		return !needed, string(parent), err
	}
	tick := time.NewTicker(store.SweepEvery)
	defer tick.Stop()
	for {
		swept, err := s.opts.Values.Sweep(ctx, look)
		if err != nil && ctx.Err() == nil {
			s.opts.Logger.Warn("cannot delete large values of deleted runs yet", "error", fmt.Errorf("sweeping: %w", err))
		}
		if swept > 0 {
			s.opts.Logger.Info("deleted large values of deleted runs", "runs", swept)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
