package gateway

import (
	"sync"

	"github.com/perdure/perdure/internal/runs"
)

// A cancellation is whether the client has cancelled its call, and which run ends with it.
type cancellation struct {
	done chan struct{} // closed when the client cancels the call; nil before calls.begin

	mu       sync.Mutex
	run      runs.RunID // that ends when the call is cancelled; "" = none
	outlives bool       // the run continues when the client is gone
}

// setOutlives sets whether the run continues when the client is gone, which is known before
// a run is bound.
func (c *cancellation) setOutlives(outlives bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outlives = outlives
}

// cancelled is closed when the client cancels the call.
func (c *cancellation) cancelled() <-chan struct{} { return c.done }

// bind sets the run that ends with the call, and reports whether the run has to end at
// once, since the call was cancelled before.
func (c *cancellation) bind(run runs.RunID) (cancelled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run = run
	return c.isCancelled() && !c.outlives
}

// cancel cancels the call and returns the run that has to end with it; "" = none.
func (c *cancellation) cancel() runs.RunID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isCancelled() {
		close(c.done)
	}
	if c.outlives {
		return ""
	}
	return c.run
}

func (c *cancellation) isCancelled() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// endsRun reports whether a run ends when the call is cancelled.
func (c *cancellation) endsRun() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.run != "" && !c.outlives
}
