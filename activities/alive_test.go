package activities

import (
	"testing"
	"time"
)

// TestCrowd: many calls of one run send fewer heartbeats each, within the heartbeat
// timeout, and those of other runs as many as before.
func TestCrowd(t *testing.T) {
	t.Parallel()
	c := newCrowd()
	alone, leave := c.join("other")
	var interval func() time.Duration
	var left []func()
	for calls, want := range map[int]time.Duration{1: time.Second, 50: time.Second, 100: 2 * time.Second, 400: 3 * time.Second} {
		for range calls {
			var gone func()
			interval, gone = c.join("run")
			left = append(left, gone)
		}
		if got := interval(); got != want {
			t.Errorf("%d calls: a heartbeat every %s, want %s", calls, got, want)
		}
		if got := alone(); got != time.Second {
			t.Errorf("another run beside %d calls: a heartbeat every %s", calls, got)
		}
		for _, gone := range left {
			gone()
		}
		left = nil
	}
	leave()
	if len(c.calls) > 0 {
		t.Errorf("runs are still counted: %v", c.calls)
	}
}
