package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/runs"
)

// reports has the backends of steps under way tell something.
func (p *play) reports(steps ...runs.StepProgress) {
	p.f.change(func() { p.run().progress = steps })
}

// until reads progress until a message says something, and gives how far it
// was. Whatever comes on the way must increase.
func (r *response) until(message string) float64 {
	r.Helper()
	last := -1.0
	for {
		m := r.message()
		var p struct {
			Progress float64
			Message  string
		}
		if m.Method != "notifications/progress" || json.Unmarshal(m.Params, &p) != nil {
			r.Fatalf("waiting for %q: %s %s", message, m.Method, m.Params)
		}
		if p.Progress <= last {
			r.Errorf("progress %v comes after %v", p.Progress, last)
		}
		last = p.Progress
		if strings.Contains(p.Message, message) {
			return last
		}
	}
}

// The progress that backends report for steps under way reaches clients that want
// progress, of both eras, and at the replica to which they come back.
func TestBackendProgress(t *testing.T) {
	t.Parallel()
	upload := runs.StepProgress{StepPath: "upload[3]", Progress: 3, Total: 7, Message: "part three"}
	w := newWorld(t, map[string]func(*play){"slow": func(p *play) {
		p.begin("upload[3]", "be_upload")
		p.reports(runs.StepProgress{}, upload, runs.StepProgress{StepPath: "silent"})
		p.answered("never#1") // the run continues until the test ends
	}})

	modern := (&wire{T: t, url: w.url, caller: "ann"}).modernCall("slow", `{}`, `{}`, "")
	modern.until("upload[3]: part three (3 of 7)")

	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	stream := c.call("1", "slow", `{}`, `{"progressToken":"t"}`)
	last := stream.until("upload[3]: part three (3 of 7)")
	stream.Body.Close()

	_, c.url = w.replica()
	w.runs.change(func() {
		for _, r := range w.runs.runs {
			r.progress = []runs.StepProgress{{StepPath: "upload[3]", Progress: 4, Message: "part four"}}
		}
	})
	resumed := c.do(t.Context(), http.MethodGet, "", "Last-Event-ID", stream.lastID)
	if next := resumed.until("upload[3]: part four (4)"); next <= last {
		t.Errorf("progress %v comes after %v on the stream before", next, last)
	}
}

// Clients get the count of a script, also between two counts and after the last.
func TestScriptProgress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"slow": func(p *play) {
		said := func(text string, done, total float64) {
			p.f.change(func() {
				p.run().add(runs.Event{Kind: runs.EventSaid, StepPath: "script/main:1", What: text, Done: done, Total: total, ByScript: true})
			})
		}
		said("begins", 0, 0)
		said("one (1 of 4)", 1, 4)
		said("goes on", 1, 4)
		said("4 of 4", 4, 4)
		said("tidies up", 4, 4)
		p.complete(`{}`)
	}})
	stream := connect(t, w.url, "ann", "2025-11-25", `{}`).call("1", "slow", `{}`, `{"progressToken":"t"}`)
	id := w.runs.only(t)
	for _, want := range []struct{ progress, counted string }{
		{`"progress":0,"message":"begins"`, ``},
		{`"progress":1,"total":4,"message":"one (1 of 4)"`, `,"progress":1,"total":4`},
		{`"progress":1.000004,"total":4,"message":"goes on"`, `,"progress":1,"total":4`},
		{`"progress":4,"total":4,"message":"4 of 4"`, `,"progress":4,"total":4`},
		{`"progress":4.000004,"message":"tidies up"`, `,"progress":4,"total":4`},
	} {
		_, text, _ := strings.Cut(want.progress, `"message":`)
		whole := fmt.Sprintf(`{"progressToken":"t",%s,"_meta":{"perdure/run":{"id":%q,"status":"running"},"perdure/step":{"path":"script/main:1","status":"says","what":%s%s}}}`,
			want.progress, id, text, want.counted)
		if m := stream.message(); string(m.Params) != whole {
			t.Errorf("%s %s, want %s", m.Method, m.Params, whole)
		}
	}
	stream.result(false)
}

// A client that wants no progress costs no look.
func TestNoProgressWanted(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	w := newWorld(t, map[string]func(*play){"slow": func(p *play) {
		p.begin("a", "be_a")
		p.reports(runs.StepProgress{StepPath: "a", Progress: 1})
		<-release
		p.complete(`{}`)
	}})
	quiet := connect(t, w.url, "ann", "2025-11-25", `{}`).call("1", "slow", `{}`, "")
	loud := connect(t, w.url, "bob", "2025-11-25", `{}`).call("1", "slow", `{}`, `{"progressToken":1}`)
	loud.until("a: 1")
	close(release)
	quiet.result(false)
	w.runs.mu.Lock()
	defer w.runs.mu.Unlock()
	for id, r := range w.runs.runs {
		if looked := w.runs.looks[id] > 0; looked != (r.run.Caller == "user-bob") {
			t.Errorf("looked after the run of %s: %t", r.run.Caller, looked)
		}
	}
}

// A client that cannot ask learns which step of which run asks, and how to answer each
// of several questions.
func TestTellsWhichStepAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"slow": func(p *play) {
		p.open(
			runs.Elicitation{ID: "script/main:5[0]/ask:3#1", StepID: "script", StepPath: "script/main:5[0]/ask:3", Message: "Write?"},
			runs.Elicitation{ID: "script/main:5[1]/ask:3#1", StepID: "script", StepPath: "script/main:5[1]/ask:3", Message: "Write?"},
		)
	}}, func(o *gateway.Options) { o.Patience = -1 })
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	stream := c.call("1", "slow", `{}`, `{"progressToken":"t"}`)
	id := string(w.runs.only(t))
	for _, path := range []string{"script/main:5[0]/ask:3", "script/main:5[1]/ask:3"} {
		m := stream.message()
		if err := hasAll(string(m.Params), "waiting for an answer: Write?", `"perdure/run":{"id":"`+id+`"`, `"perdure/step":{"path":"`+path+`","status":"waiting","what":"Write?"`); err != nil {
			t.Errorf("%s: %v", m.Params, err)
		}
	}
	m := c.call("2", "perdure_run_await", fmt.Sprintf(`{"runId":%q,"waitSeconds":0}`, id), "").result(false)
	if err := hasAll(m.text(), "perdure runs answer "+id+" --step 'script/main:5[0]/ask:3' --accept (steps with an open elicitation: script/main:5[0]/ask:3, script/main:5[1]/ask:3)"); err != nil {
		t.Error(err)
	}
	if err := hasAll(string(m.Result.Structured), `"stepPath":"script/main:5[1]/ask:3"`); err != nil {
		t.Error(err)
	}
}

// Programs that follow a call get the same facts of each step as people: how it ended and
// when, which attempt is under way and why, and what an answer was.
func TestStepsForPrograms(t *testing.T) {
	t.Parallel()
	looked := make(chan struct{})
	began := time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)
	w := newWorld(t, map[string]func(*play){"slow": func(p *play) {
		add := func(e runs.Event) { p.f.change(func() { p.run().add(e) }) }
		add(runs.Event{Kind: runs.EventStep, StepPath: "a", What: "be_a", StepStarted: began, Activity: "5"})
		p.reports(runs.StepProgress{Activity: "5", Attempt: 2, Failure: "no room"}, runs.StepProgress{Activity: "6", Attempt: 3, Failure: "of another"})
		<-looked
		add(runs.Event{Kind: runs.EventStep, StepPath: "a", What: "be_a", StepStarted: began, At: began.Add(time.Second), StepEnded: true, StepStatus: "failed", StepError: "no room"})
		e := runs.Elicitation{ID: "ask#1", StepPath: "ask", Message: "Write?", State: "answered", Action: "decline", Opened: began}
		add(runs.Event{Kind: runs.EventClosed, Elicitation: &e, At: began.Add(time.Minute)})
		add(runs.Event{Kind: runs.EventStep, StepPath: "b", StepEnded: true, StepStatus: "skipped", StepError: "no need", At: began.Add(time.Minute), Done: 2, Total: 2})
		add(runs.Event{Kind: runs.EventStep, StepPath: "c", StepEnded: true, StepStatus: "skipped", StepError: "no need", At: began.Add(time.Minute), Done: 2, Total: 2})
		p.complete(`{}`)
	}})
	stream := connect(t, w.url, "ann", "2025-11-25", `{}`).call("1", "slow", `{}`, `{"progressToken":"t"}`)
	for i, want := range []string{
		`"message":"a: be_a","_meta":%s"perdure/step":{"path":"a","status":"running","what":"be_a","started":"2026-11-24T09:00:00Z"}}}`,
		`"message":"a: attempt 2, since the one before failed: no room","_meta":%s"perdure/step":{"path":"a","status":"running","error":"no room","attempt":2}}}`,
		`"message":"a: failed","_meta":%s"perdure/step":{"path":"a","status":"failed","what":"be_a","error":"no room","started":"2026-11-24T09:00:00Z","ended":"2026-11-24T09:00:01Z"}}}`,
		`"message":"ask: declined","_meta":%s"perdure/step":{"path":"ask","status":"completed","what":"declined","started":"2026-11-24T09:00:00Z","ended":"2026-11-24T09:01:00Z"}}}`,
		`"progress":2,"total":2,"message":"b: skipped: no need","_meta":%s"perdure/step":{"path":"b","status":"skipped","error":"no need"}}}`,
		`"progress":2.5,"message":"c: skipped: no need","_meta":%s"perdure/step":{"path":"c","status":"skipped","error":"no need"}}}`, // beyond the total
	} {
		want = fmt.Sprintf(want, fmt.Sprintf(`{"perdure/run":{"id":%q,"status":"running"},`, w.runs.only(t)))
		if m := stream.message(); !strings.HasSuffix(string(m.Params), want) {
			t.Errorf("%s, want %s", m.Params, want)
		}
		if i == 1 {
			close(looked)
		}
	}
	stream.result(false)
}
