package activities

import (
	"sync"
	"time"
)

// transitWindow is how long a clock that was put forward has calls ask for nothing,
// twice over.
const transitWindow = time.Minute

// A transit measures how long tasks take from Temporal to this process. A task given to
// a suspended process, or over a stalled connection, is taken up as if nothing had
// happened. The clocks of the two may differ, so the fastest task of the last minutes
// counts as zero.
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
