package activities

import (
	"sync"
	"time"
)

// transitWindow is how long a clock that was put forward has calls ask for nothing,
// twice over.
const transitWindow = time.Minute

// A transit knows how long tasks are on their way from Temporal to this process. One
// that Temporal has given to a process that stands still, or over a connection that
// does, is taken up as if nothing had happened. The clocks of the two may differ, so
// the task that came soonest within the last minutes counts as having come at once.
type transit struct {
	mu             sync.Mutex
	recent, before time.Duration // the least between the two clocks, since and in the window before
	since          time.Time
}

// late is how much later than others a task has come that Temporal handed out at
// started, by its clock. The first windows take it that the clocks are the same, or
// that Temporal's is ahead.
func (t *transit) late(started, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	between := now.Round(0).Sub(started)
	if now.Sub(t.since) > transitWindow {
		t.before, t.recent, t.since = t.recent, between, now
	}
	t.recent = min(t.recent, between)
	return between - min(t.recent, t.before)
}
