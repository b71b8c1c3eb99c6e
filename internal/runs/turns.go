package runs

import (
	"context"
	"sync"
)

// Turns are of things that one after the other may have. The zero value has all of them
// free.
type Turns struct {
	mu sync.Mutex
	of map[string]*turn
}

type turn struct {
	free chan struct{} // has an element while the turn is free
	want int           // how many have it or wait for it
}

// Take waits for the turn of a thing; the error is that of ctx.
func (t *Turns) Take(ctx context.Context, thing string) (leave func(), err error) {
	t.mu.Lock()
	if t.of == nil {
		t.of = map[string]*turn{}
	}
	at := t.of[thing]
	if at == nil {
		at = &turn{free: make(chan struct{}, 1)}
		at.free <- struct{}{}
		t.of[thing] = at
	}
	at.want++
	t.mu.Unlock()
	select {
	case <-at.free:
		leave = func() { at.free <- struct{}{}; t.drop(thing, at) }
	case <-ctx.Done():
		t.drop(thing, at)
		return nil, ctx.Err()
	}
	if ctx.Err() != nil {
		leave()
		return nil, ctx.Err()
	}
	return leave, nil
}

func (t *Turns) drop(thing string, at *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at.want--; at.want == 0 {
		delete(t.of, thing)
	}
}
