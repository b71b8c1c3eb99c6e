package web

import (
	"context"
	"sync"
)

// A reader is a request that reads large things one after the other, for a caller.
type reader struct {
	bodies *Bodies
	caller string
	ctx    context.Context // of the request
	mu     sync.Mutex
	holds  int64
}

type readerKey struct{}

// Within is a context for what a request of a caller reads beside its body, such as
// results. What Reserve takes for it is given back when ctx ends.
func (b *Bodies) Within(ctx context.Context, caller string) context.Context {
	return context.WithValue(ctx, readerKey{}, &reader{bodies: b, caller: caller, ctx: ctx})
}

// Reader is the caller of a request whose context Within has made; "" = none.
func Reader(ctx context.Context) string {
	if r, ok := ctx.Value(readerKey{}).(*reader); ok {
		return r.caller
	}
	return ""
}

// Reserve waits until the request of a context that Within has made may hold so many
// bytes, in all: it reads one thing at a time. Where Within has not made it there is
// no bound. The error is a *FullError, or that of ctx.
func Reserve(ctx context.Context, bytes int64) error {
	r, ok := ctx.Value(readerKey{}).(*reader)
	if !ok || bytes <= SmallBody {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	bytes = min(bytes, r.bodies.work.size/2)
	if bytes <= r.holds {
		return nil
	}
	free, err := r.bodies.work.Take(ctx, r.caller, bytes-r.holds)
	if err != nil {
		return err
	}
	r.holds = bytes
	context.AfterFunc(r.ctx, free)
	return nil
}
