package gateway_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/runs"
)

// TestAttackRollCallOfAResumedStream has a request of 2026-07-28 join the run that a
// client of the session era follows again, by Last-Event-ID or as a task: that
// client hears the roll call, and still gets its result.
func TestAttackRollCallOfAResumedStream(t *testing.T) {
	t.Parallel()
	for name, follow := range map[string]func(c *wire) *response{
		"resumed": func(c *wire) *response {
			ctx, drop := context.WithCancel(t.Context())
			stream := c.do(ctx, http.MethodPost, callBody("1", "does", `{}`, `{"progressToken":"tok"}`))
			stream.progress()
			drop()
			return c.do(t.Context(), http.MethodGet, "", "Last-Event-ID", stream.lastID)
		},
		"task": func(c *wire) *response {
			id := c.request("tools/call", `{"name":"does","task":{}}`).ok().Task.TaskID
			return c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":"res","method":"tasks/result","params":{"taskId":%q,"_meta":{"progressToken":"tok"}}}`, id))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			w := newWorld(t, map[string]func(*play){"does": released(release)})
			c := connect(t, w.url, "ann", "2025-11-25", canAsk)
			c.T = t
			stream := follow(c)
			run := w.runs.only(t)
			if noted, err := w.runs.Attach(t.Context(), run, runs.Attended{Request: "another", Says: runs.Joined}); !noted || err != nil {
				t.Fatal(noted, err)
			}
			w.runs.wait(t.Context(), func() bool { return w.runs.says(run, runs.Here) || w.runs.runs[run].stopped })
			close(release)
			stream.result(false)
		})
	}
}

// TestAttackUnreadableWhileCancelled has Temporal go away between the request to
// end a run and the look at what came of it.
func TestAttackUnreadableWhileCancelled(t *testing.T) {
	t.Parallel()
	for _, gone := range []error{runs.ErrUnavailable, runs.ErrNotFound} {
		w := newWorld(t, map[string]func(*play){"hanging": hanging})
		c := connect(t, w.url, "ann", "2025-11-25", `{}`)
		id := c.request("tools/call", `{"name":"hanging","task":{}}`).ok().Task.TaskID
		looks := 0
		w.runs.change(func() {
			w.runs.getErr = func() error {
				if looks++; looks > 1 {
					return gone
				}
				return nil
			}
		})
		if _, code := c.request("tasks/cancel", of(id)).answer(); code != -32603 {
			t.Errorf("%v: the answer is %d", gone, code)
		}
	}
}

// together holds each Leaving back until there are two of them.
type together struct {
	gateway.Runs
	asked atomic.Int32
	both  chan struct{}
}

func (r *together) Attach(ctx context.Context, id runs.RunID, a runs.Attended) (bool, error) {
	if a.Says == runs.Leaving {
		if r.asked.Add(1) == 2 {
			close(r.both)
		}
		<-r.both
	}
	return r.Runs.Attach(ctx, id, a)
}

// TestAttackLeftTogether has two clients of one run, at two replicas, go at the same
// moment, so that each replica asks whether another client is there before it hears
// the other ask: one of them ends the run.
func TestAttackLeftTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"hang": hanging}, func(o *gateway.Options) {
		o.DisconnectGrace = time.Millisecond
		o.Runs = &together{Runs: o.Runs, both: make(chan struct{})}
	})
	second, there := w.replica()
	var leave []func()
	for _, url := range []string{w.url, there} {
		c, gone := leaving(t, url)
		c.keyed("hang", `"_meta":{"perdure/idempotency-key":"k"`).progress()
		leave = append(leave, gone)
	}
	run := w.runs.only(t)
	// The first has heard the second come, so it does not leave the run to it.
	w.runs.wait(t.Context(), func() bool { return w.runs.says(run, runs.Here) })
	for i, g := range []*gateway.Gateway{w.gateway, second} {
		leave[i]()
		g.AwaitIdle()
	}
	w.gateway.AwaitStops()
	second.AwaitStops()
	w.runs.change(func() {
		if !w.runs.runs[run].stopped {
			t.Error("both clients are gone, and the run goes on")
		}
	})
}

// broken ends the stream of the request that responds to a roll call first, before
// the response has left.
type broken struct {
	gateway.Runs
	once  sync.Once
	leave func()
}

func (r *broken) Attach(ctx context.Context, id runs.RunID, a runs.Attended) (bool, error) {
	if a.Says == runs.Here {
		r.once.Do(r.leave)
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	return r.Runs.Attach(ctx, id, a)
}

// TestAttackGoneWhileResponding has a client go while its replica reports that it is
// there, in the place of all who wait there for the run: it is said all the same.
func TestAttackGoneWhileResponding(t *testing.T) {
	t.Parallel()
	wrapped := &broken{}
	w := newWorld(t, map[string]func(*play){"hang": hanging}, func(o *gateway.Options) {
		wrapped.Runs, o.Runs = o.Runs, wrapped
	})
	c, leave := leaving(t, w.url)
	wrapped.leave = func() { leave(); w.gateway.AwaitIdle() }
	c.keyed("hang", `"_meta":{"perdure/idempotency-key":"k"`).progress()
	run := w.runs.only(t)
	if noted, err := w.runs.Attach(t.Context(), run, runs.Attended{Request: "another", Says: runs.Leaving}); !noted || err != nil {
		t.Fatal(noted, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if !w.runs.wait(ctx, func() bool { return w.runs.says(run, runs.Here) }) {
		t.Error("nobody has responded to the roll call")
	}
}

// unreadable fails to follow runs once the test sets it to.
type unreadable struct {
	gateway.Runs
	fails atomic.Int32 // so often
}

func (r *unreadable) Follow(ctx context.Context, id runs.RunID, after int64, only runs.Interest) iter.Seq2[runs.Event, error] {
	feed := r.Runs.Follow(ctx, id, after, only)
	return func(yield func(runs.Event, error) bool) {
		if r.fails.Add(-1) >= 0 {
			yield(runs.Event{}, runs.ErrUnavailable)
			return
		}
		feed(yield)
	}
}

// TestAttackUnreadableAfterItsClientHasGone has a client go while its run cannot be
// read: the run is ended when it can be again.
func TestAttackUnreadableAfterItsClientHasGone(t *testing.T) {
	t.Parallel()
	wrapped := &unreadable{}
	w := newWorld(t, map[string]func(*play){"hang": hanging}, func(o *gateway.Options) {
		wrapped.Runs, o.Runs = o.Runs, wrapped
		o.DisconnectGrace = time.Millisecond
	})
	c, leave := leaving(t, w.url)
	c.keyed("hang", `"_meta":{"perdure/idempotency-key":"k"`).progress()
	run := w.runs.only(t)
	wrapped.fails.Store(2)
	leave()
	w.gateway.AwaitIdle()
	w.gateway.AwaitStops()
	w.runs.change(func() {
		if !w.runs.runs[run].stopped {
			t.Error("the client is gone, and the run goes on")
		}
	})
}

// unread cannot read how runs have ended.
type unread struct{ gateway.Runs }

func (r *unread) Result(context.Context, runs.RunID) (*runs.Outcome, error) {
	return nil, fmt.Errorf("reading: %w", runs.ErrUnread)
}

func (r *unread) Follow(ctx context.Context, id runs.RunID, after int64, only runs.Interest) iter.Seq2[runs.Event, error] {
	feed := r.Runs.Follow(ctx, id, after, only)
	return func(yield func(runs.Event, error) bool) {
		for e, err := range feed {
			if err == nil && e.Kind == runs.EventDone {
				yield(runs.Event{}, fmt.Errorf("following: %w", runs.ErrUnread))
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// TestAttackUnreadResult: a client whose run has ended with a result that cannot be read
// here is given a handle or a task, and is told to ask again; its call has not failed.
func TestAttackUnreadResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"echoed": echoed}, func(o *gateway.Options) { o.Runs = &unread{o.Runs} })
	c := &wire{T: t, url: w.url, caller: "ann"}
	if run := c.modernCall("echoed", `{}`, `{}`, "").result(false).run(); run.ID == "" || run.Status == "failed" {
		t.Errorf("given %+v", run)
	}
	task := c.modernCall("echoed", `{"a":1}`, takesTasks, "").ok().TaskID
	if err := hasAll(string(c.modernTask("tasks/get", task, "").messageText()), "-32603", `"code":"unavailable"`, `"retryable":true`); task == "" || err != nil {
		t.Errorf("task %q: %v", task, err)
	}
}
