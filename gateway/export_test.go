package gateway

import "time"

// SetNow sets the clock by which tokens expire and calls arrive.
func (g *Gateway) SetNow(now time.Time) { g.tokens.now = func() time.Time { return now } }
