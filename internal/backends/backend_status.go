package backends

import (
	"time"
)

// A listPace spaces the listings of a server that tells of changes: they follow
// each other ever more slowly while changes do.
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

func (b *backend) status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := Status{Name: b.cfg.Name, Up: b.up, Tools: len(b.tools), Since: b.since, ProtocolVersion: b.version}
	st.Tried = b.up || b.err != errUntried
	if !b.up && b.err != nil {
		st.Error = b.err.Error()
	}
	return st
}
