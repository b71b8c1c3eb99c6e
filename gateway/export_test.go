package gateway

import "time"

// SetNow sets the clock by which tokens expire and calls arrive.
func (g *Gateway) SetNow(now time.Time) { g.SetClock(func() time.Time { return now }) }

// SetClock sets it before there is any request.
func (g *Gateway) SetClock(now func() time.Time) { g.tokens.now = now }
