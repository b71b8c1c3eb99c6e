package backends

import (
	"time"
)

// A listPace spaces the listings of a server that reports changes: the pauses grow while
// changes continue.
type listPace struct {
	pause time.Duration
	last  time.Time
}

func (p *listPace) next() time.Duration {
	p.pause = min(2*p.pause, maxListPause)
	if p.pause == 0 || time.Since(p.last) > changesCalm {
		p.pause = listDebounce
	}
	p.last = time.Now()
	return p.pause
}
