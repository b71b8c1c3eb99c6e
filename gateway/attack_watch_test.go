package gateway_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/runs"
)

// TestAttackWatchedCallIsResent has an operator, or another program of the caller, look
// at a run, or wait for it, while the stream of its call breaks: the call that is sent
// again is still that run. Who watches is not the client whose answer was lost.
func TestAttackWatchedCallIsResent(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"op", "ann"} {
		for _, waits := range []bool{false, true} {
			for _, elsewhere := range []bool{false, true} {
				for _, modern := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s, waits %v, elsewhere %v, 2026-07-28 %v", who, waits, elsewhere, modern), func(t *testing.T) {
						t.Parallel()
						resentWhileWatched(t, who, waits, elsewhere, modern)
					})
				}
			}
		}
	}
}

func resentWhileWatched(t *testing.T, who string, waits, elsewhere, modern bool) {
	release := make(chan struct{})
	w := newWorld(t, map[string]func(*play){"does": released(release)}, func(o *gateway.Options) {
		o.Policy = &auth.Policy{Operators: []auth.Grant{{Tools: []string{"*"}, Subjects: []string{"user-op"}}}}
	})
	_, there := w.replica()
	_, third := w.replica()
	c, leave := leaving(t, w.url)
	c.modernCall("does", `{"message":"m"}`, `{}`, "").progress()
	run := w.runs.only(t)

	seconds := 0
	if waits {
		seconds = 55
	}
	arguments := fmt.Sprintf(`{"runId":%q,"waitSeconds":%d}`, run, seconds)
	watcher := &wire{T: t, url: there, caller: who}
	if !modern {
		watcher = connect(t, there, who, "2025-11-25", `{}`)
	}
	watch := func() *response {
		if modern {
			return watcher.modernCall("perdure_run_await", arguments, `{}`, "")
		}
		return watcher.call("1", "perdure_run_await", arguments, `{"progressToken":1}`)
	}
	if watched := watch(); waits {
		watched.progress()
	} else {
		watched.result(false)
	}
	leave()
	w.gateway.AwaitIdle()

	again := &wire{T: t, url: there, caller: "ann"}
	if elsewhere {
		again.url = third
	}
	resent := again.modernCall("does", `{"message":"m"}`, `{}`, "")
	resent.progress() // it has a run
	close(release)
	if got := resent.result(false).run(); got.ID != run || !got.Attached {
		t.Errorf("sent again: %+v, want run %s, attached", got, run)
	}
}

// A result that a caller got by waiting for the run is delivered: the next call is
// another run, at each replica.
func TestAwaitedResultIsDelivered(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		held := make(chan struct{})
		w := newWorld(t, map[string]func(*play){"echoed": released(held)})
		_, there := w.replica()
		run := lostCall(t, w, "echoed", `{}`)
		close(held)
		arguments := fmt.Sprintf(`{"runId":%q}`, run)
		if modern {
			(&wire{T: t, url: there, caller: "ann"}).modernCall("perdure_run_await", arguments, `{}`, "").result(false)
		} else {
			connect(t, there, "ann", "2025-11-25", `{}`).call("1", "perdure_run_await", arguments, "").result(false)
		}
		for _, url := range []string{w.url, there} {
			if got := (&wire{T: t, url: url, caller: "ann"}).modernCall("echoed", `{}`, `{}`, "").result(false).run(); got.ID == run || got.Attached {
				t.Errorf("after its result was awaited (2026-07-28 %v): %+v", modern, got)
			}
		}
	}
}

// A run for which somebody waits who may see it does not end with the client of its
// call.
func TestWatchedRunOutlivesItsClient(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	w := newWorld(t, map[string]func(*play){"does": released(release)}, func(o *gateway.Options) {
		o.DisconnectGrace = time.Millisecond
		o.Policy = &auth.Policy{Operators: []auth.Grant{{Tools: []string{"*"}, Subjects: []string{"user-op"}}}}
	})
	_, there := w.replica()
	c, leave := leaving(t, w.url)
	c.modernCall("does", `{"message":"m"}`, `{}`, "").progress()
	run := w.runs.only(t)
	op := &wire{T: t, url: there, caller: "op"}
	watched := op.modernCall("perdure_run_await", fmt.Sprintf(`{"runId":%q,"waitSeconds":55}`, run), `{}`, "")
	watched.progress()
	leave()
	w.runs.wait(t.Context(), func() bool { return w.runs.says(run, runs.Watching) || w.runs.runs[run].stopped })
	close(release)
	if got := watched.result(false).run(); got.Status != "completed" {
		t.Errorf("while it was watched, the run has become %+v", got)
	}
}
