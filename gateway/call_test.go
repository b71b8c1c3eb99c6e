package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
)

func echoed(p *play) { p.complete(p.arguments()) }

func TestArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"echoed": echoed})
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	m := c.call("1", "echoed", `{"message":7,"n":"x"}`, "").result(true)
	if err := hasAll(m.text(), "message", "n", "Correct the arguments"); err != nil {
		t.Error(err)
	}
	if w.runs.starts != 0 {
		t.Error("a run was started with wrong arguments")
	}
	c.call("2", "echoed", `{"message":"m","extra":12345678901234567890}`, "").result(false).
		structuredIs(t, `{"extra":12345678901234567890,"message":"m","n":1}`)
	req := w.runs.snapshot(w.runs.only(t)).req
	if req.Caller.Subject != "user-ann" || req.Caller.Client != "wire/1" || req.Tools["be_echo"].Original != "echo" {
		t.Errorf("the run was started with %+v", req)
	}
}

func TestTheSameCallIsTheSameRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"echoed": echoed})
	_, second := w.replica()
	ann := connect(t, w.url, "ann", "2025-11-25", `{}`)
	id := func(m *msg) string {
		var run struct {
			ID       string
			Attached bool
		}
		perduretest.NoError(t, json.Unmarshal(m.Result.Meta["perdure/run"], &run))
		return fmt.Sprint(run.ID, " ", run.Attached)
	}
	first := id(ann.call("1", "echoed", `{"message":"a"}`, "").result(false))
	run, _, _ := strings.Cut(first, " ")
	ann.url = second
	if got := id(ann.call("1", "echoed", `{"message":"a","n":1}`, "").result(false)); got != run+" true" {
		t.Errorf("repeated by the transport: %s, want %s", got, run)
	}
	if got := id(ann.call("1", "echoed", `{"message":"b"}`, "").result(false)); strings.HasPrefix(got, run+" ") {
		t.Error("another call with the id of an old one got the old result")
	}
	if got := id(ann.call("2", "echoed", `{"message":"a"}`, "").result(false)); strings.HasPrefix(got, run+" ") {
		t.Error("a new call joined an old run")
	}

	keyed := func(c *wire, id, message string) *msg {
		return c.call(id, "echoed", `{"message":"`+message+`"}`, `{"perdure/idempotency-key":"k"}`).next()
	}
	run, _, _ = strings.Cut(id(keyed(ann, "3", "a")), " ")
	if got := id(keyed(ann, "4", "a")); got != run+" true" {
		t.Errorf("repeated by key: %s, want %s", got, run)
	}
	if m := keyed(ann, "5", "other"); !m.Result.IsError || !strings.Contains(m.text(), "idempotency key") {
		t.Errorf("a key was used for two calls: %s", m.text())
	}
	bob := connect(t, w.url, "bob", "2025-11-25", `{}`)
	if got := id(keyed(bob, "3", "a")); strings.HasPrefix(got, run+" ") {
		t.Error("somebody else's key gave the run away")
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	hang := func(p *play) {
		p.begin("a", "be_echo")
		<-p.f.ctx.Done()
	}
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":%q}}`
	for name, tt := range map[string]struct {
		reason string
		where  string // the replica that hears of it
		drop   bool   // the stream, before
		want   string
		then   definitions.OnDisconnect
	}{
		"here":                        {"the user gave up", "here", false, "cancelled", ""},
		"at another replica":          {"the user gave up", "there", false, "cancelled", ""},
		"after the stream broke":      {"the user gave up", "here", true, "cancelled", ""},
		"a reason that tells of time": {"the user says: the deploy timed out, timeout, stop it", "here", false, "cancelled", ""},
		"the timeout of a library":    {"McpError: MCP error -32001: Request timed out", "here", true, "cancelled", ""},
		"a deadline":                  {"context deadline exceeded", "there", true, "cancelled", ""},
		"no reason":                   {"", "there", true, "cancelled", ""},
		"the definition goes on":      {"the user gave up", "here", false, "running", definitions.ContinueRun},
		"it goes on elsewhere":        {"the user gave up", "there", true, "running", definitions.ContinueRun},
		"a dropped connection is not": {"", "", true, "running", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]func(*play){"hang": hang, "other": hang}, func(o *gateway.Options) { o.OnDisconnect = tt.then })
			_, there := w.replica()
			c := connect(t, w.url, "ann", "2025-11-25", `{}`)
			ctx, drop := context.WithCancel(t.Context())
			defer drop()
			stream := c.do(ctx, http.MethodPost, callBody("1", "hang", `{}`, `{"progressToken":1}`))
			stream.progress()
			run := w.runs.only(t)
			if tt.drop {
				drop()
			}
			if tt.where == "there" {
				c.url = there
			}
			if tt.where != "" {
				if got := c.post(fmt.Sprintf(cancel, tt.reason)); got.StatusCode != http.StatusAccepted {
					t.Errorf("HTTP %d", got.StatusCode)
				}
			}
			if tt.want == "cancelled" {
				w.runs.wait(t.Context(), func() bool { return w.runs.runs[run].stopped })
				if !tt.drop {
					if m := stream.result(true); !strings.Contains(m.text(), "cancelled by the client") {
						t.Errorf("result: %s", m.text())
					}
				}
				return
			}
			if got := w.runs.snapshot(run).run.Status; string(got) != tt.want {
				t.Errorf("the run is %s", got)
			}
		})
	}
}

// At a replica that did not start the run, its own definition counts, and not what the
// replica offers by the name: nothing for a script that was sent, or another version.
func TestCancelElsewhereAsTheRunSays(t *testing.T) {
	t.Parallel()
	const says = "\nonDisconnect: "
	for name, tt := range map[string]struct {
		tool      string
		here      string // what the definition says of the replica that starts the run
		there     string // and of the one that hears of the cancel; "none" = it has no such tool
		config    definitions.OnDisconnect
		cancelled bool
	}{
		"a script continues":                 {"execute_tool_script", "", "", definitions.ContinueRun, false},
		"a script is cancelled":              {"execute_tool_script", "", "", "", true},
		"the version before continues":       {"hang", says + "continue", says + "cancel", "", false},
		"the version before is cancelled":    {"hang", says + "cancel", says + "continue", "", true},
		"one that is gone continues":         {"hang", says + "continue", "none", "", false},
		"one that is gone, as configured":    {"hang", "", "none", definitions.ContinueRun, false},
		"one that is gone, said differently": {"hang", says + "cancel", "none", definitions.ContinueRun, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]func(*play){tt.tool: hanging}, sendsScripts, func(o *gateway.Options) { o.OnDisconnect, o.Policy = tt.config, nil })
			g, there := w.replica()
			arguments := scriptCall(t, `return be_echo()`, nil)
			if tt.tool == "hang" {
				arguments = `{}`
				w.gateway.SetDefinitions(define(t, simple("hang")+tt.here))
				g.SetDefinitions(nil)
				if tt.there != "none" {
					g.SetDefinitions(define(t, simple("hang")+tt.there))
				}
			}
			c := connect(t, w.url, "ann", "2025-11-25", `{}`)
			c.call("1", tt.tool, arguments, `{"progressToken":1}`).progress()
			run := w.runs.only(t)
			c.url = there
			c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
			if tt.cancelled {
				w.runs.wait(t.Context(), func() bool { return w.runs.runs[run].stopped })
				return
			}
			w.runs.wait(t.Context(), func() bool { return w.runs.shown[run] > 0 }) // it has decided
			if got := w.runs.snapshot(run).run.Status; got != runs.Running {
				t.Errorf("the run is %s", got)
			}
		})
	}
}

// For a call that finds a run by its key, the definition of the run counts, and not what the
// gateway offers by the name since.
func TestCancelOfASharedRunAsItSays(t *testing.T) {
	t.Parallel()
	for says, since := range map[string]string{"continue": "cancel", "cancel": "continue"} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]func(*play){"hang": hanging})
			c := connect(t, w.url, "ann", "2025-11-25", `{}`)
			for id, now := range []string{says, since} {
				w.gateway.SetDefinitions(define(t, simple("hang")+"\nonDisconnect: "+now))
				c.call(fmt.Sprint(id), "hang", `{}`, `{"perdure/idempotency-key":"k","progressToken":1}`).progress()
			}
			run := w.runs.only(t)
			c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
			if says == "cancel" {
				w.runs.wait(t.Context(), func() bool { return w.runs.runs[run].stopped })
			} else if got := w.runs.snapshot(run).run.Status; got != runs.Running {
				t.Errorf("the run is %s", got)
			}
		})
	}
}

// The last caller to find a run by its key can cancel it, also at another replica.
func TestCancelOfASharedRun(t *testing.T) {
	t.Parallel()
	for _, last := range []string{"1", "2"} {
		t.Run("call "+last, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]func(*play){"hang": hanging})
			c := connect(t, w.url, "ann", "2025-11-25", `{}`)
			turn := turns(w, c)
			for id := 1; fmt.Sprint(id) <= last; id++ {
				turn()
				c.call(fmt.Sprint(id), "hang", `{}`, `{"perdure/idempotency-key":"k","progressToken":1}`).progress()
			}
			run := w.runs.only(t)
			w.runs.change(func() { w.runs.late = true }) // the index does not know it at once
			turn()
			turn() // not where the call is, if there was one
			if last == "1" {
				turn()
			}
			c.post(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, last))
			w.runs.change(func() { w.runs.late = false })
			w.runs.wait(t.Context(), func() bool { return w.runs.runs[run].stopped })
		})
	}
}

// A cancel that another replica hears of before the call has started its run ends
// the run all the same.
func TestCancelBeforeTheRunStarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"hang": hanging})
	_, there := w.replica()
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	here := c.url
	c.url = there
	c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	c.url = here
	c.call("1", "hang", `{}`, `{"progressToken":1}`).progress()
	run := w.runs.only(t)
	w.runs.wait(t.Context(), func() bool { return w.runs.runs[run].stopped })
}

func TestCancelledWaitLeavesTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated})
	c := connect(t, w.url, "ann", "2025-11-25", canAsk)
	first := c.call("1", "gated", `{}`, "")
	question, _, _ := first.asked()
	waiting := c.call("2", "perdure_run_await", fmt.Sprintf(`{"runId":%q}`, w.runs.only(t)), "")
	waiting.asked()
	c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"the user gave up"}}`)
	if f, ok := waiting.frame(); ok {
		t.Errorf("the cancelled wait went on: %s", f.Data)
	}
	c.reply(question, `{"action":"decline"}`)
	first.result(false).structuredIs(t, `{"action":"decline","by":"user-ann"}`)
}

func TestModernCancelDoesNotReachOthers(t *testing.T) {
	t.Parallel()
	release := make(chan bool)
	w := newWorld(t, map[string]func(*play){"waits": func(p *play) {
		p.begin("a", "be_echo")
		<-release
		p.complete(`{}`)
	}})
	c := &wire{T: t, url: w.url, caller: "ann"}
	stream := c.modernCall("waits", `{}`, `{}`, "")
	stream.progress()
	serial := requestSerial.Load()
	for id := serial - 20; id <= serial; id++ {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, id)
		c.post(body, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "notifications/cancelled", "X-Caller", "mallory")
	}
	close(release)
	stream.result(false)
}

func TestRunTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated}, func(o *gateway.Options) { o.Patience = 0 })
	ann := connect(t, w.url, "ann", "2025-11-25", `{}`)
	bob := connect(t, w.url, "bob", "2025-11-25", `{}`)
	asking := connect(t, w.url, "ann", "2025-11-25", canAsk)
	first := asking.call("1", "gated", `{}`, "")
	question, _, _ := first.asked()
	run := w.runs.only(t)
	of := func(id runs.RunID) string { return fmt.Sprintf(`{"runId":%q,"waitSeconds":0}`, id) }

	m := ann.call("2", "perdure_run_await", of(run), "").result(false)
	if err := hasAll(string(m.Result.Structured), "waiting_for_approval", "Write?"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"perdure_run_await", "perdure_run_cancel"} {
		args := fmt.Sprintf(`{"runId":%q}`, run)
		if m := bob.call(`"`+name+`"`, name, args, "").result(true); !strings.Contains(m.text(), "no such run of yours") {
			t.Errorf("somebody else's run, %s: %s", name, m.text())
		}
		for i, bad := range []string{`{}`, `{"runId":5}`, `{"runId":"x/y"}`, `{"runId":"x/y","answer":"accept"}`} {
			ann.call(fmt.Sprintf(`"%s %d"`, name, i), name, bad, "").result(true)
		}
	}
	ann.call("20", "perdure_run_await", fmt.Sprintf(`{"runId":%q,"waitSeconds":56}`, run), "").result(true)

	m = bob.call("3", "perdure_run_list", `{}`, "").result(false)
	m.structuredIs(t, `{"runs":[]}`)
	m = ann.call("3", "perdure_run_list", `{"tool":"gated"}`, "").result(false)
	if err := hasAll(string(m.Result.Structured), string(run), `"waitingFor":[{"stepId":"gate","message":"Write?"}]`); err != nil {
		t.Error(err)
	}

	// The client that waits for a run is asked as well, if it can be.
	awaiting := asking.call("4", "perdure_run_await", fmt.Sprintf(`{"runId":%q}`, run), "")
	again, _, _ := awaiting.asked()
	if again == question {
		t.Error("two questions of a session have the same id")
	}
	asking.reply(again, `{"action":"decline"}`)
	awaiting.result(false).structuredIs(t, `{"action":"decline","by":"user-ann"}`)
	if m := first.next(); m.Method != "notifications/cancelled" {
		t.Errorf("the first question was not withdrawn: %+v", m)
	}
	first.result(false)
	ann.call("5", "perdure_run_await", of(run), "").result(false).structuredIs(t, `{"action":"decline","by":"user-ann"}`)
	if m := ann.call("6", "perdure_run_cancel", fmt.Sprintf(`{"runId":%q}`, run), "").result(true); !strings.Contains(m.text(), "already ended") {
		t.Errorf("cancelling what has ended: %s", m.text())
	}
}

func TestRunCancelTool(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated})
	c := connect(t, w.url, "ann", "2025-11-25", canAsk)
	stream := c.call("1", "gated", `{}`, "")
	stream.asked()
	run := w.runs.only(t)
	c.call("2", "perdure_run_cancel", fmt.Sprintf(`{"runId":%q,"reason":"not any more"}`, run), "").result(false).
		structuredIs(t, fmt.Sprintf(`{"runId":%q,"status":"cancelling"}`, run))
	if m := stream.next(); m.Method != "notifications/cancelled" {
		t.Errorf("the question was not withdrawn: %+v", m)
	}
	if m := stream.result(true); !strings.Contains(m.text(), "not any more") {
		t.Errorf("result: %s", m.text())
	}
}

func TestTroubleWithRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"echoed": echoed})
	w.runs.startErr = func() error { return fmt.Errorf("starting: %w", runs.ErrUnavailable) }
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	m := c.call("1", "echoed", `{}`, "").result(true)
	if err := hasAll(string(m.Result.Meta["perdure/error"]), `"code":"unavailable"`, `"retryable":true`); err != nil {
		t.Error(err)
	}
}

// TestBackendThatHasNotAnswered starts a gateway while a backend is unavailable:
// composite tools stay listed and, like the backend's own, report that it is
// unavailable; a call that is repeated with its key finds its run; and other tools do
// not exist.
func TestBackendThatHasNotAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"echoed": echoed})
	const meta = `{"perdure/idempotency-key":"k"}`
	before := connect(t, w.url, "ann", "2025-11-25", `{}`).call("1", "echoed", `{"message":"m"}`, meta).result(false)

	w.catalogue.unseen = "be"
	w.catalogue.set()
	_, w.url = w.replica()
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	if _, there := listed(t, w)["echoed"]; !there {
		t.Error("the composite tool is not listed")
	}
	if again := c.call("1", "echoed", `{"message":"m"}`, meta).result(false); again.text() != before.text() {
		t.Errorf("repeated: %s, and before %s", again.text(), before.text())
	}
	for i, name := range []string{"echoed", "be_echo"} {
		m := c.call(fmt.Sprint(i+2), name, `{"message":"m"}`, "").result(true)
		if err := hasAll(string(m.Result.Meta["perdure/error"]), `"code":"backend_unavailable"`, `"category":"tool"`, `"retryable":true`, "backend be has not answered"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if m := c.call("4", "other_echo", `{}`, "").next(); m.Error == nil || m.Error.Code != -32602 {
		t.Errorf("a tool that is not there: %+v", m)
	}
	n := 0
	if w.runs.change(func() { n = len(w.runs.runs) }); n != 1 {
		t.Errorf("%d runs were started", n)
	}
}

// TestBackendAnswersTheCall has a backend list its tools only once a caller has left
// credentials: the call that brings them is made.
func TestBackendAnswersTheCall(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ tool, meta, want string }{
		"composite tool":        {"echoed", "", `"message":"m"`},
		"dry run":               {"echoed", `{"perdure/dry-run":true}`, "be_echo"},
		"tool of a backend":     {"be_echo", "", "direct"},
		"tool it comes without": {"be_other", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			creds := &fakeCredentials{good: "good"}
			w := newWorld(t, map[string]func(*play){"echoed": echoed}, withTokens(creds))
			w.catalogue.call = func(context.Context, backends.Call) (*backends.Result, error) {
				return &backends.Result{Raw: json.RawMessage(`{"content":[{"type":"text","text":"direct"}]}`)}, nil
			}
			w.catalogue.comes = func() {
				if !slices.Contains(creds.seen(), "user-ann good be") {
					t.Errorf("the backend is awaited before its credentials are left: %q", creds.seen())
				}
				w.catalogue.mu.Lock()
				w.catalogue.unseen = ""
				w.catalogue.mu.Unlock()
				w.catalogue.set(tool("echo"))
			}
			w.catalogue.unseen = "be"
			w.catalogue.set()
			_, w.url = w.replica()
			m := connect(t, w.url, "ann", "2025-11-25", `{}`).call("1", tc.tool, `{"message":"m"}`, tc.meta, "X-Token", "good")
			if tc.want == "" {
				if _, code := m.answer(); code != -32602 {
					t.Errorf("the answer is %d", code)
				}
				return
			}
			if got := m.result(false).text(); !strings.Contains(got, tc.want) {
				t.Errorf("the result is %q", got)
			}
		})
	}
}

// TestAttackPanicInACall: a fault of ours ends the call, and nothing else.
func TestAttackPanicInACall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"echoed": echoed})
	w.runs.startErr = func() error { panic("a fault") }
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	if _, code := c.call("1", "echoed", `{}`, "").answer(); code != -32603 {
		t.Errorf("the answer is %d", code)
	}
	w.runs.startErr = nil
	c.call("2", "echoed", `{"message":"m"}`, "").result(false)
}

// TestAttackStartThatIsNotKnown loses the answer to a start. Only a call that would
// find its run gets the advice to call again.
func TestAttackStartThatIsNotKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"echoed": echoed})
	w.runs.startErr = func() error { return fmt.Errorf("%w: starting: %w", runs.ErrMayHaveStarted, runs.ErrUnavailable) }
	for _, tc := range []struct{ version, meta, code, retryable string }{
		{"2025-11-25", "", `"code":"start_unknown"`, ""},
		{"2025-11-25", `{"perdure/idempotency-key":"k"}`, `"code":"unavailable"`, `"retryable":true`},
	} {
		c := connect(t, w.url, "ann", tc.version, `{}`)
		failed := string(c.call("1", "echoed", `{}`, tc.meta).result(true).Result.Meta["perdure/error"])
		if err := hasAll(failed, tc.code, tc.retryable); err != nil {
			t.Error(err)
		}
		if tc.retryable == "" && strings.Contains(failed, `"retryable":true`) {
			t.Errorf("%s: %s", tc.version, failed)
		}
	}
}

// TestAttackStartThatStoodStill has the time of a start be over in whatever it did. A
// client of 2026-07-28 finds its run by calling again, and is told so.
func TestAttackStartThatStoodStill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"echoed": echoed}, func(o *gateway.Options) { o.ReattachWindow = time.Minute })
	w.runs.startErr = func() error { return context.DeadlineExceeded }
	c := &wire{T: t, url: w.url, caller: "ann"}
	failed := string(c.modernCall("echoed", `{}`, `{}`, "").result(true).Result.Meta["perdure/error"])
	if err := hasAll(failed, `"code":"unavailable"`, `"retryable":true`); err != nil {
		t.Error(err)
	}
}

// TestAttackStartThatCannotBeCompared sends a request again while its run cannot be
// read. The run may be under way, so only a call with a key gets the advice to call again.
func TestAttackStartThatCannotBeCompared(t *testing.T) {
	t.Parallel()
	for meta, want := range map[string][]string{
		"":                                {`"code":"start_unknown"`, `"retryable":false`},
		`{"perdure/idempotency-key":"k"}`: {`"code":"unavailable"`, `"retryable":true`},
	} {
		w := newWorld(t, map[string]func(*play){"echoed": echoed})
		c := connect(t, w.url, "ann", "2025-11-25", `{}`)
		c.call("1", "echoed", `{}`, meta).result(false)
		w.runs.getErr = func() error { return fmt.Errorf("reading: %w", runs.ErrUnavailable) }
		failed := string(c.call("1", "echoed", `{}`, meta).result(true).Result.Meta["perdure/error"])
		if err := hasAll(failed, want...); err != nil {
			t.Errorf("with %q: %v", meta, err)
		}
	}
}

// TestCallsAtOnce has two replicas get one call with a key at the same time, again
// and again: there is one run each time.
func TestCallsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated}, func(o *gateway.Options) { o.Patience = time.Nanosecond })
	_, there := w.replica()
	for round := range 8 {
		ids := make(chan runs.RunID, 6)
		for i := range 6 {
			go func() {
				c := &wire{T: t, url: []string{w.url, there}[i%2], caller: "ann"}
				s := connect(t, c.url, "ann", "2025-11-25", `{}`)
				ids <- s.call("1", "gated", `{}`, fmt.Sprintf(`{"perdure/idempotency-key":"%d"}`, round)).result(false).run().ID
			}()
		}
		run := <-ids
		for range 5 {
			if other := <-ids; other != run {
				t.Errorf("round %d: runs %s and %s", round, run, other)
			}
		}
		w.runs.wait(t.Context(), func() bool { return len(w.runs.runs[run].run.Elicitations) > 0 })
		if _, err := w.runs.Answer(t.Context(), run, runs.Answer{ElicitationID: "gate#1", Action: "decline", By: "ann"}); err != nil {
			t.Fatal(err)
		}
		w.runs.wait(t.Context(), func() bool { return w.runs.runs[run].stopped })
	}
}

// Many runs of one call, one after the other, stay distinct.
func TestManyRunsOfOneCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"echoed": echoed}, func(o *gateway.Options) { o.ReattachWindow = time.Minute })
	var looks int
	w.runs.getErr = func() error { looks++; return nil }
	c := &wire{T: t, url: w.url, caller: "ann"}
	turn := turns(w, c)
	const calls = 100
	for range calls {
		turn()
		c.modernCall("echoed", `{}`, `{}`, "").result(false)
	}
	if n := len(w.runs.runs); n != calls {
		t.Errorf("%d calls are %d runs", calls, n)
	}
	if looks > 20*calls {
		t.Errorf("%d calls looked %d times", calls, looks)
	}
}

func TestWindowHasALimit(t *testing.T) {
	t.Parallel()
	_, err := gateway.New(gateway.Options{Runs: newFakeRuns(t, nil), Catalogue: &fakeCatalogue{}, Timing: gateway.Timing{ReattachWindow: 13 * time.Hour}})
	if err == nil || !strings.Contains(err.Error(), "12h") {
		t.Errorf("a window of 13 h: %v", err)
	}
}
