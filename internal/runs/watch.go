package runs

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.temporal.io/api/workflowservice/v1"
)

// Watches describe runs for those who wait for a change, each run for all of them at once.
type watches struct {
	*archive
	mu     sync.Mutex
	onRuns map[RunID][]*watcher // who waits; present = the run is being watched
}

// A watcher waits for a description that is enough.
type watcher struct {
	enough enough
	done   chan struct{} // closed with the following set
	d      *workflowservice.DescribeWorkflowExecutionResponse
	err    error
}

const (
	firstLook = 4 * time.Millisecond
	lastLook  = 100 * time.Millisecond
)

// until describes a run until a description is enough that was asked for after the call.
func (w *watches) until(ctx context.Context, id RunID, enough enough) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	own := &watcher{enough: enough, done: make(chan struct{})}
	w.mu.Lock()
	others, watched := w.onRuns[id]
	if w.onRuns == nil {
		w.onRuns = map[RunID][]*watcher{}
	}
	w.onRuns[id] = append(others, own)
	w.mu.Unlock()
	if !watched {
		go w.watch(context.WithoutCancel(ctx), id)
	}
	select {
	case <-own.done:
		return own.d, own.err
	case <-ctx.Done():
		w.forget(id, own)
		return nil, ctx.Err()
	}
}

func (w *watches) forget(id RunID, gone *watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if of, watched := w.onRuns[id]; watched {
		w.onRuns[id] = slices.DeleteFunc(slices.Clone(of), func(of *watcher) bool { return of == gone })
	}
}

// waiting are those who wait for a run now. If there are none, the watch ends.
func (w *watches) waiting(id RunID) []*watcher {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.onRuns[id]
	if len(now) == 0 {
		delete(w.onRuns, id)
	}
	return now[:len(now):len(now)]
}

// watch describes a run for as long as a caller waits: on news of it, and now and then.
func (w *watches) watch(ctx context.Context, id RunID) {
	news := w.news.subscribe(id)
	defer news.cancel()
	pause, last := firstLook, lastLook
	for now := w.waiting(id); len(now) > 0; now = w.waiting(id) {
		if !w.look(ctx, id, now) {
			pause = firstLook
			continue
		}
		if news.await(ctx, pause) {
			last = near // it is executed here
		}
		pause = min(pause*3/2, last)
	}
}

// look describes a run for those who waited before, and reports whether any of them
// continues waiting.
func (w *watches) look(ctx context.Context, id RunID, now []*watcher) (more bool) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	d, err := w.describe(call, id)
	for _, one := range now {
		if err == nil && !one.enough(d) {
			more = true
			continue
		}
		w.forget(id, one)
		one.d, one.err = d, err
		close(one.done)
	}
	return more
}
