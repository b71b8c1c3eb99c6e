package gateway

import (
	"context"
	"sync"

	"github.com/perdure/perdure/internal/runs"
)

// Turns has the requests of this replica that want to join a run do so one after
// the other: each reads the whole history.
type turns struct {
	mu   sync.Mutex
	runs map[runs.RunID]*turn
}

type turn struct {
	free chan struct{} // has an element while nobody has the turn
	want int           // requests that have it or wait for it
}

// take waits for the turn of a run; the error is that of ctx.
func (t *turns) take(ctx context.Context, id runs.RunID) (leave func(), err error) {
	t.mu.Lock()
	if t.runs == nil {
		t.runs = map[runs.RunID]*turn{}
	}
	at := t.runs[id]
	if at == nil {
		at = &turn{free: make(chan struct{}, 1)}
		at.free <- struct{}{}
		t.runs[id] = at
	}
	at.want++
	t.mu.Unlock()
	select {
	case <-at.free:
		leave = func() { at.free <- struct{}{}; t.drop(id, at) }
	case <-ctx.Done():
		t.drop(id, at)
		return nil, ctx.Err()
	}
	if ctx.Err() != nil {
		leave()
		return nil, ctx.Err()
	}
	return leave, nil
}

func (t *turns) drop(id runs.RunID, at *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at.want--; at.want == 0 {
		delete(t.runs, id)
	}
}
