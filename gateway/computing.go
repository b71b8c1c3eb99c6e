package gateway

import (
	"context"
	"runtime"
	"time"

	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
)

// A computing has what requests compute wait for its turn: of each caller one thing at a
// time, and of all as many as there are processors. So one who has a thousand scripts
// checked at once has the own requests wait, and not those of others.
type computing struct {
	callers  runs.Turns
	places   chan struct{}
	patience time.Duration
}

func newComputing() *computing {
	return &computing{places: make(chan struct{}, runtime.GOMAXPROCS(0)), patience: web.Patience}
}

// do computes for the request of a context. The error is a *QuotaError where the turn does
// not come in time, or that of ctx; nothing was computed then.
func (c *computing) do(ctx context.Context, compute func()) error {
	waiting, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	leave, err := c.callers.Take(waiting, web.Reader(ctx))
	if err == nil {
		defer leave()
		select {
		case c.places <- struct{}{}:
			defer func() { <-c.places }()
		case <-waiting.Done():
			err = waiting.Err()
		}
	}
	switch {
	case err == nil:
		compute()
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return &QuotaError{After: c.patience / 2, Message: "what others of your requests compute here takes too long"}
}
