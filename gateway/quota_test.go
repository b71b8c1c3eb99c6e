package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/runs"
)

const asking = `
name: gated
description: asks
parameters: {type: object, properties: {message: {type: string}}}
steps:
  - {id: gate, type: elicitation, message: "Write?", schema: {type: object, properties: {reason: {type: string}}, required: [reason]}}
`

func newQuotaWorld(t *testing.T, q gateway.Quotas) *world {
	t.Helper()
	w := newWorld(t, map[string]func(*play){"gated": gated, "echoed": echoed}, func(o *gateway.Options) {
		o.Quotas, o.Patience = q, 10*time.Millisecond
	})
	w.gateway.SetDefinitions(append(define(t, asking), define(t, simple("echoed"))...))
	return w
}

// refusedFor fails the test unless a call was refused for a quota, with the time
// to wait.
func refusedFor(t *testing.T, r *response, quota string) {
	t.Helper()
	said := r.result(true)
	if err := hasAll(said.text(), quota, "nothing was started", "try again in"); err != nil {
		t.Error(err)
	}
	if after := r.Header.Get("Retry-After"); after == "" || after == "0" {
		t.Errorf("Retry-After is %q", after)
	}
}

// A caller floods: all of 400 calls at once reach a question for a person. The quota
// lets only so many wait, also before the index knows of any and while it is away; other
// callers are not held up.
func TestWaitingRunsAreBounded(t *testing.T) {
	t.Parallel()
	for _, index := range []string{"prompt", "late", "away"} {
		t.Run("index "+index, func(t *testing.T) {
			t.Parallel()
			w := newQuotaWorld(t, gateway.Quotas{WaitingRuns: 20})
			w.runs.late, w.runs.away = index == "late", index == "away"
			guest, ann := connect(t, w.url, "guest", "2025-11-25", `{}`), connect(t, w.url, "ann", "2025-11-25", `{}`)
			var flood sync.WaitGroup
			for i := range 400 {
				flood.Go(func() {
					r := guest.call(fmt.Sprint(i+1), "gated", `{}`, fmt.Sprintf(`{"perdure/idempotency-key":"%d"}`, i))
					r.next()
				})
			}
			flood.Wait()
			w.runs.mu.Lock()
			started, counts := w.runs.starts, w.runs.counts
			w.runs.mu.Unlock()
			if started != 20 {
				t.Errorf("%d runs of one caller wait", started)
			}
			if counts > 10 {
				t.Errorf("the index was asked %d times", counts)
			}
			refusedFor(t, guest.call("1001", "gated", `{}`, ""), "quotas.waitingRuns")
			if w.modernRefused("guest") == "" {
				t.Error("a client of 2026-07-28 is not refused")
			}
			// Runs without a question continue, and so do those of other callers.
			guest.call("1002", "echoed", `{}`, "").result(false)
			if said := ann.call("1", "gated", `{}`, "").next().text(); strings.Contains(said, "quotas") {
				t.Errorf("somebody else is answered %s", said)
			}
		})
	}
}

// A caller whose runs wait, as many as may, starts none that waits only if something goes
// wrong: where the outcome of a call is unknown, or a call cannot be undone.
func TestAttackQuotaByUnknownOutcomes(t *testing.T) {
	t.Parallel()
	lost := func(p *play) {
		p.open(runs.Elicitation{StepID: "a", Kind: runs.Reconciliation, Message: "Was it executed?"})
		p.answered("a#1")
	}
	plays := map[string]func(*play){"asks": lost, "undone": lost, "echoed": echoed}
	w := newWorld(t, plays, func(o *gateway.Options) {
		o.Quotas, o.Patience = gateway.Quotas{WaitingRuns: 5}, 10*time.Millisecond
	})
	defs := append(define(t, "{name: asks, description: d, steps: [{id: a, tool: be_echo, onUnknown: ask}]}"),
		define(t, "{name: undone, description: d, steps: [{id: a, tool: be_echo, compensate: {tool: be_echo}}]}")...)
	w.gateway.SetDefinitions(append(defs, define(t, simple("echoed"))...))
	guest := connect(t, w.url, "guest", "2025-11-25", `{}`)
	for i := range 5 {
		guest.call(fmt.Sprint(i+1), "asks", `{}`, fmt.Sprintf(`{"perdure/idempotency-key":"%d"}`, i)).next()
	}
	time.Sleep(11 * time.Second) // until the index is asked anew
	for i, tool := range []string{"asks", "undone"} {
		refusedFor(t, guest.call(fmt.Sprint(i+10), tool, `{}`, ""), "quotas.waitingRuns")
	}
	guest.call("20", "echoed", `{}`, "").result(false)
}

// modernRefused calls without a session and gives the text of the refusal.
func (w *world) modernRefused(caller string) string {
	w.Helper()
	c := &wire{T: w.T, url: w.url, caller: caller}
	r := c.modernCall("gated", `{}`, `{}`, "")
	if said := r.next(); said.Result != nil && said.Result.IsError && strings.Contains(said.text(), "quotas.waitingRuns") {
		return said.text()
	}
	return ""
}

// A call that is repeated with its key gets its run, however many its caller has.
func TestQuotaLetsKnownRunsBeFound(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t, gateway.Quotas{WaitingRuns: 1})
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	const key = `{"perdure/idempotency-key":"k"}`
	first := c.call("1", "gated", `{}`, key).result(false).run().ID
	refusedFor(t, c.call("2", "gated", `{}`, ""), "quotas.waitingRuns")
	if again := c.call("3", "gated", `{}`, key).result(false).run().ID; again != first {
		t.Errorf("repeated, it is run %s; at first it was %s", again, first)
	}
	// Room comes back with the answer.
	id := w.runs.only(t)
	w.runs.change(func() {
		r := w.runs.runs[id]
		closed := time.Now()
		r.run.Closed, r.run.Elicitations = &closed, nil
	})
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
		r := c.call("4", "gated", `{"message":"other"}`, "")
		if !strings.Contains(r.next().text(), "quotas.waitingRuns") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no room came back")
		}
	}
}

func TestRunsPerMinuteAreBounded(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t, gateway.Quotas{RunsPerMinute: 5, OpenRuns: 100})
	c := connect(t, w.url, "guest", "2025-11-25", `{}`)
	for i := range 5 {
		c.call(fmt.Sprint(i+1), "echoed", `{}`, "").result(false)
	}
	refusedFor(t, c.call("9", "echoed", `{}`, ""), "quotas.runsPerMinute")
	connect(t, w.url, "ann", "2025-11-25", `{}`).call("1", "echoed", `{}`, "").result(false)
}

func TestOpenRunsAreBounded(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t, gateway.Quotas{OpenRuns: 2})
	c := connect(t, w.url, "guest", "2025-11-25", `{}`)
	for i := range 20 { // those that have ended do not count
		c.call(fmt.Sprint(i+100), "echoed", `{}`, "").result(false)
	}
	for i := range 2 {
		c.call(fmt.Sprint(i+1), "gated", `{}`, "").next()
	}
	refusedFor(t, c.call("9", "gated", `{}`, ""), "quotas.openRuns")
	connect(t, w.url, "ann", "2025-11-25", `{}`).call("1", "echoed", `{}`, "").result(false)
}

// A call that is refused for another quota started nothing, so it is none of the minute.
func TestRefusedCallsCountInNoMinute(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t, gateway.Quotas{WaitingRuns: 1, RunsPerMinute: 5})
	c := connect(t, w.url, "guest", "2025-11-25", `{}`)
	c.call("1", "gated", `{}`, "").next()
	for i := range 20 {
		refusedFor(t, c.call(fmt.Sprint(i+2), "gated", `{}`, ""), "quotas.waitingRuns")
	}
	for i := range 4 {
		c.call(fmt.Sprint(i+50), "echoed", `{}`, "").result(false)
	}
	refusedFor(t, c.call("60", "echoed", `{}`, ""), "quotas.runsPerMinute")
}

// The streams and waiting calls of one caller leave room for those of others.
func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(t, gateway.Quotas{Requests: 3})
	guest := connect(t, w.url, "guest", "2025-11-25", `{}`)
	for range 3 {
		if r := guest.do(t.Context(), http.MethodGet, ""); r.StatusCode != http.StatusOK {
			t.Fatalf("a stream is answered %s", r.Status)
		}
	}
	r := guest.do(t.Context(), http.MethodGet, "")
	if r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" {
		t.Errorf("one too many is answered %s, %v", r.Status, r.Header)
	}
	connect(t, w.url, "ann", "2025-11-25", `{}`).call("1", "echoed", `{}`, "").result(false)
}
