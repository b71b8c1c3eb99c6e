package gateway_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/runs"
)

// TestAttackWatchedCallIsResent has an operator look at a run, or wait for it, while
// the stream of its caller breaks: the call that is sent again is still that run.
// Who watches is not the client whose answer was lost.
func TestAttackWatchedCallIsResent(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		for _, elsewhere := range []bool{false, true} {
			for _, modern := range []bool{false, true} {
				t.Run(fmt.Sprintf("waits %v, elsewhere %v, 2026-07-28 %v", waits, elsewhere, modern), func(t *testing.T) {
					t.Parallel()
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
					op := &wire{T: t, url: there, caller: "op"}
					if !modern {
						op = connect(t, there, "op", "2025-11-25", `{}`)
					}
					watch := func() *response {
						if modern {
							return op.modernCall("perdure_run_await", arguments, `{}`, "")
						}
						return op.call("1", "perdure_run_await", arguments, `{"progressToken":1}`)
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
					go func() {
						w.runs.wait(t.Context(), func() bool { return w.runs.says(run, runs.Joined) || len(w.runs.runs) > 1 })
						close(release)
					}()
					if got := again.modernCall("does", `{"message":"m"}`, `{}`, "").result(false).run(); got.ID != run || !got.Attached {
						t.Errorf("sent again: %+v, want run %s, attached", got, run)
					}
				})
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
