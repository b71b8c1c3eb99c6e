package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
)

// gated asks one question and returns what was answered.
func gated(p *play) {
	p.step("a")
	p.open(runs.Elicitation{StepID: "gate", Message: "Write?",
		Schema: json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string"}},"required":["reason"]}`)})
	e := p.answered("gate#1")
	p.step("b")
	p.complete(`{"action":"` + e.Action + `","by":"` + e.By + `"}`)
}

func TestSessionClientIsAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated})
	c := connect(t, w.url, "ann", "2025-11-25", canAsk)
	stream := c.call("1", "gated", `{"message":"x"}`, `{"progressToken":"tok"}`)
	if f, ok := stream.frame(); !ok || f.ID == "" || f.Retry != "5000" || len(f.Data) != 0 {
		t.Fatalf("the first event does not prime the client: %+v", f)
	}
	id, message, schema := stream.asked()
	if message != "Write?" || string(schema) != `{"type":"object","properties":{"reason":{"type":"string"}},"required":["reason"]}` {
		t.Errorf("asked %q with schema %s", message, schema)
	}
	if got := c.reply(id, `{"action":"accept","content":{"reason":"fine"}}`); got != http.StatusAccepted {
		t.Errorf("answer: HTTP %d", got)
	}
	stream.result(false).structuredIs(t, `{"action":"accept","by":"user-ann"}`)
}

func TestInvalidAnswerIsAskedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated})
	c := connect(t, w.url, "ann", "2025-11-25", canAsk)
	stream := c.call("1", "gated", `{}`, "")
	first, _, _ := stream.asked()
	for range 3 { // what is sent thrice is asked again once
		c.reply(first, `{"action":"accept","content":{"reason":7}}`)
	}
	second, message, _ := stream.asked()
	if err := hasAll(message, "reason", "Write?"); err != nil {
		t.Error(err)
	}
	if first == second {
		t.Error("the second question has the id of the first")
	}
	c.reply(second, `{"action":"decline"}`)
	stream.result(false).structuredIs(t, `{"action":"decline","by":"user-ann"}`)
}

// The client's answers may reach another replica than the one that streams.
func TestInvalidAnswerAtAnotherReplica(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated}, func(o *gateway.Options) { o.Patience = time.Nanosecond })
	_, there := w.replica()
	c := connect(t, w.url, "ann", "2025-11-25", canAsk)
	other := *c
	other.url = there
	stream := c.call("1", "gated", `{}`, "")
	var ids []string
	for i := range 3 {
		id, message, _ := stream.asked()
		if i > 0 {
			if err := hasAll(message, "was not taken", "reason", "Write?"); err != nil {
				t.Error(err)
			}
		}
		ids = append(ids, id)
		for range 2 {
			if got := other.reply(id, `{"action":"accept","content":{"reason":7}}`); got != http.StatusAccepted {
				t.Errorf("answer: HTTP %d", got)
			}
		}
	}
	if slices.Sort(ids); len(slices.Compact(ids)) != 3 {
		t.Errorf("questions have the ids %q", ids)
	}
	// After that it is left to the other channels.
	m := stream.result(false)
	const why = "The answer was not taken: reason must be string, not number."
	if err := hasAll(string(m.Result.Structured), `"status":"waiting_for_approval"`, `"message":"Write?"`, why); err != nil {
		t.Error(err)
	}
	if err := hasAll(m.text(), why); err != nil {
		t.Error(err)
	}
	if e := w.runs.snapshot(w.runs.only(t)).run.Elicitations[0]; e.State != "open" {
		t.Errorf("the gate is %s", e.State)
	}
}

// An answer that came while there was no stream is asked again by the next one.
func TestInvalidAnswerBetweenTwoStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated})
	c := connect(t, w.url, "ann", "2025-11-25", canAsk)
	ctx, drop := context.WithCancel(t.Context())
	stream := c.do(ctx, http.MethodPost, callBody("1", "gated", `{}`, ""))
	id, _, _ := stream.asked()
	drop()
	_, c.url = w.replica()
	c.reply(id, `{"action":"accept","content":{}}`)
	w.opts.Key, w.opts.RetiredKeys = []byte("a newer key"), [][]byte{testKey}
	_, c.url = w.replica()
	stream = c.do(t.Context(), http.MethodGet, "", "Last-Event-ID", stream.lastID)
	again, message, _ := stream.asked()
	if err := hasAll(message, "was not taken", "Write?"); err != nil || again == id {
		t.Errorf("asked again as %s: %v", again, err)
	}
	c.reply(again, `{"action":"decline"}`)
	stream.result(false).structuredIs(t, `{"action":"decline","by":"user-ann"}`)
}

// A client that turns out not to be able to ask leaves the gate to others, also
// when it says so at another replica.
func TestClientThatCannotAskSaysSoElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated}, func(o *gateway.Options) { o.Patience = time.Nanosecond })
	c := connect(t, w.url, "ann", "2025-11-25", canAsk)
	stream := c.call("1", "gated", `{}`, "")
	id, _, _ := stream.asked()
	_, c.url = w.replica()
	c.post(`{"jsonrpc":"2.0","id":"` + id + `","error":{"code":-32601,"message":"Method not found"}}`)
	m := stream.result(false)
	if err := hasAll(m.text(), "waits for a person", "perdure_run_await"); err != nil {
		t.Error(err)
	}
	if _, err := w.runs.Answer(t.Context(), w.runs.only(t), runs.Answer{ElicitationID: "gate#1", Action: "decline", By: "bob"}); err != nil {
		t.Fatal(err)
	}
	c.call("2", "perdure_run_await", fmt.Sprintf(`{"runId":%q}`, w.runs.only(t)), "").result(false).structuredIs(t, `{"action":"decline","by":"bob"}`)
}

// A client that is gone while it should answer leaves the gate to others, in
// whichever way it was to be asked.
func TestGateOfAClientThatIsGone(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*testing.T, *world){
		"a session's stream": func(t *testing.T, w *world) {
			c := connect(t, w.url, "ann", "2025-11-25", canAsk)
			ctx, drop := context.WithCancel(t.Context())
			c.do(ctx, http.MethodPost, callBody("1", "gated", `{}`, "")).asked()
			drop()
		},
		"a retry that never comes": func(t *testing.T, w *world) {
			(&wire{T: t, url: w.url, caller: "ann"}).modernCall("gated", `{}`, canAsk, "").result(false)
		},
		"a task that nobody polls": func(t *testing.T, w *world) {
			(&wire{T: t, url: w.url, caller: "ann"}).modernCall("gated", `{}`, takesTasks, "").ok()
		},
		"the stream of a task": func(t *testing.T, w *world) {
			c := connect(t, w.url, "ann", "2025-11-25", canAsk)
			id := c.request("tools/call", `{"name":"gated","task":{}}`).ok().Task.TaskID
			ctx, drop := context.WithCancel(t.Context())
			c.do(ctx, http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":%q}}`, id)).asked()
			drop()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]func(*play){"gated": gated})
			leave(t, w)
			run := w.runs.only(t)
			w.runs.wait(t.Context(), func() bool { return len(w.runs.runs[run].run.Elicitations) > 0 })
			d, err := w.runs.Answer(t.Context(), run, runs.Answer{ElicitationID: "gate#1", Action: "decline", By: "bob"})
			if err != nil || !d.Won {
				t.Fatalf("another channel's answer: %+v, %v", d, err)
			}
			c := connect(t, w.url, "ann", "2025-11-25", `{}`)
			c.call("9", "perdure_run_await", fmt.Sprintf(`{"runId":%q}`, run), "").result(false).structuredIs(t, `{"action":"decline","by":"bob"}`)
		})
	}
}

func TestModernClientIsAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated})
	c := &wire{T: t, url: w.url, caller: "ann"}
	m := c.modernCall("gated", `{}`, canAsk, "").result(false)
	if m.Result.ResultType != "input_required" || m.Result.InputRequests["gate"].Params.Message != "Write?" {
		t.Fatalf("result is %+v", m.Result)
	}
	// An answer that does not fit, then one that does, at another replica.
	m = c.modernCall("gated", `{}`, canAsk, `"requestState":"`+m.Result.RequestState+`","inputResponses":{"gate":{"action":"accept","content":{}}}`).result(false)
	perduretest.NoError(t, hasAll(m.Result.InputRequests["gate#1.2"].Params.Message, "reason", "Write?"))
	_, c.url = w.replica()
	m = c.modernCall("gated", `{}`, canAsk, `"requestState":"`+m.Result.RequestState+`","inputResponses":{"gate#1.2":{"action":"accept","content":{"reason":"ok"}}}`).result(false)
	m.structuredIs(t, `{"action":"accept","by":"user-ann"}`)
	if m.Result.ResultType != "complete" {
		t.Errorf("resultType is %q", m.Result.ResultType)
	}
}

func TestAnsweredElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated})
	c := connect(t, w.url, "ann", "2025-11-25", canAsk)
	stream := c.call("1", "gated", `{}`, "")
	id, _, _ := stream.asked()
	run := w.runs.only(t)
	if _, err := w.runs.Answer(t.Context(), run, runs.Answer{ElicitationID: "gate#1", Action: "decline", By: "bob"}); err != nil {
		t.Fatal(err)
	}
	m := stream.next()
	if m.Method != "notifications/cancelled" || !strings.Contains(string(m.Params), id) {
		t.Errorf("the question was not withdrawn: %s %s", m.Method, m.Params)
	}
	stream.result(false).structuredIs(t, `{"action":"decline","by":"bob"}`)
	if got := c.reply(id, `{"action":"accept","content":{"reason":"late"}}`); got != http.StatusAccepted {
		t.Errorf("a late answer: HTTP %d", got)
	}
	if e := w.runs.snapshot(run).run.Elicitations[0]; e.By != "bob" {
		t.Errorf("the late answer counted: %+v", e)
	}
}

func TestAnswersThatDoNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated})
	ann := connect(t, w.url, "ann", "2025-11-25", canAsk)
	bob := connect(t, w.url, "bob", "2025-11-25", canAsk)
	stream := ann.call("1", "gated", `{}`, "")
	id, _, _ := stream.asked()
	const accept = `{"action":"accept","content":{"reason":"r"}}`
	for name, got := range map[string]int{
		"made up":              ann.reply("987654", accept),
		"by somebody else":     bob.reply(id, accept),
		"with a changed token": ann.reply(changed(id), accept),
		"with a number":        ann.post(`{"jsonrpc":"2.0","id":1,"result":` + accept + `}`).StatusCode,
	} {
		if got != http.StatusBadRequest {
			t.Errorf("answer %s: HTTP %d", name, got)
		}
	}
	if got := w.runs.answers(); len(got) != 0 {
		t.Fatalf("answers came through: %+v", got)
	}
	for range 3 {
		if got := ann.reply(id, accept); got != http.StatusAccepted {
			t.Errorf("answer: HTTP %d", got)
		}
	}
	stream.result(false)
	if got := w.runs.snapshot(w.runs.only(t)).won; got != 1 {
		t.Errorf("%d answers were taken, want 1", got)
	}
}

func TestThreeInvalidAnswersLeaveTheGateOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated}, func(o *gateway.Options) { o.Patience = time.Nanosecond })
	c := connect(t, w.url, "ann", "2025-11-25", canAsk)
	stream := c.call("1", "gated", `{}`, "")
	for range 3 {
		id, _, _ := stream.asked()
		c.reply(id, `{"action":"accept"}`)
	}
	m := stream.result(false)
	const why = "The answer was not taken: reason is required."
	if err := hasAll(string(m.Result.Structured), `"status":"waiting_for_approval"`, `"message":"Write?"`, why); err != nil {
		t.Error(err)
	}
	if err := hasAll(m.text(), why); err != nil {
		t.Error(err)
	}
	if e := w.runs.snapshot(w.runs.only(t)).run.Elicitations[0]; e.State != "open" {
		t.Errorf("the gate is %s", e.State)
	}
}

func TestThreeInvalidAnswersInCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated}, func(o *gateway.Options) { o.Patience = time.Nanosecond })
	c := &wire{T: t, url: w.url, caller: "ann"}
	m := c.modernCall("gated", `{}`, canAsk, "").result(false)
	for _, key := range []string{"gate", "gate#1.2", "gate#1.3"} {
		m = c.modernCall("gated", `{}`, canAsk, fmt.Sprintf(`"requestState":%q,"inputResponses":{%q:{"action":"accept"}}`, m.Result.RequestState, key)).result(false)
	}
	if err := hasAll(m.text(), "waits for a person's answer", "The answer was not taken: reason is required."); err != nil {
		t.Error(err)
	}
}

func TestClientThatCannotShowAQuestion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated}, func(o *gateway.Options) { o.Patience = time.Nanosecond })
	c := connect(t, w.url, "ann", "2025-11-25", canAsk)
	stream := c.call("1", "gated", `{}`, "")
	id, _, _ := stream.asked()
	resp := c.post(`{"jsonrpc":"2.0","id":"` + id + `","error":{"code":-32601,"message":"Method not found"}}`)
	if resp.StatusCode != http.StatusAccepted {
		t.Errorf("HTTP %d", resp.StatusCode)
	}
	m := stream.result(false)
	if err := hasAll(m.text(), "waits for a person", "perdure_run_await"); err != nil {
		t.Error(err)
	}
}

func TestResumeAtAnotherReplica(t *testing.T) {
	t.Parallel()
	for _, after := range []string{"the priming event", "the question"} {
		t.Run(after, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]func(*play){"gated": gated})
			c := connect(t, w.url, "ann", "2025-11-25", canAsk)
			ctx, drop := context.WithCancel(t.Context())
			stream := c.do(ctx, http.MethodPost, callBody("1", "gated", `{}`, `{"progressToken":"tok"}`))
			stream.frame()
			last := stream.lastID
			id, _, _ := stream.asked()
			if after == "the question" {
				last = stream.lastID
			}
			drop()
			_, c.url = w.replica()
			stream = c.do(t.Context(), http.MethodGet, "", "Last-Event-ID", last)
			if stream.StatusCode != http.StatusOK {
				t.Fatalf("HTTP %d", stream.StatusCode)
			}
			if after != "the question" { // which is then asked again, under the same id
				again, _, _ := stream.asked()
				if again != id {
					t.Errorf("the question has another id than before")
				}
			}
			c.reply(id, `{"action":"accept","content":{"reason":"r"}}`)
			m := stream.result(false)
			m.structuredIs(t, `{"action":"accept","by":"user-ann"}`)
			if string(m.ID) != "1" {
				t.Errorf("the response has id %s", m.ID)
			}
			if w.runs.starts != 1 {
				t.Errorf("%d runs were started", w.runs.starts)
			}
		})
	}
}

func TestResumedProgressGoesOn(t *testing.T) {
	t.Parallel()
	more := make(chan bool)
	w := newWorld(t, map[string]func(*play){"steps": func(p *play) {
		p.step("a")
		<-more
		p.step("b")
		p.complete(`{}`)
	}})
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	ctx, drop := context.WithCancel(t.Context())
	stream := c.do(ctx, http.MethodPost, callBody("1", "steps", `{}`, `{"progressToken":5}`))
	var seen []float64
	for len(seen) < 2 {
		seen = append(seen, stream.progress())
	}
	drop()
	_, c.url = w.replica()
	stream = c.do(t.Context(), http.MethodGet, "", "Last-Event-ID", stream.lastID)
	close(more)
	for range 2 {
		seen = append(seen, stream.progress())
	}
	stream.result(false)
	if !slices.IsSorted(seen) || len(slices.Compact(seen)) != 4 {
		t.Errorf("progress does not increase: %v", seen)
	}
}

// progress reads the next message, which must be progress.
func (r *response) progress() float64 {
	r.Helper()
	m := r.message()
	var p struct{ Progress float64 }
	if err := json.Unmarshal(m.Params, &p); err != nil || m.Method != "notifications/progress" {
		r.Fatalf("want progress, got %q: %v", m.Method, err)
	}
	return p.Progress
}

// A question left unanswered for long is asked again, as the answer may have
// been lost; the one before stays, and an answer to either counts.
func TestQuestionIsAskedAgain(t *testing.T) {
	t.Parallel()
	for name, answered := range map[string]int{"first": 0, "second": 1} {
		for _, resumed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s answered, resumed %v", name, resumed), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, map[string]func(*play){"gated": gated}, func(o *gateway.Options) {
					o.ReaskAfter, o.KeepAlive = 20*time.Millisecond, 10*time.Millisecond
				})
				c := connect(t, w.url, "ann", "2025-11-25", canAsk)
				ctx, drop := context.WithCancel(t.Context())
				defer drop()
				stream := c.do(ctx, http.MethodPost, callBody("1", "gated", `{}`, ""))
				first, _, _ := stream.asked()
				if resumed {
					drop()
					_, c.url = w.replica()
					stream = c.do(t.Context(), http.MethodGet, "", "Last-Event-ID", stream.lastID)
				}
				second, _, _ := stream.asked()
				asked := []string{first, second}
				if first == second {
					t.Error("two questions have the same id")
				}
				elsewhere := *c
				_, elsewhere.url = w.replica()
				elsewhere.reply(asked[answered], `{"action":"cancel"}`)
				var withdrawn []string
				for {
					m := stream.next()
					if m.Result != nil {
						m.structuredIs(t, `{"action":"cancel","by":"user-ann"}`)
						break
					}
					if m.Method == "notifications/cancelled" {
						withdrawn = append(withdrawn, string(m.Params))
					}
				}
				all := strings.Join(withdrawn, "\n")
				if strings.Contains(all, asked[answered]) || strings.Contains(all, "elsewhere") {
					t.Errorf("who has answered is told %s", all)
				}
				if !strings.Contains(all, asked[1-answered]) {
					t.Errorf("the other question was not withdrawn: %s", all)
				}
			})
		}
	}
}

// Nothing is asked again in less than ten minutes, also after a stream broke.
func TestQuestionIsLeftAloneForTenMinutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated}, func(o *gateway.Options) { o.KeepAlive = 5 * time.Millisecond })
	var later atomic.Int64
	w.gateway.SetClock(func() time.Time { return time.Now().Add(time.Duration(later.Load())) })
	c := connect(t, w.url, "ann", "2025-11-25", canAsk)
	ctx, drop := context.WithCancel(t.Context())
	stream := c.do(ctx, http.MethodPost, callBody("1", "gated", `{}`, ""))
	stream.asked()
	drop()
	stream = c.do(t.Context(), http.MethodGet, "", "Last-Event-ID", stream.lastID)
	if f, ok := stream.frame(); !ok || f.Retry == "" {
		t.Fatalf("the stream begins with %+v", f)
	}
	later.Store(int64(590 * time.Second))
	for range 20 { // comments
		if f, ok := stream.frame(); !ok || len(f.Data) > 0 {
			t.Fatalf("while the question is open: %v %s", ok, f.Data)
		}
	}
	later.Store(int64(601 * time.Second))
	id, _, _ := stream.asked()
	c.reply(id, `{"action":"cancel"}`)
	for m := stream.next(); ; m = stream.next() {
		if m.Result != nil {
			m.structuredIs(t, `{"action":"cancel","by":"user-ann"}`)
			break
		}
	}
}

// After a stream broke, the next one says of how many steps, and keeps the order.
func TestResumedProgressKeepsItsTotal(t *testing.T) {
	t.Parallel()
	hold := make(chan bool)
	w := newWorld(t, map[string]func(*play){"steps": func(p *play) {
		p.step("a")
		p.begin("b", "be_echo")
		<-hold
		p.finish("b")
		p.complete(`{}`)
	}}, func(o *gateway.Options) { o.KeepAlive = 20 * time.Millisecond })
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	ctx, drop := context.WithCancel(t.Context())
	stream := c.do(ctx, http.MethodPost, callBody("1", "steps", `{}`, `{"progressToken":5}`))
	type progress struct {
		Progress, Total float64
		Message         string
	}
	var seen []progress
	read := func() {
		var p progress
		if m := stream.message(); json.Unmarshal(m.Params, &p) != nil || m.Method != "notifications/progress" {
			t.Fatalf("want progress, got %+v", m)
		}
		if len(seen) > 0 || p.Message != "running" { // before a step has begun
			seen = append(seen, p)
		}
	}
	for len(seen) < 3 {
		read()
	}
	for range 3 {
		drop()
		_, c.url = w.replica()
		ctx, drop = context.WithCancel(t.Context())
		stream = c.do(ctx, http.MethodGet, "", "Last-Event-ID", stream.lastID)
		read()
		read()
	}
	close(hold)
	for last := ""; last != "b: completed"; last = seen[len(seen)-1].Message {
		read()
	}
	for i, p := range seen {
		if p.Total != 2 || p.Progress > 2 || i > 0 && p.Progress <= seen[i-1].Progress {
			t.Errorf("progress %d is %+v", i, p)
		}
		if i >= 3 && i < 9 && p.Message != "running: b" {
			t.Errorf("on a resumed stream the client is told %q", p.Message)
		}
	}
	drop()
}

func TestResumeIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated})
	ann := connect(t, w.url, "ann", "2025-11-25", canAsk)
	bob := connect(t, w.url, "bob", "2025-11-25", canAsk)
	stream := ann.call("1", "gated", `{}`, "")
	question, _, _ := stream.asked()
	place := stream.lastID
	for name, try := range map[string]struct {
		who *wire
		id  string
	}{
		"somebody else":       {bob, place},
		"changed":             {ann, changed(place)},
		"of another purpose":  {ann, question},
		"of another server":   {ann, "1-2-3"},
		"with another's name": {ann, ann.session},
	} {
		if got := try.who.do(t.Context(), http.MethodGet, "", "Last-Event-ID", try.id); got.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: HTTP %d", name, got.StatusCode)
		}
	}
	bob.session = ann.session
	if got := bob.call("2", "gated", `{}`, ""); got.StatusCode != http.StatusNotFound {
		t.Errorf("a stolen session: HTTP %d", got.StatusCode)
	}
}

func TestGatesInARowAndAtOnce(t *testing.T) {
	t.Parallel()
	plays := map[string]func(*play){
		"both": func(p *play) {
			p.open(runs.Elicitation{StepID: "x", Message: "X?"}, runs.Elicitation{StepID: "y", Message: "Y?"})
			p.complete(`{"said":"` + p.answered("x#1").Action + p.answered("y#1").Action + `"}`)
		},
		"row": func(p *play) {
			p.open(runs.Elicitation{StepID: "x", Message: "X?"})
			x := p.answered("x#1").Action
			p.open(runs.Elicitation{StepID: "y", Message: "Y?"})
			p.complete(`{"said":"` + x + p.answered("y#1").Action + `"}`)
		},
	}
	w := newWorld(t, plays)
	c := &wire{T: t, url: w.url, caller: "ann"}
	round := func(name string, answers string, state string) *msg {
		return c.modernCall(name, `{}`, canAsk, `"requestState":"`+state+`","inputResponses":`+answers).result(false)
	}
	keys := func(m *msg) string { return strings.Join(slices.Sorted(maps.Keys(m.Result.InputRequests)), " ") }

	m := c.modernCall("both", `{}`, canAsk, "").result(false)
	if keys(m) != "x y" {
		t.Errorf("asked at once: %s", keys(m))
	}
	m = round("both", `{"y":{"action":"accept"}}`, m.Result.RequestState)
	if keys(m) != "x" {
		t.Errorf("after one answer: %s", keys(m))
	}
	m = round("both", `{"x":{"action":"decline"}}`, m.Result.RequestState)
	m.structuredIs(t, `{"said":"declineaccept"}`)

	m = c.modernCall("row", `{}`, canAsk, "").result(false)
	m = round("row", `{"x":{"action":"accept"}}`, m.Result.RequestState)
	if keys(m) != "y" {
		t.Errorf("second in a row: %s", keys(m))
	}
	round("row", `{"y":{"action":"cancel"}}`, m.Result.RequestState).structuredIs(t, `{"said":"acceptcancel"}`)

	// The same by elicitation/create, answered in the other order.
	s := connect(t, w.url, "ann", "2025-06-18", canAsk)
	stream := s.call("1", "both", `{}`, "")
	x, _, _ := stream.asked()
	y, _, _ := stream.asked()
	s.reply(y, `{"action":"cancel"}`)
	s.reply(x, `{"action":"accept"}`)
	stream.result(false).structuredIs(t, `{"said":"acceptcancel"}`)
}

func TestRequestStateIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated, "other": gated})
	ann := &wire{T: t, url: w.url, caller: "ann"}
	bob := &wire{T: t, url: w.url, caller: "bob"}
	st := ann.modernCall("gated", `{"message":"m","n":2}`, canAsk, "").result(false).Result.RequestState
	with := func(c *wire, tool, arguments, state string) *response {
		return c.modernCall(tool, arguments, canAsk, `"requestState":"`+state+`","inputResponses":{"gate":{"action":"decline"}}`)
	}
	for name, resp := range map[string]*response{
		"somebody else":   with(bob, "gated", `{"message":"m","n":2}`, st),
		"another tool":    with(ann, "other", `{"message":"m","n":2}`, st),
		"changed":         with(ann, "gated", `{"message":"m","n":2}`, changed(st)),
		"other arguments": with(ann, "gated", `{"message":"harmless","n":2}`, st),
		"fewer arguments": with(ann, "gated", `{"message":"m"}`, st),
		"no arguments":    with(ann, "gated", `null`, st),
	} {
		if m := resp.next(); resp.StatusCode != http.StatusBadRequest || m.Error == nil || m.Error.Code != -32602 {
			t.Errorf("%s: HTTP %d %+v", name, resp.StatusCode, m.Error)
		}
	}
	if got := w.runs.answers(); len(got) != 0 {
		t.Errorf("answers came through: %+v", got)
	}
	with(ann, "gated", `{"n":2.0e0,"message":"m"}`, st).next() // the same arguments
	if got := w.runs.answers(); len(got) != 1 {
		t.Errorf("with the same arguments, written otherwise: %+v", got)
	}
}

// An answer to an unknown question is refused, with all answers sent beside it, since
// it may have been meant for any question.
func TestAnswerToAnUnknownQuestion(t *testing.T) {
	t.Parallel()
	both := func(p *play) {
		p.open(runs.Elicitation{StepID: "x", Message: "X?"}, runs.Elicitation{StepID: "y", Message: "Y?"})
		p.complete(`{"said":"` + p.answered("x#1").Action + p.answered("y#1").Action + `"}`)
	}
	w := newWorld(t, map[string]func(*play){"both": both})
	c := &wire{T: t, url: w.url, caller: "ann"}
	m := c.modernCall("both", `{}`, canAsk, "").result(false)
	for _, key := range []string{"z", "x#1", "x#2", "x#1.2", ""} {
		m = c.modernCall("both", `{}`, canAsk, fmt.Sprintf(`"requestState":%q,"inputResponses":{"y":{"action":"accept"},%q:{"action":"accept"}}`,
			m.Result.RequestState, key)).result(false)
		if got := w.runs.answers(); len(got) != 0 {
			t.Fatalf("with an answer to %q these were taken: %+v", key, got)
		}
		if key == "z" {
			if err := hasAll(m.Result.InputRequests["y#1.2"].Params.Message, `"z"`, "not asked", "x, y", "Y?"); err != nil {
				t.Error(err)
			}
		}
		m = c.modernCall("both", `{}`, canAsk, "").result(false)
	}
	task := c.modernCall("both", `{"n":2}`, takesTasks, "").ok().TaskID
	until(t, "input_required", func() taskView { return c.modernTask("tasks/get", task, "").ok() })
	e := c.modernTask("tasks/update", task, `"inputResponses":{"y":{"action":"accept"},"z":{"action":"accept"}}`).next().Error
	if e == nil || e.Code != -32602 || !strings.Contains(e.Message, `"z"`) || len(w.runs.answers()) != 0 {
		t.Errorf("to a task: %+v after %+v", e, w.runs.answers())
	}
	ack := c.modernTask("tasks/update", task, `"inputResponses":{"z":{"action":"accept"}}`).next()
	if got := w.runs.answers(); len(got) != 0 || ack.Result == nil || string(ack.Result.Meta["perdure/refused"]) != `["z"]` {
		t.Errorf("of an unknown question alone was taken: %+v, and said %+v", got, ack)
	}
	// What was answered already is known.
	for range 2 {
		c.modernTask("tasks/update", task, `"inputResponses":{"y":{"action":"accept"}}`).ok()
	}
	c.modernTask("tasks/update", task, `"inputResponses":{"x":{"action":"decline"}}`).ok()
	got := until(t, "completed", func() taskView { return c.modernTask("tasks/get", task, "").ok() })
	if !strings.Contains(string(got.Result), `"structuredContent":{"said":"declineaccept"}`) {
		t.Errorf("the task ends with %s", got.Result)
	}
}

// The gateway refuses an answer of a session under an id that it was not asked with, and
// tells the session so; the question stays open.
func TestAnswerUnderAnUnknownID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated})
	c := connect(t, w.url, "ann", "2025-11-25", canAsk)
	stream := c.call("1", "gated", `{"message":"x"}`, `{"progressToken":"tok"}`)
	stream.frame()
	id, _, _ := stream.asked()
	other := connect(t, w.url, "bob", "2025-11-25", canAsk)
	for name, r := range map[string]*response{
		"made up":       c.post(`{"jsonrpc":"2.0","id":"made-up","result":{"action":"accept","content":{"reason":"x"}}}`),
		"a number":      c.post(`{"jsonrpc":"2.0","id":7,"result":{"action":"accept","content":{"reason":"x"}}}`),
		"somebody else": other.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"action":"accept","content":{"reason":"x"}}}`, id)),
	} {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "not that of an elicitation of yours") {
			t.Errorf("%s: HTTP %d, %s, %v", name, r.StatusCode, body, err)
		}
	}
	if got := w.runs.answers(); len(got) != 0 {
		t.Errorf("taken: %+v", got)
	}
	c.reply(id, `{"action":"accept","content":{"reason":"fine"}}`)
	stream.result(false).structuredIs(t, `{"action":"accept","by":"user-ann"}`)
}

// An answer counts under the key of each question, for calls and tasks alike.
func TestAnswerToAnEarlierAsking(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(c *wire) string{
		"call": func(c *wire) string {
			m := c.modernCall("gated", `{}`, canAsk, "").result(false)
			say := func(key, answer string) *msg {
				return c.modernCall("gated", `{}`, canAsk, fmt.Sprintf(`"requestState":%q,"inputResponses":{%q:%s}`, m.Result.RequestState, key, answer)).result(false)
			}
			m = say("gate", `{"action":"accept","content":{}}`)
			if m.Result.InputRequests["gate#1.2"].Params.Message == "" {
				t.Fatalf("asked %+v", m.Result.InputRequests)
			}
			return string(say("gate", `{"action":"decline"}`).Result.Structured)
		},
		"task": func(c *wire) string {
			id := c.modernCall("gated", `{}`, takesTasks, "").ok().TaskID
			get := func() taskView { return c.modernTask("tasks/get", id, "").ok() }
			until(t, "input_required", get)
			c.modernTask("tasks/update", id, `"inputResponses":{"gate":{"action":"accept","content":{}}}`).ok()
			if got := get(); got.InputRequests["gate#1.2"] == nil {
				t.Fatalf("asked %s", got.InputRequests)
			}
			c.modernTask("tasks/update", id, `"inputResponses":{"gate":{"action":"decline"}}`).ok()
			var result struct{ StructuredContent json.RawMessage }
			if err := json.Unmarshal(until(t, "completed", get).Result, &result); err != nil {
				t.Error(err)
			}
			return string(result.StructuredContent)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]func(*play){"gated": gated})
			if got := answer(&wire{T: t, url: w.url, caller: "ann"}); got != `{"action":"decline","by":"user-ann"}` {
				t.Errorf("the call ends with %s", got)
			}
		})
	}
}

func TestPatience(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated}, func(o *gateway.Options) {
		o.Patience = time.Second
		o.RunURL = func(id runs.RunID) string { return "https://x.example/approvals/" + string(id) }
	})
	session := connect(t, w.url, "ann", "2025-06-18", `{}`)
	modern := &wire{T: t, url: w.url, caller: "ann"}
	for name, m := range map[string]*msg{
		"session": session.call("1", "gated", `{}`, "").result(false),
		"modern":  modern.modernCall("gated", `{}`, `{}`, "").result(false),
		"no SSE":  connect(t, w.url, "ann", "2025-06-18", canAsk).call("1", "gated", `{}`, "", "Accept", "application/json").result(false),
	} {
		var h struct {
			Status, RunID, Tool, ApprovalURL string
			Questions                        []struct{ Message string }
			Next                             struct{ Tool string }
		}
		perduretest.NoError(t, json.Unmarshal(m.Result.Structured, &h))
		if h.Status != "waiting_for_approval" || h.Tool != "gated" || h.Next.Tool != "perdure_run_await" || len(h.Questions) != 1 ||
			h.ApprovalURL != "https://x.example/approvals/"+h.RunID {
			t.Errorf("%s: handle is %s", name, m.Result.Structured)
		}
		if err := hasAll(m.text(), h.RunID, h.ApprovalURL, "perdure_run_await", "Write?", "Do not call gated again"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	w = newWorld(t, map[string]func(*play){"slow": func(p *play) {
		p.begin("a", "be_echo")
		<-p.f.ctx.Done()
	}}, func(o *gateway.Options) { o.Patience = time.Second })
	m := connect(t, w.url, "ann", "2025-06-18", `{}`).call("1", "slow", `{}`, "").result(false)
	if err := hasAll(string(m.Result.Structured), `"status":"running"`, `"running":["a"]`); err != nil {
		t.Error(err)
	}
}

func TestGateThatEndsBeforePatience(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"expires": func(p *play) {
		p.open(runs.Elicitation{StepID: "gate", Message: "Write?"})
		p.expire("gate#1")
		p.fail(runs.Failure{Error: runs.Error{Code: "gate_timeout", Category: "timeout", Message: "nobody answered in time", StepID: "gate"},
			Partial: map[runs.StepPath]json.RawMessage{"a": json.RawMessage(`{"n":12345678901234567890}`)}, Omitted: []runs.StepPath{"large", "call/b"}})
	}})
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	m := c.call("1", "expires", `{}`, "").result(true)
	if err := hasAll(m.text(), "gate", "nobody answered in time", string(w.runs.only(t))); err != nil {
		t.Error(err)
	}
	if len(m.Result.Structured) > 0 {
		t.Errorf("a failure has structured content %s", m.Result.Structured)
	}
	want := map[string]string{
		"perdure/error":   `{"code":"gate_timeout","category":"timeout","message":"nobody answered in time","stepId":"gate","retryable":false,"runId":"` + string(w.runs.only(t)) + `","step_id":"gate"}`,
		"perdure/partial": `{"a":{"n":12345678901234567890}}`,
		"perdure/omitted": `["large","call/b"]`,
		"perdure/run":     `{"id":"` + string(w.runs.only(t)) + `","status":"failed"}`,
	}
	got := map[string]string{}
	for k, v := range m.Result.Meta {
		got[k] = string(v)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("_meta (-want +got):\n%s", diff)
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	outputs := map[string]string{
		"exact":   `{"b":1.0,"a":12345678901234567890,"c":"<&>\u2028"}`,
		"nothing": `null`,
	}
	plays := map[string]func(*play){}
	for name, output := range outputs {
		plays[name] = func(p *play) { p.complete(output) }
	}
	w := newWorld(t, plays)
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	m := c.call("1", "exact", `{}`, "").result(false)
	m.structuredIs(t, outputs["exact"])
	if m.text() != outputs["exact"] {
		t.Errorf("text is %s", m.text())
	}
	m = c.call("2", "nothing", `{}`, "").result(false)
	if m.text() != "null" || m.Result.Structured != nil {
		t.Errorf("an output of null: text %q, structuredContent %s", m.text(), m.Result.Structured)
	}
}

func TestStreamsAreKeptAlive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"hang": func(p *play) {
		p.begin("a", "be_echo")
		<-p.f.ctx.Done()
	}}, func(o *gateway.Options) { o.KeepAlive = 2 * time.Millisecond })
	w.catalogue.call = func(ctx context.Context, _ backends.Call) (*backends.Result, error) {
		select {
		case <-ctx.Done():
		case <-t.Context().Done(): // the gateway lets it continue without its client
		}
		return nil, context.Canceled
	}
	session := connect(t, w.url, "ann", "2025-11-25", `{}`)
	modern := &wire{T: t, url: w.url, caller: "ann"}
	for name, stream := range map[string]*response{
		"a call":             session.call("1", "hang", `{}`, ""),
		"a modern call":      modern.modernCall("hang", `{}`, `{}`, ""),
		"a backend call":     session.call("2", "be_echo", `{}`, ""),
		"a standalone GET":   session.do(t.Context(), http.MethodGet, ""),
		"a subscription":     modern.modern("subscriptions/listen", "", `{}`, `"notifications":{"toolsListChanged":true}`),
		"a call of an older": connect(t, w.url, "ann", "2025-03-26", `{}`).call("1", "hang", `{}`, ""),
	} {
		if stream.Header.Get("X-Accel-Buffering") != "no" {
			t.Errorf("%s: nginx would buffer it", name)
		}
		for comments := 0; comments < 3; {
			f, ok := stream.frame()
			if !ok {
				t.Fatalf("%s: the stream ended", name)
			}
			if f.Comment {
				comments++
			}
		}
	}
	stream := session.call("3", "hang", `{}`, `{"progressToken":"p"}`)
	last := -1.0
	for range 5 { // one of them is of the step
		next := stream.progress()
		if next <= last {
			t.Errorf("progress %v follows %v", next, last)
		}
		last = next
	}
}

func TestHandleThatDoesNotFitTheOutputSchema(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated}, func(o *gateway.Options) { o.Patience = time.Nanosecond })
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	definition := simple("gated") + `
output: {properties: {word: {type: string, description: d, value: x}}%s}
`
	for required, isError := range map[string]bool{", required: [word]": true, "": false} {
		w.gateway.SetDefinitions(define(t, fmt.Sprintf(definition, required)))
		m := c.call(fmt.Sprintf("%q", required), "gated", `{}`, "").result(isError)
		if (len(m.Result.Structured) == 0) != isError {
			t.Errorf("required %q: structuredContent is %s", required, m.Result.Structured)
		}
		if err := hasAll(m.text(), "not an error", "perdure_run_await"); err != nil {
			t.Error(err)
		}
	}
}

// A client that cannot ask, or not this, is not kept waiting for a person: it gets
// a handle at once, which is no error and fits what the tool says of its results.
func TestHandleAtOnce(t *testing.T) {
	t.Parallel()
	const definition = `
name: gated
description: does it
parameters: {type: object, properties: {n: {type: integer}}}
steps:
  - {id: gate, type: elicitation, message: "Write?"}
  - {id: b, tool: be_echo, dependsOn: [gate]}
output:
  properties:
    digest: {type: string, description: what came of it, value: x}
    status: {type: integer, description: a number, value: 7}
  required: [digest, status]
`
	questions := map[string]runs.Elicitation{
		"for the caller":  {StepID: "gate", Message: "Write?"},
		"for operators":   {StepID: "gate", Message: "Write?", Kind: runs.Reconciliation},
		"for an approver": {StepID: "gate", Message: "Write?", Approvers: []string{"bob"}},
		"for the page":    {StepID: "gate", Message: "Write?", Mode: "url"},
	}
	for name, question := range questions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]func(*play){"gated": func(p *play) {
				p.begin("a", "be_echo")
				p.open(question)
				p.answered("gate#1")
				p.complete(`{"digest":"sha","status":7}`)
			}}, func(o *gateway.Options) { o.Patience = time.Hour })
			w.gateway.SetDefinitions(define(t, definition))
			cannot := connect(t, w.url, "ann", "2025-11-25", `{}`)
			modern := &wire{T: t, url: w.url, caller: "ann"}
			clients := map[string]*response{
				"session": cannot.call("1", "gated", `{"n":1}`, ""),
				"modern":  modern.modernCall("gated", `{"n":2}`, `{}`, ""),
			}
			if name != "for the caller" {
				clients["session that can ask"] = connect(t, w.url, "ann", "2025-11-25", canAsk).call("1", "gated", `{"n":3}`, "")
				clients["modern that can ask"] = modern.modernCall("gated", `{"n":4}`, canAsk, "")
			}
			list := cannot.post(`{"jsonrpc":"2.0","id":9,"method":"tools/list"}`).message()
			fits := publishedSchema(t, list, "gated")
			for client, resp := range clients {
				m := resp.result(false)
				if err := hasAll(string(m.Result.Structured), `"status":"waiting_for_approval"`, `"running":["a"]`, `"message":"Write?"`); err != nil {
					t.Errorf("%s: %v", client, err)
				}
				if !fits(m.Result.Structured) {
					t.Errorf("%s: the handle does not fit the output schema: %s", client, m.Result.Structured)
				}
			}
			for value, want := range map[string]bool{
				`{"digest":"sha","status":7}`: true, `{"digest":"sha"}`: false, `{"digest":"sha","status":"running"}`: false,
				`{}`: false, `{"digest":7,"status":7}`: false, `{"status":"running","runId":"x/y","tool":"x"}`: true,
			} {
				if fits(json.RawMessage(value)) != want {
					t.Errorf("%s fits: %v, want %v", value, !want, want)
				}
			}
		})
	}
}

// A client that cannot ask waits for a gate that expires before its patience ends:
// it gets the result, and no handle.
func TestNoHandleWhereTheGateExpiresSoon(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": func(p *play) {
		p.open(runs.Elicitation{StepID: "gate", Message: "Write?", Expires: time.Now().Add(time.Minute)})
		p.expire("gate#1")
		p.complete(`{"late":true}`)
	}}, func(o *gateway.Options) { o.Patience = time.Hour })
	m := connect(t, w.url, "ann", "2025-11-25", `{}`).call("1", "gated", `{}`, "").result(false)
	if err := hasAll(string(m.Result.Structured), `"late":true`); err != nil {
		t.Error(err)
	}
}

// publishedSchema is the output schema that a list of tools has for the named tool.
func publishedSchema(t *testing.T, list *msg, tool string) func(json.RawMessage) bool {
	t.Helper()
	for _, listed := range list.Result.Tools {
		if listed.Name == tool {
			schema, err := definitions.CompileSchema(listed.OutputSchema)
			if err != nil {
				t.Fatalf("%v in %s", err, listed.OutputSchema)
			}
			var top struct{ Type string }
			if err := json.Unmarshal(listed.OutputSchema, &top); err != nil || top.Type != "object" {
				t.Errorf("the output schema is not of an object: %s", listed.OutputSchema)
			}
			return schema.Accepts
		}
	}
	t.Fatalf("%s is not among the tools: %+v", tool, list.Result)
	return nil
}

func TestRunsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated})
	var back atomic.Bool
	w.runs.getErr = func() error { return runs.ErrUnavailable }
	w.runs.answerErr = func() error {
		if back.Load() {
			return nil
		}
		return runs.ErrUnavailable
	}
	c := connect(t, w.url, "ann", "2025-11-25", canAsk)
	stream := c.call("1", "gated", `{}`, "")
	id, _, _ := stream.asked() // from the event alone, which is enough for its answer as well
	if got := c.reply(id, `{"action":"cancel"}`); got != http.StatusServiceUnavailable {
		t.Errorf("an answer that cannot be sent: HTTP %d", got)
	}
	back.Store(true)
	c.reply(id, `{"action":"cancel"}`)
	stream.result(false).structuredIs(t, `{"action":"cancel","by":"user-ann"}`)
}

func TestResumeOfARunThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated})
	var gone atomic.Bool
	w.runs.getErr = func() error {
		if gone.Load() {
			return runs.ErrNotFound
		}
		return nil
	}
	c := connect(t, w.url, "ann", "2025-11-25", canAsk)
	stream := c.call("1", "gated", `{}`, "")
	stream.asked()
	gone.Store(true)
	m := c.do(t.Context(), http.MethodGet, "", "Last-Event-ID", stream.lastID).result(true)
	if err := hasAll(m.text(), "no such run"); err != nil {
		t.Error(err)
	}
}
