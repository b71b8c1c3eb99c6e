package gateway

import (
	"context"
	"sync"
	"time"
)

// A drain signals once to all work under way that the gateway stops.
type drain struct {
	once sync.Once
	ch   chan struct{}
}

func newDrain() *drain { return &drain{ch: make(chan struct{})} }

func (d *drain) begin() { d.once.Do(func() { close(d.ch) }) }

// begun is closed when the gateway stops.
func (d *drain) begun() <-chan struct{} { return d.ch }

// until is a context that ends when the gateway stops.
func (d *drain) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-d.ch:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// How long starting or stopping a run may take when no request waits any more.
const detachedLimit = 30 * time.Second

// detached is for what must not stop half way because a client disconnected.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), detachedLimit)
}
