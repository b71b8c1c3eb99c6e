package gateway_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/runs"
)

// lateInquiries notes what a request asks again late, and loses who is there until then.
type lateInquiries struct {
	gateway.Runs
	noted atomic.Bool
}

func (r *lateInquiries) Attach(ctx context.Context, id runs.RunID, a runs.Attended) (bool, error) {
	switch {
	case a.Says == runs.Inquires:
		time.AfterFunc(4*time.Second, func() {
			r.noted.Store(true)
			_, _ = r.Runs.Attach(context.WithoutCancel(ctx), id, a)
		})
		return true, nil
	case a.Says == runs.Here && !r.noted.Load():
		return true, nil
	}
	return r.Runs.Attach(ctx, id, a)
}

// TestAttackInquiryNotedLate: a request that asks again who waits for a run listens from
// when the run has noted that, which may be after seconds.
func TestAttackInquiryNotedLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"hang": hanging}, func(o *gateway.Options) { o.Runs = &lateInquiries{Runs: o.Runs} })
	_, there := w.replica()
	for n, url := range []string{w.url, there} {
		(&wire{T: t, url: url, caller: "ann"}).modernCall("hang", `{}`, `{}`, "").progress()
		w.runs.change(func() {
			if len(w.runs.runs) != n+1 {
				t.Errorf("%d calls whose clients wait are %d runs", n+1, len(w.runs.runs))
			}
		})
	}
}

// TestAttackBusyRun has replicas ask each other, by a run that is busy, whether a
// client waits for it: what they say is in its history only when its workflow task has
// ended, and the response with the one after that. Another call is not given the run
// meanwhile, and the run is not cancelled for a client that has left.
func TestAttackBusyRun(t *testing.T) {
	t.Parallel()
	busy := func(t *testing.T) (here, there *wire, w *world, release chan struct{}) {
		t.Parallel()
		release = make(chan struct{})
		w = newWorld(t, map[string]func(*play){"does": released(release)}, func(o *gateway.Options) { o.DisconnectGrace = 50 * time.Millisecond })
		_, url := w.replica()
		w.runs.busy = 700 * time.Millisecond
		return &wire{T: t, url: w.url, caller: "ann"}, &wire{T: t, url: url, caller: "ann"}, w, release
	}
	t.Run("call", func(t *testing.T) {
		here, there, _, release := busy(t)
		one := here.modernCall("does", `{}`, `{}`, "")
		one.progress()
		two := there.modernCall("does", `{}`, `{}`, "")
		two.progress()
		close(release)
		if a, b := one.result(false).run(), two.result(false).run(); a.ID == b.ID || b.Attached {
			t.Errorf("a call is given the run of another: %+v, %+v", a, b)
		}
	})
	t.Run("leave", func(t *testing.T) {
		_, there, w, release := busy(t)
		const key = `"_meta":{"perdure/idempotency-key":"k"`
		stays := there.keyed("does", key)
		stays.progress()
		run := w.runs.only(t)
		goes, leave := leaving(t, w.url)
		goes.keyed("does", key).progress()
		leave()
		w.runs.wait(t.Context(), func() bool { return w.runs.says(run, runs.Here) || w.runs.runs[run].stopped })
		close(release)
		if got := stays.result(false).run(); got.Status != "completed" {
			t.Errorf("the run that a client waits for: %+v", got)
		}
	})
}

// heldBack holds back the first responses of replicas, as a stalled connection to
// Temporal does.
type heldBack struct {
	gateway.Runs
	late chan func() // a response that was held back
}

func (r *heldBack) Attach(ctx context.Context, id runs.RunID, a runs.Attended) (bool, error) {
	if a.Says == runs.Here {
		select {
		case r.late <- func() { _, _ = r.Runs.Attach(context.WithoutCancel(ctx), id, a) }:
			return true, nil
		default:
		}
	}
	return r.Runs.Attach(ctx, id, a)
}

// TestAttackLateResponse: the response to one request comes when another asks. It does
// not say that anybody waits for the run now.
func TestAttackLateResponse(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	held := &heldBack{late: make(chan func(), 3)} // a request asks three times
	w := newWorld(t, map[string]func(*play){"does": released(release)}, func(o *gateway.Options) { held.Runs, o.Runs = o.Runs, held })
	second, there := w.replica()
	one, leaveOne := leaving(t, w.url)
	one.modernCall("does", `{}`, `{}`, "").progress()
	run := w.runs.only(t)
	two, leaveTwo := leaving(t, there)
	two.modernCall("does", `{}`, `{}`, "").progress() // nobody has said that one waits
	leaveOne()
	leaveTwo()
	w.gateway.AwaitIdle()
	second.AwaitIdle()
	go func() {
		w.runs.wait(t.Context(), func() bool { return w.runs.notes(run, runs.Joined) > 1 })
		(<-held.late)()
		w.runs.wait(t.Context(), func() bool { return w.runs.notes(run, runs.Inquires) > 3 || len(w.runs.runs) > 1 })
		close(release)
	}()
	if got := (&wire{T: t, url: there, caller: "ann"}).modernCall("does", `{}`, `{}`, "").result(false).run(); got.ID != run || !got.Attached {
		t.Errorf("sent again: %+v, want run %s, attached", got, run)
	}
}

// TestAttackTurnedAwayAfterItsClientHasGone: a call that was sent again asks who waits for
// its run. Its client gives it up meanwhile, sends it once more, and waits for the run by
// that request. The one before is turned away, and starts no run of its own.
func TestAttackTurnedAwayAfterItsClientHasGone(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	held := &heldBack{late: make(chan func(), 1)}
	w := newWorld(t, map[string]func(*play){"does": released(release)}, func(o *gateway.Options) { held.Runs, o.Runs = o.Runs, held })
	second, there := w.replica()
	waits := (&wire{T: t, url: w.url, caller: "ann"}).modernCall("does", `{}`, `{}`, "")
	waits.progress()
	run := w.runs.only(t)
	gone, leave := leaving(t, there)
	tried := make(chan struct{})
	go func() {
		defer close(tried)
		gone.try(gone.until, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"does","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "does")
	}()
	respond := <-held.late
	leave()
	<-tried
	respond()
	w.runs.wait(t.Context(), func() bool { return w.runs.says(run, runs.Here) })
	time.Sleep(300 * time.Millisecond) // in which it could start another
	second.AwaitIdle()
	w.runs.change(func() {
		if n := len(w.runs.runs); n != 1 {
			t.Errorf("one call is %d runs", n)
		}
	})
	close(release)
	if got := waits.result(false).run(); got.ID != run || got.Status != "completed" {
		t.Errorf("who waits gets %+v", got)
	}
}
