package quarantine

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A gate lets workflow tasks be executed beside each other, or one of them alone.
// Tasks are let in in the order of their arrival. A task that was let in begins a
// moment later, in the SDK.
type gate struct {
	mu      sync.Mutex
	waiting []*entrant
	coming  []time.Time // tasks that were let in and have not begun, the oldest first
	under   int         // tasks that have begun
	alone   bool        // the task that was let in last, or is under way, is the only one
	left    func()      // called when such a one has ended; it must not wait
}

// comingLimit is how long a task that was let in may take to begin: one that the
// SDK drops instead holds up nothing for longer.
const comingLimit = 30 * time.Second

type entrant struct {
	alone bool
	in    chan struct{}
}

// enter returns when a task may be executed, beside others or alone. If ctx ends
// before, it may not.
func (g *gate) enter(ctx context.Context, alone bool) error {
	e := &entrant{alone, make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, e)
	g.admit()
	g.mu.Unlock()
	select {
	case <-e.in:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, e); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
		g.admit()
		return ctx.Err()
	}
	return nil // it was let in meanwhile
}

// tryEnter lets a task in that would be executed beside others, if none waits to
// be or is executed alone.
func (g *gate) tryEnter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.alone || len(g.waiting) > 0 {
		return false
	}
	g.coming = append(g.coming, time.Now())
	return true
}

// withdraw takes back that a task was let in.
func (g *gate) withdraw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.arrived()
	g.admit()
}

// begin says that a task that was let in is now executed.
func (g *gate) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.arrived()
	g.under++
}

// end says that it no longer is.
func (g *gate) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.under--
	g.admit()
}

// quiet reports whether no task is executed.
func (g *gate) quiet() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.under == 0
}

func (g *gate) arrived() {
	if len(g.coming) > 0 {
		g.coming = g.coming[1:]
	}
}

// admit lets those in who wait and may, in their order.
func (g *gate) admit() {
	if g.alone && g.idle() {
		g.alone = false
		g.left()
	}
	for len(g.waiting) > 0 && !g.alone {
		next := g.waiting[0]
		if next.alone && !g.idle() {
			return
		}
		g.waiting = g.waiting[1:]
		g.alone = next.alone
		g.coming = append(g.coming, time.Now())
		close(next.in)
	}
}

func (g *gate) idle() bool {
	for len(g.coming) > 0 && time.Since(g.coming[0]) > comingLimit {
		g.coming = g.coming[1:]
	}
	return g.under == 0 && len(g.coming) == 0
}
