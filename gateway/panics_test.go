package gateway_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/runs"
)

// brokenRuns report an end without an outcome, which is a defect of theirs.
type brokenRuns struct{ *fakeRuns }

func (r brokenRuns) Follow(ctx context.Context, id runs.RunID, after int64, only runs.Interest) iter.Seq2[runs.Event, error] {
	return func(yield func(runs.Event, error) bool) {
		yield(runs.Event{Seq: 1, Kind: runs.EventDone}, nil)
	}
}

// TestPanicWhileARunIsRendered: a call that panics is answered with an error, and is not
// taken to wait for its run for ever.
func TestPanicWhileARunIsRendered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"echoed": echoed}, func(o *gateway.Options) { o.Runs = brokenRuns{o.Runs.(*fakeRuns)} })
	c := &wire{T: t, url: w.url, caller: "ann"}
	if m := c.modernCall("echoed", `{}`, `{}`, "").next(); m.Error == nil || m.Error.Code != -32603 {
		t.Errorf("answered %+v", m)
	}
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		w.gateway.AwaitIdle()
	}()
	select {
	case <-idle:
	case <-time.After(5 * time.Second):
		t.Error("the run is taken to be waited for")
	}
}
