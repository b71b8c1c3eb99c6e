package limits

import (
	"context"
	"time"
)

// Lend is Enter for a call that another process makes: the pass is kept under
// its id for so long, and longer when it is renewed. nil = it has it.
func (l *Line) Lend(ctx context.Context, id string, keep time.Duration, stop <-chan struct{}) (*Held, error) {
	if l.has(id, keep) { // it is asked for once more, since the answer was lost
		return nil, nil
	}
	pass, held, err := l.Enter(ctx, id, stop)
	if err != nil || pass == nil {
		return &held, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	pass.until = time.Now().Add(keep)
	l.lent[id] = pass
	return nil, nil
}

// has keeps a pass that was lent, if it was.
func (l *Line) has(id string, keep time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.lent[id]
	if p != nil {
		p.until = time.Now().Add(keep)
	}
	return p != nil
}

// Renew keeps a pass that was lent, also one that the process before this one
// has lent: that call counts as under way, whatever the limits say.
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

// Return ends a pass that was lent.
func (l *Line) Return(id string, o Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.lent[id]; p != nil {
		delete(l.lent, id)
		l.end(p, o)
	}
}
