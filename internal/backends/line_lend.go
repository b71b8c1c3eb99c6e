package backends

import (
	"context"
	"time"
)

// Lend is Enter for a call of another process: the pass is kept under its id for this
// time, and longer if it is renewed. nil = the process has it.
func (l *Line) Lend(ctx context.Context, caller, id string, keep time.Duration, stop <-chan struct{}) (*HeldBack, error) {
	if l.has(id, keep) { // asked for again, since the answer was lost
		return nil, nil
	}
	pass, held, err := l.Enter(ctx, caller, id, stop)
	if err != nil || pass == nil {
		return &held, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lent[id] != nil { // meanwhile it was asked for again, or given back
		l.end(pass, NoVerdict)
		return nil, nil
	}
	pass.until = time.Now().Add(keep)
	l.lent[id] = pass
	return nil, nil
}

// has renews a lent pass, and reports whether there is one.
func (l *Line) has(id string, keep time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.lent[id]
	if p != nil {
		p.until = time.Now().Add(keep)
	}
	return p != nil
}

// Renew keeps a lent pass, also one that an earlier process has lent: its call counts as
// under way even beyond the limits.
func (l *Line) Renew(id string, keep time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.lent[id]
	if p == nil {
		p = &Pass{line: l, began: time.Now()}
		l.underWay[p], l.lent[id] = true, p
	}
	p.until = time.Now().Add(keep)
}

// Return ends a lent pass. One that has not been lent yet is not lent any more: for a while
// an ended one stays in its place.
func (l *Line) Return(id string, v Verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.lent[id]
	if p == nil {
		l.lent[id] = &Pass{line: l, until: time.Now().Add(placeKept)}
		return
	}
	delete(l.lent, id)
	l.end(p, v)
}
