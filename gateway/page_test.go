package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
)

const (
	canOpen    = `{"elicitation":{"url":{}}}`
	canDoBoth  = `{"elicitation":{"form":{},"url":{}}}`
	pageOfGate = "https://perdure.example.com/approvals/"
)

// onPage is gated by a question for the approvals page.
func onPage(p *play) {
	p.open(runs.Elicitation{StepID: "gate", Message: "Write?", Mode: definitions.URLMode})
	e := p.answered("gate#1")
	p.complete(`{"action":"` + e.Action + `","by":"` + e.By + `"}`)
}

func withPage(o *gateway.Options) {
	o.RunURL = func(id runs.RunID) string { return pageOfGate + string(id) }
}

func (w *world) answerOnPage(run runs.RunID) {
	w.Helper()
	if _, err := w.runs.Answer(w.Context(), run, runs.Answer{ElicitationID: "gate#1", Action: "accept", Content: json.RawMessage(`{"reason":"seen"}`), By: "bob", Via: runs.ViaPage}); err != nil {
		w.Error(err)
	}
}

func (m *msg) url(t *testing.T) (mode, url, id string) {
	t.Helper()
	var p struct{ Mode, URL, ElicitationID string }
	perduretest.NoError(t, json.Unmarshal(m.Params, &p))
	return p.Mode, p.URL, p.ElicitationID
}

// TestClientIsSentToThePage: what a client says of a question in URL mode
// never answers it.
func TestClientIsSentToThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated, "page": onPage}, withPage)
	for name, capabilities := range map[string]string{"gated": canOpen, "page": canDoBoth} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, w.url, "ann-"+name, "2025-11-25", capabilities)
			stream := c.call("1", name, `{}`, "")
			asked := stream.next()
			mode, url, elicitation := asked.url(t)
			run := runs.RunID(url[len(pageOfGate):])
			if asked.Method != "elicitation/create" || mode != "url" || elicitation == "" {
				t.Fatalf("asked %s %s", asked.Method, asked.Params)
			}
			var id string
			perduretest.NoError(t, json.Unmarshal(asked.ID, &id))
			for _, reply := range []string{`{"action":"accept","content":{"reason":"by a hook"}}`, `{"action":"decline"}`} {
				if got := c.reply(id, reply); got != http.StatusAccepted {
					t.Errorf("HTTP %d", got)
				}
			}
			if got := w.runs.snapshot(run).run.Elicitations[0].State; got != "open" {
				t.Fatalf("the client has answered: %s", got)
			}
			w.answerOnPage(run)
			done := stream.next()
			if _, _, of := done.url(t); done.Method != "notifications/elicitation/complete" || of != elicitation {
				t.Errorf("want complete of %s, got %s %s", elicitation, done.Method, done.Params)
			}
			stream.result(false).structuredIs(t, `{"action":"accept","by":"bob"}`)
		})
	}
}

func TestClientDoesNotOpenThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"page": onPage}, withPage)
	c := connect(t, w.url, "ann", "2025-11-25", canOpen)
	stream := c.call("1", "page", `{}`, "")
	var id string
	perduretest.NoError(t, json.Unmarshal(stream.next().ID, &id))
	c.reply(id, `{"action":"decline"}`)
	m := stream.result(false) // although patience is endless here
	if err := hasAll(string(m.Result.Structured), `"status":"waiting_for_approval"`, `"approvalUrl":"`+pageOfGate); err != nil {
		t.Error(err)
	}

	modern := &wire{T: t, url: w.url, caller: "ann"}
	m = modern.modernCall("page", `{}`, canOpen, "").result(false)
	m = modern.modernCall("page", `{}`, canOpen, `"requestState":"`+m.Result.RequestState+`","inputResponses":{"gate":{"action":"cancel"}}`).result(false)
	if err := hasAll(string(m.Result.Structured), `"status":"waiting_for_approval"`, `"approvalUrl":"`+pageOfGate); err != nil {
		t.Error(err)
	}
	for _, a := range w.runs.answers() {
		t.Errorf("an answer was given: %+v", a)
	}
}

func TestModernClientIsSentToThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"page": onPage}, withPage)
	c := &wire{T: t, url: w.url, caller: "ann"}
	m := c.modernCall("page", `{}`, canDoBoth, "").result(false)
	asked := m.Result.InputRequests["gate"].Params
	if asked.Mode != "url" || asked.URL == "" || asked.RequestedSchema != nil {
		t.Fatalf("asked %+v", m.Result)
	}
	run := runs.RunID(asked.URL[len(pageOfGate):])
	_, c.url = w.replica()
	time.AfterFunc(50*time.Millisecond, func() { // nothing is heard of the call before
		if got := w.runs.answers(); len(got) > 0 {
			t.Errorf("the client has answered: %+v", got)
		}
		w.answerOnPage(run)
	})
	m = c.modernCall("page", `{}`, canDoBoth, `"requestState":"`+m.Result.RequestState+`","inputResponses":{"gate":{"action":"accept","content":{}}}`).result(false)
	m.structuredIs(t, `{"action":"accept","by":"bob"}`)
}

// TestPageOfClientThatShowsOnlyForms: a question for the page is not put to a
// client that would answer it itself; it gets the link in the end.
func TestPageOfClientThatShowsOnlyForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"page": onPage}, withPage, func(o *gateway.Options) { o.Patience = time.Millisecond })
	old := connect(t, w.url, "ann", "2025-06-18", canDoBoth) // there was no URL mode yet
	for name, m := range map[string]*msg{
		"2025-11-25": connect(t, w.url, "ann", "2025-11-25", canAsk).call("1", "page", `{}`, "").result(false),
		"2025-06-18": old.call("1", "page", `{}`, "").result(false),
		"2026-07-28": (&wire{T: t, url: w.url, caller: "ann"}).modernCall("page", `{}`, canAsk, "").result(false),
	} {
		if err := hasAll(string(m.Result.Structured), `"status":"waiting_for_approval"`, `"approvalUrl":"`+pageOfGate); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPageBeforeTheCallIsRepeated: a client that takes no stream gets the advice to
// open the page and to call again, where calling again finds the same run.
func TestPageBeforeTheCallIsRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"page": onPage}, withPage, func(o *gateway.Options) { o.Patience = 50 * time.Millisecond })
	c := connect(t, w.url, "ann", "2025-11-25", canOpen)
	call := func(id string) *msg {
		return c.call(id, "page", `{}`, `{"perdure/idempotency-key":"k"}`, "Accept", "application/json").message()
	}
	m := call("1")
	if m.Error == nil || m.Error.Code != -32042 {
		t.Fatalf("got %+v", m)
	}
	var data struct {
		Elicitations []struct{ Mode, URL, ElicitationID, Message string }
	}
	if err := json.Unmarshal(m.Error.Data, &data); err != nil || len(data.Elicitations) != 1 {
		t.Fatalf("%v in %s", err, m.Error.Data)
	}
	e := data.Elicitations[0]
	if e.Mode != "url" || e.ElicitationID == "" || e.Message != "Write?" {
		t.Errorf("elicitation is %+v", e)
	}
	w.answerOnPage(runs.RunID(e.URL[len(pageOfGate):]))
	call("2").structuredIs(t, `{"action":"accept","by":"bob"}`)
}

// A visitor is the user of a real client: opens the page and answers there.
type visitor struct {
	w     *world
	asked []mcp.ElicitationParams
}

func (v *visitor) Elicit(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	v.asked = append(v.asked, r.Params)
	if id, ok := strings.CutPrefix(r.Params.URL, pageOfGate); ok {
		time.AfterFunc(50*time.Millisecond, func() { v.w.answerOnPage(runs.RunID(id)) })
	}
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionAccept}}, nil
}

func TestRealClientsAreSentToThePage(t *testing.T) {
	t.Parallel()
	for version, era := range map[string][]client.ClientOption{mcp.LATEST_LEGACY_PROTOCOL_VERSION: {sessionEra}, mcp.LATEST_PROTOCOL_VERSION: nil} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]func(*play){"page": onPage}, withPage)
			v := &visitor{w: w}
			tr := perduretest.Must(transport.NewStreamableHTTP(w.url))(t)
			c := client.NewClient(tr, append(era, client.WithElicitationHandler(v))...)
			t.Cleanup(func() { _ = c.Close() })
			perduretest.NoError(t, c.Start(t.Context()))
			var req mcp.InitializeRequest
			req.Params.ProtocolVersion = version
			req.Params.Capabilities.Elicitation = &mcp.ElicitationCapability{Form: &struct{}{}, URL: &struct{}{}}
			if _, err := c.Initialize(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			res := callTool(t, c, "page", nil)
			if got := string(mustJSON(t, res.StructuredContent)); got != `{"action":"accept","by":"bob"}` {
				t.Errorf("result is %s %v", got, res.Content)
			}
			if len(v.asked) != 1 || v.asked[0].Mode != "url" || v.asked[0].Message != "Write?" {
				t.Errorf("asked %+v", v.asked)
			}
		})
	}
}
