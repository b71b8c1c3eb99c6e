package gateway_test

import (
	"context"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
)

// largeRuns have large results, for which they wait for room as *runs.Client does.
type largeRuns struct{ *fakeRuns }

const largeOutcome = 50 << 20 // bytes

func (r largeRuns) Result(ctx context.Context, id runs.RunID) (*runs.Outcome, error) {
	if err := web.Reserve(ctx, largeOutcome); err != nil {
		return nil, err
	}
	return r.fakeRuns.Result(ctx, id)
}

func (r largeRuns) Follow(ctx context.Context, id runs.RunID, after int64, only runs.Interest) iter.Seq2[runs.Event, error] {
	return func(yield func(runs.Event, error) bool) {
		for e, err := range r.fakeRuns.Follow(ctx, id, after, only) {
			if e.Kind == runs.EventDone && err == nil {
				err = web.Reserve(ctx, largeOutcome)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// TestLargeResultsShare: the gateway does not read a large result that finds no room. A
// request for it learns when to try again, a call gets a handle, and nothing is lost.
func TestLargeResultsShare(t *testing.T) {
	t.Parallel()
	bodies := web.NewBodies(1<<20, 20*time.Millisecond)
	w := newWorld(t, map[string]func(*play){"echoed": echoed}, func(o *gateway.Options) {
		o.Runs, o.Bodies, o.TaskPatience = largeRuns{o.Runs.(*fakeRuns)}, bodies, time.Nanosecond
	})
	c := &wire{T: t, url: w.url, caller: "ann"}
	id := c.modernCall("echoed", `{}`, takesTasks, "").ok().TaskID
	until(t, "completed", func() taskView { return c.modernTask("tasks/get", id, "").ok() })
	var free []func()
	for _, other := range []string{"bob", "eve"} {
		f := perduretest.Must(bodies.Work(t.Context(), other, 1<<19))(t)
		free = append(free, f)
	}
	r := c.modernTask("tasks/get", id, "")
	if _, code := r.answer(); r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" || code != -32603 {
		t.Errorf("a result without room is answered %s, %v, %d", r.Status, r.Header, code)
	}
	if got := c.modernCall("echoed", `{"message":"x"}`, `{}`, "").result(false).text(); !strings.Contains(got, "perdure_run_await") {
		t.Errorf("a call whose result has no room is answered %s", got)
	}
	for _, f := range free {
		f()
	}
	if got := c.modernTask("tasks/get", id, "").ok(); got.Status != "completed" || len(got.Result) == 0 {
		t.Errorf("with room the task is %+v", got)
	}
}
