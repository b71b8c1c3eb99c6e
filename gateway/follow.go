package gateway

import (
	"context"
	"time"

	"github.com/perdure/perdure/internal/runs"
)

type followed struct {
	event runs.Event
	err   error
}

// follow has a run's events after one sent until ctx ends.
func follow(ctx context.Context, all Runs, id runs.RunID, after int64, only runs.Interest) <-chan followed {
	events := make(chan followed)
	feed := all.Follow(ctx, id, after, only)
	go func() {
		defer close(events)
		for e, err := range feed {
			select {
			case events <- followed{e, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return events
}

// followLater follows a run that could not be followed just now.
func followLater(ctx context.Context, all Runs, id runs.RunID, after int64) <-chan followed {
	events := make(chan followed)
	go func() {
		defer close(events)
		select {
		case <-time.After(rollCall):
		case <-ctx.Done():
			return
		}
		for f := range follow(ctx, all, id, after, runs.AllEvents) {
			select {
			case events <- f:
			case <-ctx.Done():
				return
			}
		}
	}()
	return events
}
