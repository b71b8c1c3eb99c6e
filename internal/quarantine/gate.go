package quarantine

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A gate admits workflow tasks to be executed side by side, or one alone, in the order
// of their arrival. While there is no memory, it admits a task only where no other is
// under way. An admitted task begins a moment later, in the SDK.
type gate struct {
	mu      sync.Mutex
	waiting []*entrant
	coming  []arrival // admitted tasks that have not begun, the oldest first
	under   int       // tasks that have begun
	bytes   int64     // of the values of all that are coming or under way
	alone   bool      // the last admitted task is executed alone
	left    func()    // called when that task has ended; must not block

	// full reports whether there is no memory for tasks under way with values of so
	// many bytes. nil = there is always.
	full func(bytes int64) bool
}

// An arrival is an admitted task that has not begun.
type arrival struct {
	at    time.Time
	bytes int64 // of its values
}

// comingLimit is how long an admitted task may take to begin, so that one which the SDK
// drops blocks no others.
const comingLimit = 30 * time.Second

// memoryLook is how often waiting tasks look whether there is memory.
const memoryLook = 50 * time.Millisecond

type entrant struct {
	alone bool
	bytes int64
	in    chan struct{}
}

// enter returns when a task with values of so many bytes may be executed, beside others
// or alone. It is an error if ctx ends before.
func (g *gate) enter(ctx context.Context, alone bool, bytes int64) error {
	e := &entrant{alone, bytes, make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, e)
	g.mu.Unlock()
	look := time.NewTicker(memoryLook)
	defer look.Stop()
	for waits := true; waits; {
		g.mu.Lock()
		g.admit()
		g.mu.Unlock()
		select {
		case <-e.in:
			return nil
		case <-look.C:
		case <-ctx.Done():
			waits = false
		}
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
	if g.alone || len(g.waiting) > 0 || !g.fits(0) {
		return false
	}
	g.comes(0)
	return true
}

// withdraw takes back an admission.
func (g *gate) withdraw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bytes -= g.arrived()
	g.admit()
}

// begin counts an admitted task as executing, and gives the bytes for its end.
func (g *gate) begin() (bytes int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.under++
	return g.arrived()
}

// end counts it as ended.
func (g *gate) end(bytes int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.under--
	g.bytes -= bytes
	g.admit()
}

// quiet reports whether no task is executing.
func (g *gate) quiet() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.under == 0
}

func (g *gate) comes(bytes int64) {
	g.coming = append(g.coming, arrival{time.Now(), bytes})
	g.bytes += bytes
}

func (g *gate) arrived() (bytes int64) {
	if len(g.coming) > 0 {
		bytes, g.coming = g.coming[0].bytes, g.coming[1:]
	}
	return bytes
}

// fits reports whether there is memory for one more task.
func (g *gate) fits(bytes int64) bool {
	return g.idle() || g.full == nil || !g.full(g.bytes+bytes)
}

// admit admits waiting tasks in order, as far as possible.
func (g *gate) admit() {
	if g.alone && g.idle() {
		g.alone = false
		g.left()
	}
	for len(g.waiting) > 0 && !g.alone {
		next := g.waiting[0]
		if next.alone && !g.idle() || !g.fits(next.bytes) {
			return
		}
		g.waiting = g.waiting[1:]
		g.alone = next.alone
		g.comes(next.bytes)
		close(next.in)
	}
}

func (g *gate) idle() bool {
	for len(g.coming) > 0 && time.Since(g.coming[0].at) > comingLimit {
		g.bytes -= g.arrived()
	}
	return g.under == 0 && len(g.coming) == 0
}
