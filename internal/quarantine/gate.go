package quarantine

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A gate admits workflow tasks to be executed side by side, or one alone, in the order
// of their arrival. An admitted task begins a moment later, in the SDK.
type gate struct {
	mu      sync.Mutex
	waiting []*entrant
	coming  []time.Time // admitted tasks that have not begun, the oldest first
	under   int         // tasks that have begun
	alone   bool        // the last admitted task is executed alone
	left    func()      // called when that task has ended; must not block
}

// comingLimit is how long an admitted task may take to begin, so that one which the SDK
// drops blocks no others.
const comingLimit = 30 * time.Second

type entrant struct {
	alone bool
	in    chan struct{}
}

// enter returns when a task may be executed, beside others or alone. It is an error if
// ctx ends before.
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
	return nil // admitted meanwhile
}

// tryEnter admits a task beside others, unless one waits or is executed alone.
func (g *gate) tryEnter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.alone || len(g.waiting) > 0 {
		return false
	}
	g.coming = append(g.coming, time.Now())
	return true
}

// withdraw takes back an admission.
func (g *gate) withdraw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.arrived()
	g.admit()
}

// begin counts an admitted task as executing.
func (g *gate) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.arrived()
	g.under++
}

// end counts it as ended.
func (g *gate) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.under--
	g.admit()
}

// quiet reports whether no task is executing.
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

// admit admits waiting tasks in order, as far as possible.
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
