package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
)

// TestToolsThatOneMayNotCall: a tool that somebody may not call is not listed, and calling it is
// answered as that of a tool which does not exist, in each era.
func TestToolsThatOneMayNotCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"deploy": echoed, "report": echoed}, func(o *gateway.Options) {
		o.Policy = &auth.Policy{Rules: []auth.Rule{
			{Grant: auth.Grant{Tools: []string{"*"}, Subjects: []string{"user-ann"}}},
			{Grant: auth.Grant{Tools: []string{"rep*", "be_echo"}, Subjects: []string{"user-bob"}}},
		}}
	})
	w.catalogue.set(tool("echo"), backends.Tool{Name: "be_report", Backend: "be", Original: "report",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)})
	for caller, tools := range map[string]string{
		"ann": "be_echo be_report deploy report", "bob": "be_echo report", "cid": "",
	} {
		c := connect(t, w.url, caller, "2025-11-25", canAsk)
		listed := map[string]bool{}
		for _, r := range []*response{c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), c.modern("tools/list", "", `{}`, "")} {
			body := perduretest.Must(io.ReadAll(r.Body))(t)
			for _, found := range regexp.MustCompile(`"name":"([a-z_]+)"`).FindAllSubmatch(body, -1) {
				listed[string(found[1])] = true
			}
		}
		if !listed["perdure_run_await"] {
			t.Errorf("%s cannot wait for runs: %v", caller, listed)
		}
		for _, name := range []string{"be_echo", "be_report", "deploy", "report"} {
			may := strings.Contains(" "+tools+" ", " "+name+" ")
			if listed[name] != may {
				t.Errorf("%s is listed to %s: %v", name, caller, !may)
			}
			if may {
				continue
			}
			for _, m := range []*msg{
				c.call("2", name, `{}`, "").message(),
				c.call("3", name, `{}`, `{"perdure/dry-run":true}`).message(),
				c.modernCall(name, `{}`, `{}`, "").message(),
				c.modernCall(name, `{"region":"eu"}`, `{}`, "").message(),
				c.modernCall(name, `{}`, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, "").message(),
				c.post(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"` + name + `","arguments":{},"task":{"ttl":60000}}}`).message(),
			} {
				unknown := c.call("4", "no_such_tool", `{}`, "").message()
				if m.Error == nil || m.Error.Code != unknown.Error.Code ||
					m.Error.Message != strings.ReplaceAll(unknown.Error.Message, "no_such_tool", name) {
					t.Errorf("%s calls %s: %+v, and an unknown tool: %+v", caller, name, m.Error, unknown.Error)
				}
			}
		}
	}
	// What is checked is what is called, whichever of two names that is.
	c := connect(t, w.url, "bob", "2025-11-25", canAsk)
	for _, params := range []string{
		`"params":{"name":"report"},"params":{"name":"deploy"}`, `"params":{"name":"report","name":"deploy"}`,
		`"params":{"name":"report"},"Params":{"Name":"deploy"}`, `"params":{"name":"deploy"},"params":{"name":"report"},"params":{"NAME":"deploy"}`,
	} {
		if m := c.post(`{"jsonrpc":"2.0","id":5,"method":"tools/call",` + params + `}`).message(); m.Error == nil {
			t.Errorf("%s is answered with %+v", params, m.Result)
		}
	}
	if w.runs.starts != 0 {
		t.Errorf("%d runs were started", w.runs.starts)
	}
	connect(t, w.url, "bob", "2025-11-25", canAsk).call("1", "report", `{}`, "").result(false)
}

// TestRunsOfOthers: whom the policy names sees, answers and cancels runs of
// others, and each of these only who may.
func TestRunsOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated}, func(o *gateway.Options) {
		o.Policy = &auth.Policy{
			Operators: []auth.Grant{{Tools: []string{"gated"}, Subjects: []string{"user-olga"}}, {Tools: []string{"other"}, Subjects: []string{"user-eve"}}},
			Approvers: []auth.Grant{{Tools: []string{"*"}, Subjects: []string{"user-anna"}}},
		}
	})
	owner := connect(t, w.url, "ann", "2025-11-25", `{}`)
	owner.call("1", "gated", `{}`, "").Body.Close()
	run := string(w.runs.only(t))
	await := func(c *wire, id string) *response {
		return c.call(id, "perdure_run_await", fmt.Sprintf(`{"runId":%q,"waitSeconds":0}`, run), "")
	}
	cancelling := func(c *wire, id string) *response {
		return c.call(id, "perdure_run_cancel", fmt.Sprintf(`{"runId":%q}`, run), "")
	}
	stranger := connect(t, w.url, "eve", "2025-11-25", canAsk)
	for what, m := range map[string]*msg{"waits for": await(stranger, "1").result(true), "cancels": cancelling(stranger, "2").result(true)} {
		if !strings.Contains(m.text(), "no such run") {
			t.Errorf("a stranger %s a run: %s", what, m.text())
		}
	}
	operator := connect(t, w.url, "olga", "2025-11-25", canAsk)
	if m := await(operator, "1").result(false); !strings.Contains(string(m.Result.Structured), "waiting_for_approval") {
		t.Errorf("the operator sees %s", m.Result.Structured)
	}
	approver := connect(t, w.url, "anna", "2025-11-25", canAsk)
	if m := cancelling(approver, "1").result(true); !strings.Contains(m.text(), "no such run") {
		t.Errorf("an approver cancels a run: %s", m.text())
	}
	stream := approver.call("2", "perdure_run_await", fmt.Sprintf(`{"runId":%q,"waitSeconds":30}`, run), "")
	id, _, _ := stream.asked()
	if status := stranger.reply(id, `{"action":"accept","content":{"reason":"mine"}}`); status != http.StatusBadRequest {
		t.Errorf("a stranger answers a question: HTTP %d", status)
	}
	approver.reply(id, `{"action":"accept","content":{"reason":"fine"}}`)
	stream.result(false).structuredIs(t, `{"action":"accept","by":"user-anna"}`)
	if m := await(owner, "9").result(false); !strings.Contains(string(m.Result.Structured), "user-anna") {
		t.Errorf("the owner sees %s", m.Result.Structured)
	}
}

// TestQuestionForSome: a question for some of the possible approvers goes to these
// only. Others cannot answer it, even if they can see it.
func TestQuestionForSome(t *testing.T) {
	t.Parallel()
	forLeads := func(p *play) {
		p.open(runs.Elicitation{StepID: "gate", Message: "Write?", Approvers: []string{"user-anna"}})
		e := p.answered("gate#1")
		p.complete(`{"by":"` + e.By + `"}`)
	}
	w := newWorld(t, map[string]func(*play){"gated": forLeads}, func(o *gateway.Options) {
		o.Policy = &auth.Policy{Approvers: []auth.Grant{{Tools: []string{"*"}, Groups: []string{"*"}}}}
	})
	await := func(c *wire, id string) *response {
		return c.call(id, "perdure_run_await", fmt.Sprintf(`{"runId":%q,"waitSeconds":30}`, w.runs.only(t)), "")
	}
	owner := connect(t, w.url, "ann", "2025-11-25", canAsk)
	other, approver := connect(t, w.url, "olga", "2025-11-25", canAsk), connect(t, w.url, "anna", "2025-11-25", canAsk)
	called := owner.call("1", "gated", `{}`, "")
	waiting := await(other, "1")
	stream := await(approver, "2")
	id, _, _ := stream.asked()
	approver.reply(id, `{"action":"accept","content":{}}`)
	for who, r := range map[string]*response{"the owner": called, "another": waiting, "the approver": stream} {
		if m := r.result(false); !strings.Contains(string(m.Result.Structured), `"by":"user-anna"`) {
			t.Errorf("%s gets %s", who, m.Result.Structured)
		}
	}
	if got := w.runs.answers(); len(got) != 1 || got[0].Allowed == nil {
		t.Errorf("answers: %+v", got)
	}
}

// TestRevokedApprover: a question that was asked while somebody might answer
// it is not answered once they may not.
func TestRevokedApprover(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated}, func(o *gateway.Options) {
		o.Policy = &auth.Policy{Approvers: []auth.Grant{{Tools: []string{"gated"}, Subjects: []string{"user-anna"}}}}
	})
	owner := connect(t, w.url, "ann", "2025-11-25", `{}`)
	owner.call("1", "gated", `{}`, "").Body.Close()
	run := w.runs.only(t)
	approver := connect(t, w.url, "anna", "2025-11-25", canAsk)
	stream := approver.call("2", "perdure_run_await", fmt.Sprintf(`{"runId":%q,"waitSeconds":30}`, run), "")
	id, _, _ := stream.asked()

	w.opts.Policy = nil
	_, url := w.replica()
	approver.url = url
	approver.reply(id, `{"action":"accept","content":{"reason":"fine"}}`)
	if got := w.runs.answers(); len(got) != 0 {
		t.Errorf("the answer of an approver who is none any more was taken: %+v", got)
	}
}

// TestStolen: what one caller was given is of no use to another, whether
// that is somebody else or the same subject of another issuer.
func TestStolen(t *testing.T) {
	t.Parallel()
	const audience = "https://tools.example.com/mcp"
	ours, theirs := perduretest.NewIssuer(t), perduretest.NewIssuer(t)
	var either []*auth.OIDC
	for _, issuer := range []*perduretest.Issuer{ours, theirs} {
		a, err := auth.NewOIDC(auth.OIDCOptions{Issuer: issuer.URL, Audience: audience, Resource: audience})
		if err != nil {
			t.Fatal(err)
		}
		either = append(either, a)
	}
	w := newWorld(t, map[string]func(*play){"gated": gated}, func(o *gateway.Options) {
		o.Authenticate = func(r *http.Request) (auth.Identity, error) {
			who, err := either[0].Authenticate(r)
			if err != nil {
				who, err = either[1].Authenticate(r)
			}
			return who, err
		}
	})
	owner := open(t, w.url, ours.Token("alice", audience, nil))
	stream := owner.call("1", "gated", `{}`, `{"perdure/idempotency-key":"k1"}`)
	question, _, _ := stream.asked()
	owned := w.runs.only(t)
	state := owner.modernCall("gated", `{}`, `{"elicitation":{}}`, "").result(false).Result.RequestState
	if state == "" {
		t.Fatal("no request state")
	}
	for name, token := range map[string]string{
		"somebody else":                      ours.Token("bob", audience, nil),
		"the same subject of another issuer": theirs.Token("alice", audience, nil),
	} {
		thief := *owner
		thief.token = token
		if r := thief.post(`{"jsonrpc":"2.0","id":5,"method":"tools/list"}`); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s uses the session: HTTP %d", name, r.StatusCode)
		}
		own := open(t, w.url, token)
		if r := own.do(t.Context(), http.MethodGet, "", "Last-Event-ID", stream.lastID); r.StatusCode != http.StatusBadRequest {
			t.Errorf("%s resumes the stream: HTTP %d", name, r.StatusCode)
		}
		if status := own.reply(question, `{"action":"accept","content":{"reason":"stolen"}}`); status != http.StatusBadRequest {
			t.Errorf("%s answers the question: HTTP %d", name, status)
		}
		retry := fmt.Sprintf(`"requestState":%q,"inputResponses":{"gate#1":{"action":"accept","content":{"reason":"stolen"}}}`, state)
		if m := own.modernCall("gated", `{}`, `{"elicitation":{}}`, retry).message(); m.Error == nil {
			t.Errorf("%s uses the request state: %+v", name, m.Result)
		}
		for _, tool := range []string{"perdure_run_await", "perdure_run_cancel"} {
			m := own.call("7", tool, fmt.Sprintf(`{"runId":%q}`, owned), "").result(true)
			if !strings.Contains(m.text(), "no such run") {
				t.Errorf("%s, %s: %s", name, tool, m.text())
			}
		}
		if m := own.call("8", "perdure_run_list", `{}`, "").result(false); strings.Contains(string(m.Result.Structured), string(owned)) {
			t.Errorf("%s lists %s", name, m.Result.Structured)
		}
		own.call("1", "gated", `{}`, `{"perdure/idempotency-key":"k1"}`).asked()
	}
	if w.runs.starts != 4 {
		t.Errorf("%d runs were started: an idempotency key is a caller's own", w.runs.starts)
	}
	if got := w.runs.answers(); len(got) != 0 {
		t.Errorf("answers were taken: %+v", got)
	}
	nobody := *owner
	nobody.token = ""
	if got := nobody.reply(question, `{"action":"decline"}`); got != http.StatusUnauthorized {
		t.Errorf("without a token: HTTP %d", got)
	}
}

// open opens a session of a client that can be asked and has a token.
func open(t *testing.T, url, token string) *wire {
	t.Helper()
	c := &wire{T: t, url: url, token: token}
	resp := c.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"wire","version":"1"}}}`)
	c.session, c.version = resp.Header.Get("Mcp-Session-Id"), "2025-11-25"
	if resp.StatusCode != http.StatusOK || c.session == "" {
		t.Fatalf("initialize: %s", resp.Status)
	}
	return c
}

// TestRightsOfARun: a call whose run would surely be denied a tool starts
// nothing, and is not planned either; a composite tool with runAs: composite
// needs rights of its own, and its caller none but to call it.
func TestRightsOfARun(t *testing.T) {
	t.Parallel()
	source := func(name, more, condition string) string {
		return "name: " + name + "\ndescription: d\n" + more + "steps: [{id: a, tool: be_echo" + condition + "}]\n---\n"
	}
	names := []string{"own", "granted", "ungranted", "perhaps"}
	plays := map[string]func(*play){}
	for _, name := range names {
		plays[name] = echoed
	}
	w := newWorld(t, plays, func(o *gateway.Options) {
		o.Policy = &auth.Policy{Rules: []auth.Rule{
			{Grant: auth.Grant{Tools: names, Groups: []string{"*"}}},
			{Grant: auth.Grant{Tools: []string{"be_*"}, Subjects: []string{"user-ann"}}, Composites: []string{"granted"}},
		}}
	})
	w.gateway.SetDefinitions(define(t, source("own", "", "")+source("granted", "runAs: composite\n", "")+
		source("ungranted", "runAs: composite\n", "")+source("perhaps", "", ", condition: '{{eq 1 1}}'")))
	for _, tc := range []struct{ caller, tool, denied string }{
		{"ann", "own", ""},
		{"bob", "own", "step a needs the tool be_echo, and you may not call it; nothing was started"},
		{"ann", "granted", ""},
		{"bob", "granted", ""},
		{"ann", "ungranted", "step a needs the tool be_echo, and this composite tool may not call it"},
		{"bob", "perhaps", ""}, // for the worker to deny, if it comes to that
	} {
		c := connect(t, w.url, tc.caller, "2025-11-25", canAsk)
		before := w.runs.starts
		planned := c.call("1", tc.tool, `{}`, `{"perdure/dry-run":true}`).result(tc.denied != "")
		called := c.call("2", tc.tool, `{}`, "").result(tc.denied != "")
		for _, m := range []*msg{planned, called} {
			if !strings.Contains(m.text(), tc.denied) || tc.denied != "" && !strings.Contains(string(m.Result.Meta["perdure/error"]), `"permission_denied"`) {
				t.Errorf("%s calls %s: %s %s", tc.caller, tc.tool, m.text(), m.Result.Meta["perdure/error"])
			}
		}
		if started := w.runs.starts > before; started != (tc.denied == "") {
			t.Errorf("%s calls %s: started %v", tc.caller, tc.tool, started)
		}
	}
	w.runs.change(func() {
		for id, run := range w.runs.runs {
			if !run.req.Ruled {
				t.Errorf("%s is not told that there are rules", id)
			}
		}
	})
}
