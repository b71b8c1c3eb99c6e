package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
)

// released is a play that completes when the channel is closed, or the run is
// cancelled before.
func released(release <-chan struct{}) func(*play) {
	return func(p *play) {
		p.begin("a", "be_echo")
		<-release
		p.complete(p.arguments())
	}
}

// leaving is a client of 2026-07-28 whose connections break by go.
func leaving(t *testing.T, url string) (c *wire, leave func()) {
	ctx, leave := context.WithCancel(t.Context())
	t.Cleanup(leave)
	return &wire{T: t, url: url, caller: "ann", until: ctx}, leave
}

// lostCall has the client of a call leave that has started the only run.
func lostCall(t *testing.T, w *world, tool, arguments string) runs.RunID {
	t.Helper()
	c, leave := leaving(t, w.url)
	c.modernCall(tool, arguments, `{}`, "").progress()
	run := w.runs.only(t)
	leave()
	w.gateway.AwaitIdle()
	return run
}

// TestAttackResentCall breaks the stream of a call, or has its replica forgotten,
// and sends the same call under a new id: it is the same run, also if that has
// ended meanwhile; when its result was delivered, the next call is another run.
func TestAttackResentCall(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{true, false} {
		for _, elsewhere := range []bool{true, false} {
			t.Run(fmt.Sprintf("ended before %v, elsewhere %v", before, elsewhere), func(t *testing.T) {
				t.Parallel()
				release := make(chan struct{})
				w := newWorld(t, map[string]func(*play){"does": released(release)})
				_, there := w.replica()
				run := lostCall(t, w, "does", `{"message":"m"}`)
				again := &wire{T: t, url: w.url, caller: "ann"}
				if elsewhere {
					again.url = there
				}
				if before {
					close(release)
					w.runs.wait(t.Context(), func() bool { return w.runs.runs[run].stopped })
				} else {
					go func() {
						w.runs.wait(t.Context(), func() bool { return w.runs.says(run, runs.Joined) })
						close(release)
					}()
				}
				got := again.modernCall("does", `{"n":1,"message":"m"}`, `{}`, "").result(false).run()
				if got.ID != run || !got.Attached || got.Status != "completed" {
					t.Errorf("sent again: %+v, want run %s, attached", got, run)
				}
				for _, url := range []string{w.url, there} {
					again.url = url
					if got := again.modernCall("does", `{"message":"m"}`, `{}`, "").result(false).run(); got.ID == run || got.Attached {
						t.Errorf("after the result was delivered: %+v", got)
					}
				}
				bob := &wire{T: t, url: there, caller: "bob"}
				if got := bob.modernCall("does", `{"message":"m"}`, `{}`, "").result(false).run(); got.Attached {
					t.Errorf("somebody else's call: %+v", got)
				}
			})
		}
	}
}

// TestAttackResentAfterAQuestion loses the answer to the round of a call in which its
// client has answered a question, and has the client begin anew, as libraries do. The
// client gets the result of the same run without another question. After that result is
// delivered, the next call is another run.
func TestAttackResentAfterAQuestion(t *testing.T) {
	t.Parallel()
	for _, ended := range []bool{true, false} {
		for _, asker := range []bool{true, false} { // the call begins anew at the replica that has asked
			t.Run(fmt.Sprintf("ended %v, at the asker %v", ended, asker), func(t *testing.T) {
				t.Parallel()
				release := make(chan struct{})
				w := newWorld(t, map[string]func(*play){"gated": func(p *play) {
					p.open(runs.Elicitation{StepID: "gate", Message: "Write?", Schema: json.RawMessage(`{"type":"object","properties":{}}`)})
					p.answered("gate#1")
					p.begin("b", "be_echo")
					<-release
					p.complete(`{}`)
				}})
				other, there := w.replica()
				ann := &wire{T: t, url: w.url, caller: "ann"}
				m := ann.modernCall("gated", `{}`, canAsk, "").result(false)
				run := m.run().ID
				goesOn := fmt.Sprintf(`"requestState":%q,"inputResponses":{"gate":{"action":"accept","content":{}}}`, m.Result.RequestState)
				c, leave := leaving(t, there)
				c.modernCall("gated", `{}`, canAsk, goesOn).progress()
				leave()
				other.AwaitIdle()
				if !asker {
					ann.url = there
				}
				if ended {
					close(release)
					w.runs.wait(t.Context(), func() bool { return w.runs.runs[run].stopped })
				} else {
					time.AfterFunc(50*time.Millisecond, func() { close(release) })
				}
				if got := ann.modernCall("gated", `{}`, canAsk, "").result(false); got.run().ID != run || !got.run().Attached || got.run().Status != "completed" {
					t.Errorf("begun anew: %+v, want run %s, attached", got.run(), run)
				}
				for _, url := range []string{w.url, there} {
					ann.url = url
					if got := ann.modernCall("gated", `{}`, canAsk, "").result(false).run(); got.ID == run || got.Attached {
						t.Errorf("after the result was delivered: %+v", got)
					}
				}
			})
		}
	}
}

// breaksWithAnswer has the connection break with which a client has sent an answer,
// before it is noted that the client continues.
type breaksWithAnswer struct {
	gateway.Runs
	once  sync.Once
	leave func()
}

func (r *breaksWithAnswer) Attach(ctx context.Context, id runs.RunID, a runs.Attended) (bool, error) {
	if a.Says == runs.Joined && a.Of != "" {
		r.once.Do(func() {
			r.leave()
			select {
			case <-ctx.Done():
			case <-time.After(300 * time.Millisecond):
			}
		})
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	return r.Runs.Attach(ctx, id, a)
}

// TestAttackBrokenWithItsAnswer breaks the connection of a client that has just sent an
// answer, which is taken. When it begins anew, it gets the same run and is not asked again.
func TestAttackBrokenWithItsAnswer(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	wrapped := &breaksWithAnswer{}
	w := newWorld(t, map[string]func(*play){"gated": func(p *play) {
		p.open(runs.Elicitation{StepID: "gate", Message: "Write?", Schema: json.RawMessage(`{"type":"object","properties":{}}`)})
		p.answered("gate#1")
		<-release
		p.complete(`{}`)
	}}, func(o *gateway.Options) { wrapped.Runs, o.Runs = o.Runs, wrapped })
	ann := &wire{T: t, url: w.url, caller: "ann"}
	m := ann.modernCall("gated", `{}`, canAsk, "").result(false)
	run := m.run().ID
	c, leave := leaving(t, w.url)
	wrapped.leave = leave
	c.try(c.until, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"gated","arguments":{},"requestState":%q,"inputResponses":{"gate":{"action":"accept","content":{}}},`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s}}}`, m.Result.RequestState, canAsk),
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "gated")
	w.runs.wait(t.Context(), func() bool { return len(w.runs.answer) > 0 })
	w.gateway.AwaitIdle()
	close(release)
	if got := ann.modernCall("gated", `{}`, canAsk, "").result(false).run(); got.ID != run || !got.Attached || got.Status != "completed" {
		t.Errorf("begun anew: %+v, want run %s, attached", got, run)
	}
}

// keptAnswers are Answers of two processes: what the first keeps, the second knows.
type keptAnswers struct {
	mu  sync.Mutex
	all map[string]bool
	by  *keptAnswers // the process before
}

func (a *keptAnswers) Note(run string, answered bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all[run] = answered
	return nil
}

func (a *keptAnswers) Answered(run string) bool {
	if a.by == nil {
		return false
	}
	a.by.mu.Lock()
	defer a.by.mu.Unlock()
	return a.by.all[run]
}

// A gateway is killed after it has written a result and before all replicas know it:
// another one gives the same call that result, and the next process on its machine,
// which knows what was written, starts a run.
func TestAttackKilledWhileItIsDelivered(t *testing.T) {
	t.Parallel()
	answers := &keptAnswers{all: map[string]bool{}}
	w := newWorld(t, map[string]func(*play){"echoed": echoed}, func(o *gateway.Options) { o.Answers = answers })
	w.runs.onDeliver = func() error { <-t.Context().Done(); return nil } // the note is never made
	first := (&wire{T: t, url: w.url, caller: "ann"}).modernCall("echoed", `{}`, `{}`, "").result(false).run()

	w.opts.Answers = nil
	_, there := w.replica()
	if got := (&wire{T: t, url: there, caller: "ann"}).modernCall("echoed", `{}`, `{}`, "").result(false).run(); got.ID != first.ID || !got.Attached {
		t.Errorf("sent again to another replica: %+v, want run %s", got, first.ID)
	}
	w.opts.Answers = &keptAnswers{all: map[string]bool{}, by: answers}
	_, next := w.replica()
	if got := (&wire{T: t, url: next, caller: "ann"}).modernCall("echoed", `{}`, `{}`, "").result(false).run(); got.ID == first.ID || got.Attached {
		t.Errorf("called again after a restart: %+v, want a new run", got)
	}
}

// Temporal goes away when a result has just been written: the other replica knows of it
// when Temporal is back, and starts a run for the next call.
func TestAttackDeliveredWhileTemporalIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"echoed": echoed})
	var away atomic.Int64 // so often
	away.Store(3)
	w.runs.onDeliver = func() error {
		if away.Add(-1) >= 0 {
			return fmt.Errorf("noting: %w", runs.ErrUnavailable)
		}
		return nil
	}
	_, there := w.replica()
	first := (&wire{T: t, url: w.url, caller: "ann"}).modernCall("echoed", `{}`, `{}`, "").result(false).run()
	if got := (&wire{T: t, url: there, caller: "ann"}).modernCall("echoed", `{}`, `{}`, "").result(false).run(); got.ID == first.ID || got.Attached {
		t.Errorf("called again: %+v, want a new run", got)
	}
	away.Store(1 << 30)
	(&wire{T: t, url: w.url, caller: "ann"}).modernCall("echoed", `{"message":"last"}`, `{}`, "").result(false)
	w.gateway.Close() // does not wait for Temporal
}

// A client that disconnects before its result is written has not got it, also for the
// next process.
func TestAttackGoneBeforeItIsDelivered(t *testing.T) {
	t.Parallel()
	answers := &keptAnswers{all: map[string]bool{}}
	release := make(chan struct{})
	w := newWorld(t, map[string]func(*play){"does": released(release)}, func(o *gateway.Options) { o.Answers = answers })
	run := lostCall(t, w, "does", `{}`)
	close(release)
	w.opts.Answers = &keptAnswers{all: map[string]bool{}, by: answers}
	_, next := w.replica()
	if got := (&wire{T: t, url: next, caller: "ann"}).modernCall("does", `{}`, `{}`, "").result(false).run(); got.ID != run || !got.Attached {
		t.Errorf("sent again: %+v, want run %s", got, run)
	}
}

// A call is not joined to a run for which another client of the same caller waits,
// at this replica or another; nor to one whose client was given a handle.
func TestParallelCallIsARunOfItsOwn(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	w := newWorld(t, map[string]func(*play){"does": released(release), "gated": gated})
	_, there := w.replica()
	seen := map[runs.RunID]bool{}
	var open []*response
	for _, url := range []string{w.url, w.url, there, there, w.url} {
		c := &wire{T: t, url: url, caller: "ann"}
		r := c.modernCall("does", `{}`, `{}`, "")
		r.progress()
		open = append(open, r)
		if got := c.modernCall("gated", `{}`, canAsk, "").result(false).run(); got.Attached || seen[got.ID] {
			t.Errorf("a call whose client was asked was joined: %+v", got)
		} else {
			seen[got.ID] = true
		}
	}
	close(release)
	for _, r := range open {
		if got := r.result(false).run(); got.Attached || seen[got.ID] {
			t.Errorf("a parallel call was joined: %+v", got)
		} else {
			seen[got.ID] = true
		}
	}
}

// TestAttackClosedAndSentAgain sends calls again at once, on another connection,
// when the gateway may not know yet that the first one was closed.
func TestAttackClosedAndSentAgain(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	w := newWorld(t, map[string]func(*play){"does": released(release)})
	const calls = 30
	var all sync.WaitGroup
	for i := range calls {
		body := fmt.Sprintf(`{"message":"m%d"}`, i)
		c, leave := leaving(t, w.url)
		c.modernCall("does", body, `{}`, "").progress()
		leave()
		all.Go(func() {
			if got := (&wire{T: t, url: w.url, caller: "ann"}).modernCall("does", body, `{}`, "").result(false).run(); !got.Attached {
				t.Errorf("call %d: %+v, want it attached", i, got)
			}
		})
	}
	w.runs.wait(t.Context(), func() bool {
		joined := 0
		for id := range w.runs.runs {
			if w.runs.says(id, runs.Joined) {
				joined++
			}
		}
		return joined == calls || len(w.runs.runs) > calls
	})
	close(release)
	all.Wait()
}

// TestAttackOvertaken sends a call again before the first one has got as far as to
// start its run: the first, whose client is gone, starts none of its own, whether
// the run of the second is under way or has ended by then.
func TestAttackOvertaken(t *testing.T) {
	t.Parallel()
	goOn := func(o *gateway.Options) { o.OnDisconnect = definitions.ContinueRun }
	for name, change := range map[string]func(*gateway.Options){"cancels": func(*gateway.Options) {}, "continues": goOn} {
		for _, ended := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, ended %v", name, ended), func(t *testing.T) {
				t.Parallel()
				release, held, overtaken := make(chan struct{}), make(chan struct{}), make(chan struct{})
				w := newWorld(t, map[string]func(*play){"does": released(release)}, change)
				var starts atomic.Int64
				w.runs.startErr = func() error {
					if starts.Add(1) == 1 {
						close(held)
						<-overtaken
					}
					return nil
				}
				c, leave := leaving(t, w.url)
				go c.try(c.until, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"does","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
					"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "does")
				<-held
				leave()
				r := (&wire{T: t, url: w.url, caller: "ann"}).modernCall("does", `{}`, `{}`, "")
				r.progress()
				if ended {
					close(release)
					r.result(false)
				}
				close(overtaken)
				time.Sleep(300 * time.Millisecond) // in which it could start another
				if !ended {
					close(release)
					r.result(false)
				}
				if n := len(w.runs.runs); n != 1 {
					t.Errorf("%d runs, want 1", n)
				}
			})
		}
	}
}

// Two calls that share one run are lost. The run has ended, since the second was closed
// before it had one. Both are sent again at once: one gets the result of the run, the other is a run of
// its own. Neither reports work that was not done.
func TestAttackTwoCallsForOneRun(t *testing.T) {
	t.Parallel()
	const again = 3
	release := make(chan struct{})
	w := newWorld(t, map[string]func(*play){"does": released(release)})
	run := lostCall(t, w, "does", `{}`)
	close(release)
	w.runs.wait(t.Context(), func() bool { return w.runs.runs[run].stopped })
	got := make(chan runs.RunID, again)
	for range again {
		go func() {
			got <- (&wire{T: t, url: w.url, caller: "ann"}).modernCall("does", `{}`, `{}`, "").result(false).run().ID
		}()
	}
	seen := map[runs.RunID]bool{}
	for range again {
		seen[<-got] = true
	}
	if len(seen) != again || !seen[run] {
		t.Errorf("%d calls are %d runs, the lost one among them: %v", again, len(seen), seen[run])
	}
}

// A request is stuck on its way; its client gives it up, sends the call again, and gets
// its result. Then the gateway reads the request, and with it that its connection was
// closed: nothing is executed again.
func TestAttackLateRequest(t *testing.T) {
	t.Parallel()
	goOn := func(o *gateway.Options) { o.OnDisconnect = definitions.ContinueRun }
	for name, change := range map[string]func(*gateway.Options){"cancels": func(*gateway.Options) {}, "continues": goOn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			closed := make(chan struct{})
			w := newWorld(t, map[string]func(*play){"echoed": echoed}, change, func(o *gateway.Options) {
				authenticate := o.Authenticate
				o.Authenticate = func(r *http.Request) (auth.Identity, error) {
					if r.Header.Get("X-Late") != "" {
						<-closed
					}
					return authenticate(r)
				}
			})
			address := strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/mcp")
			const calls = 100
			for n := range calls {
				arguments := fmt.Sprintf(`{"n":%d}`, n)
				(&wire{T: t, url: w.url, caller: "ann"}).modernCall("echoed", arguments, `{}`, "").result(false)
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echoed","arguments":%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, arguments)
				late, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				_, err = fmt.Fprintf(late, "POST /mcp HTTP/1.1\r\nHost: %s\r\nX-Caller: ann\r\nX-Late: 1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
					"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echoed\r\nContent-Length: %d\r\n\r\n%s", address, len(body), body)
				if err = errors.Join(err, late.Close()); err != nil {
					t.Fatal(err)
				}
				closed <- struct{}{}
			}
			time.Sleep(300 * time.Millisecond) // in which the last ones could start others
			w.gateway.AwaitIdle()
			w.runs.change(func() {
				if n := len(w.runs.runs); n != calls {
					t.Errorf("%d calls are %d runs", calls, n)
				}
			})
		})
	}
}

// Two calls whose streams broke and that are both sent again are these two, not
// three or one.
func TestAttackTwoCallsResent(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	w := newWorld(t, map[string]func(*play){"does": released(release)})
	_, there := w.replica()
	c, leave := leaving(t, w.url)
	for range 2 {
		c.modernCall("does", `{}`, `{}`, "").progress()
	}
	leave()
	w.gateway.AwaitIdle()
	var open []*response
	for _, url := range []string{there, w.url} {
		r := (&wire{T: t, url: url, caller: "ann"}).modernCall("does", `{}`, `{}`, "")
		r.progress()
		open = append(open, r)
	}
	close(release)
	if a, b := open[0].result(false).run(), open[1].result(false).run(); a.ID == b.ID || !a.Attached || !b.Attached || w.runs.starts > 4 {
		t.Errorf("sent again: %+v and %+v, in %d runs", a, b, len(w.runs.runs))
	}
	if n := len(w.runs.runs); n != 2 {
		t.Errorf("%d runs, want 2", n)
	}
}

// The runs of a call are counted anew in each era of the clock; one that began in
// the era before is joined all the same.
func TestResentCallInTheNextEra(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"hang": hanging})
	era := time.Now().Truncate(12 * time.Hour) // begins
	var since atomic.Int64
	w.gateway.SetClock(func() time.Time { return era.Add(time.Duration(since.Load())) })
	call := func(after time.Duration) runs.RunID {
		since.Store(int64(after))
		c, leave := leaving(t, w.url)
		defer func() { leave(); w.gateway.AwaitIdle() }()
		c.modernCall("hang", `{}`, `{}`, "").progress()
		var newest runs.RunID
		w.runs.wait(t.Context(), func() bool {
			for id := range w.runs.runs {
				newest = id
			}
			return true
		})
		return newest
	}
	first := call(-10 * time.Minute)
	for _, after := range []time.Duration{-time.Second, 0, time.Minute, 20 * time.Minute, 80 * time.Minute} {
		if got := call(after); got != first || len(w.runs.runs) != 1 {
			t.Errorf("%s after the era began there are %d runs, want 1", after, len(w.runs.runs))
		}
	}
}

// Once it is over, the runs of an era are counted once: a call that nobody sends again
// costs as little as it does in the middle of one.
func TestRunsOfThePastEraAreCountedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"echoed": echoed})
	w.gateway.SetClock(func() time.Time { return time.Now().Truncate(12 * time.Hour).Add(time.Hour) })
	var looks atomic.Int64
	w.runs.getErr = func() error { looks.Add(1); return nil }
	c := &wire{T: t, url: w.url, caller: "ann"}
	call := func() { c.modernCall("echoed", `{}`, `{}`, "").result(false) }
	call()
	first := looks.Load()
	for range 5 {
		call()
	}
	if n := looks.Load(); n != first {
		t.Errorf("five calls looked for %d runs, the first one for %d", n-first, first)
	}
}

// What another replica has answered is read once, and not for each call that follows.
func TestRunsOfAnotherReplicaAreReadOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"echoed": echoed})
	_, there := w.replica()
	var looks atomic.Int64
	w.runs.getErr = func() error { looks.Add(1); return nil }
	call := func(at string) int64 {
		before := looks.Load()
		(&wire{T: t, url: at, caller: "ann"}).modernCall("echoed", `{}`, `{}`, "").result(false)
		return looks.Load() - before
	}
	for range 4 {
		call(there)
	}
	call(w.url)
	for range 2 {
		if n := call(w.url); n > 0 {
			t.Errorf("a call looked for %d runs", n)
		}
	}
}

// A run that was cancelled before it did anything has nothing that calling again
// would repeat; one that has written is reported.
func TestResentCallAfterItWasCancelled(t *testing.T) {
	t.Parallel()
	for name, effects := range map[string]*runs.Effects{"nothing done": nil, "written": {Completed: []runs.EffectCall{{Tool: "be_write"}}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]func(*play){"hang": hanging})
			run := lostCall(t, w, "hang", `{}`)
			w.runs.change(func() {
				w.runs.runs[run].end("cancelled", runs.Outcome{Failure: &runs.Failure{Error: runs.Error{Code: "cancelled", Category: "cancelled", Message: "enough"}, Effects: effects}})
			})
			again, _ := leaving(t, w.url)
			r := again.modernCall("hang", `{}`, `{}`, "")
			if effects == nil {
				r.progress()
				if len(w.runs.runs) != 2 {
					t.Error("the call was joined to a run that was cancelled")
				}
				return
			}
			if m := r.result(true); m.run().ID != run || !m.run().Attached {
				t.Errorf("sent again: %+v", m.run())
			}
		})
	}
}

// TestAttackClosedStream closes the stream of a call: that cancels it in
// 2026-07-28, after a grace and unless the client comes back, and only there.
func TestAttackClosedStream(t *testing.T) {
	t.Parallel()
	soon := func(o *gateway.Options) { o.DisconnectGrace = 50 * time.Millisecond }
	goOn := func(o *gateway.Options) { soon(o); o.OnDisconnect = definitions.ContinueRun }
	t.Run("cancels", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, map[string]func(*play){"hang": hanging}, soon)
		c, leave := leaving(t, w.url)
		c.modernCall("hang", `{}`, `{}`, "").progress()
		run := w.runs.only(t)
		leave()
		w.runs.wait(t.Context(), func() bool { return w.runs.runs[run].stopped })
		if reason := w.runs.snapshot(run).reason; !strings.Contains(reason, "client") {
			t.Errorf("it was cancelled: %q", reason)
		}
	})
	for name, tt := range map[string]struct {
		change func(*gateway.Options)
		call   func(w *world, c *wire)
	}{
		"the server says continue": {goOn, func(_ *world, c *wire) { c.modernCall("hang", `{}`, `{}`, "").progress() }},
		"the definition says continue": {soon, func(w *world, c *wire) {
			w.gateway.SetDefinitions(define(w.T, simple("hang")+"onDisconnect: continue\n"))
			c.modernCall("hang", `{}`, `{}`, "").progress()
		}},
		"the replica stops": {soon, func(w *world, c *wire) {
			c.modernCall("hang", `{}`, canAsk, "").progress()
			w.gateway.Drain()
		}},
		"a session": {soon, func(w *world, c *wire) {
			s := connect(w.T, w.url, "ann", "2025-11-25", `{}`)
			s.until = c.until
			s.call("1", "hang", `{}`, `{"progressToken":1}`).progress()
		}},
		"another waits": {soon, func(w *world, c *wire) {
			key := `"_meta":{"perdure/idempotency-key":"k"`
			other := &wire{T: w.T, url: w.url, caller: "ann"}
			_, other.url = w.replica()
			other.keyed("hang", key).progress()
			c.keyed("hang", key).progress()
		}},
		"a person is asked": {soon, func(_ *world, c *wire) { c.modernCall("gated", `{}`, canAsk, "").result(false) }},
	} {
		t.Run("goes on: "+name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]func(*play){"hang": hanging, "gated": gated}, tt.change)
			c, leave := leaving(t, w.url)
			tt.call(w, c)
			run := w.runs.only(t)
			leave()
			w.gateway.AwaitIdle()
			w.gateway.AwaitStops()
			if w.runs.snapshot(run).stopped {
				t.Error("the run was cancelled")
			}
		})
	}
	t.Run("the client comes back", func(t *testing.T) {
		t.Parallel()
		release := make(chan struct{})
		w := newWorld(t, map[string]func(*play){"does": released(release)}, func(o *gateway.Options) { o.DisconnectGrace = 3 * time.Second })
		_, there := w.replica()
		c, leave := leaving(t, w.url)
		c.modernCall("does", `{}`, `{}`, "").progress()
		leave()
		w.gateway.AwaitIdle()
		r := (&wire{T: t, url: there, caller: "ann"}).modernCall("does", `{}`, `{}`, "")
		w.gateway.AwaitStops()
		close(release)
		r.result(false)
	})
}

// TestAttackStdioCancel cancels a call of 2026-07-28 on stdio, for whatever reason:
// its run ends at once and it gets no response.
func TestAttackStdioCancel(t *testing.T) {
	t.Parallel()
	for name, reason := range map[string]string{"by its user": "enough", "by the patience of a library": "SdkError: Request timed out"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]func(*play){"hang": hanging, "echoed": echoed}, func(o *gateway.Options) { o.DisconnectGrace = time.Hour })
			in, out, _ := pipe(t, w)
			lines := bufio.NewScanner(out)
			send := func(body string) { _, _ = fmt.Fprintln(in, body) }
			meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
			send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hang","arguments":{},` + meta + `}}`)
			run := w.runs.only(t)
			send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":%q,%s}}`, reason, meta))
			w.runs.wait(t.Context(), func() bool { return w.runs.runs[run].stopped })
			w.gateway.AwaitIdle()
			send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echoed","arguments":{},` + meta + `}}`)
			for lines.Scan() {
				var m msg
				perduretest.NoError(t, json.Unmarshal(lines.Bytes(), &m))
				if string(m.ID) == "1" {
					t.Errorf("a cancelled request was answered: %s", lines.Text())
				}
				if string(m.ID) == "2" {
					return
				}
			}
		})
	}
}

// TestAttackStdioCancelAtOnce cancels a call on stdio in the line after it, which
// may be read before anything was done for the call: what the call started is
// cancelled all the same.
func TestAttackStdioCancelAtOnce(t *testing.T) {
	t.Parallel()
	modern := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	for era, meta := range map[string]string{"2026-07-28": modern, "2025-11-25": `"_meta":{}`} {
		for _, tool := range []string{"hang", "be_echo"} {
			t.Run(era+" "+tool, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, map[string]func(*play){"hang": hanging})
				direct := make(chan struct{}, 1)
				w.catalogue.call = func(ctx context.Context, _ backends.Call) (*backends.Result, error) {
					<-ctx.Done()
					direct <- struct{}{}
					return nil, ctx.Err()
				}
				in, out, _ := pipe(t, w)
				lines := bufio.NewScanner(out)
				if era != "2026-07-28" {
					_, _ = fmt.Fprintln(in, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
					lines.Scan()
				}
				go func() {
					for lines.Scan() { // the pipe holds nothing back
					}
				}()
				_, _ = fmt.Fprintf(in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{},%s}}
{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough",%s}}
`, tool, meta, meta)
				if tool == "be_echo" {
					select {
					case <-direct:
					case <-time.After(time.Minute):
						t.Error("the direct call goes on")
					}
					return
				}
				run := w.runs.only(t)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				w.runs.wait(ctx, func() bool { return w.runs.runs[run].stopped })
				w.runs.mu.Lock()
				defer w.runs.mu.Unlock()
				if !w.runs.runs[run].stopped {
					t.Error("the run goes on")
				}
			})
		}
	}
}

// notes counts what requests have said to a run.
func (f *fakeRuns) notes(id runs.RunID, what runs.Attendance) (n int) {
	for _, e := range f.runs[id].events {
		if e.Kind == runs.EventAttended && e.Attended.Says == what {
			n++
		}
	}
	return n
}

// TestAttackLeftWhileJoining has clients join a run and go away again before it is
// known whether they may: the run ends when the last of them is gone, though others
// have joined it before.
func TestAttackLeftWhileJoining(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"hang": hanging}, func(o *gateway.Options) { o.DisconnectGrace = 1500 * time.Millisecond })
	_, there := w.replica()
	run := lostCall(t, w, "hang", `{}`)
	for i, url := range []string{w.url, there} {
		c, leave := leaving(t, url)
		go c.try(c.until, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hang","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "hang")
		w.runs.wait(t.Context(), func() bool { return w.runs.notes(run, runs.Joined) > i })
		leave()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if !w.runs.wait(ctx, func() bool { return w.runs.runs[run].stopped }) {
		t.Error("all clients are gone, and the run goes on")
	}
}

// TestAttackRollCalls has many requests wait for one run: each roll call is
// responded to once, and not by all who wait.
func TestAttackRollCalls(t *testing.T) {
	t.Parallel()
	const clients = 20
	w := newWorld(t, map[string]func(*play){"hang": hanging})
	for range clients {
		c := &wire{T: t, url: w.url, caller: "ann"}
		c.keyed("hang", `"_meta":{"perdure/idempotency-key":"k"`).progress()
	}
	run := w.runs.only(t)
	asked := func() int { return w.runs.notes(run, runs.Joined) }
	w.runs.wait(t.Context(), func() bool { return w.runs.notes(run, runs.Here) >= asked() })
	w.runs.change(func() {
		if here := w.runs.notes(run, runs.Here); here > clients || asked() != clients-1 {
			t.Errorf("%d requests joined, and there were %d responses", asked(), here)
		}
	})
}
