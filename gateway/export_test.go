package gateway

import "time"

// SetNow sets the clock by which tokens expire and calls arrive.
func (g *Gateway) SetNow(now time.Time) { g.SetClock(func() time.Time { return now }) }

// AwaitIdle waits until no client waits for a run here.
func (g *Gateway) AwaitIdle() {
	for g.served.busy() {
		time.Sleep(time.Millisecond)
	}
}

// AwaitStops waits until it is decided of each run whose client is gone.
func (g *Gateway) AwaitStops() { g.stops.Wait() }

func (s *served) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		if r.waiting > 0 {
			return true
		}
	}
	return false
}

// SetClock sets it before there is any request.
func (g *Gateway) SetClock(now func() time.Time) { g.tokens.now = now }
