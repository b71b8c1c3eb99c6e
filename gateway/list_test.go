package gateway_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/perduretest"
)

// listed are the tools of tools/list, as they were sent.
func listed(t *testing.T, w *world) map[string]string {
	t.Helper()
	m := connect(t, w.url, "ann", "2025-11-25", `{}`).post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	var answer struct {
		Result struct{ Tools []json.RawMessage }
	}
	perduretest.NoError(t, json.NewDecoder(m.lines).Decode(&answer))
	tools := map[string]string{}
	for _, raw := range answer.Result.Tools {
		var head struct{ Name string }
		perduretest.NoError(t, json.Unmarshal(raw, &head))
		tools[head.Name] = string(raw)
	}
	return tools
}

func TestListing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, func(o *gateway.Options) { o.NoRunTools = true })
	yes := true
	exact := backends.Tool{Name: "be_exact", Backend: "be", Original: "exact", Title: "Exact", Description: "d", Effect: "read",
		InputSchema:  json.RawMessage(`{"type":"object","properties":{"n":{"maximum":12345678901234567890,"default":1.0}}}`),
		OutputSchema: json.RawMessage(`{"type":"object"}`),
		Annotations:  backends.Annotations{ReadOnlyHint: &yes}}
	hidden := tool("hidden")
	hidden.Hidden = true
	broken := tool("broken")
	broken.InputSchema = json.RawMessage(`{"type":`)
	header := tool("header")
	header.InputSchema = json.RawMessage(`{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"bad name"}}}`)
	w.catalogue.set(exact, hidden, broken, header, tool("echo"))
	w.gateway.SetDefinitions(define(t, `
name: uses_hidden
description: uses a hidden tool
parameters: {type: object, properties: {m: {type: string}}, required: [m]}
steps: [{id: a, tool: be.hidden}]
output: {properties: {word: {type: string, description: the word, value: "{{.steps.a.output.text}}"}}, required: [word]}
---
name: be_echo
description: clashes
steps: [{id: a, tool: be_exact}]
---
name: uses_nothing
description: has a tool that is not there
steps: [{id: a, tool: be_missing}]
---
name: lies
description: contradicts
annotations: {readOnlyHint: true}
steps: [{id: a, tool: be_echo}]
---
name: reads
description: reads
steps: [{id: a, tool: be_exact}]
---
name: reads
description: twice
steps: [{id: a, tool: be_exact}]
`))
	want := map[string]string{
		"be_exact": `{"annotations":{"readOnlyHint":true},"description":"d","inputSchema":` + string(exact.InputSchema) + `,"name":"be_exact","outputSchema":{"type":"object"},"title":"Exact"}`,
	}
	got := listed(t, w)
	for _, name := range []string{"reads", "uses_hidden"} {
		if err := hasAll(got[name], `"inputSchema":{`, `"name":"`+name+`"`); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := hasAll(got["uses_hidden"], `"required":["m"]`, `"required":["word"]`, `"readOnlyHint":false`, `"destructiveHint":true`); err != nil {
		t.Error(err)
	}
	if err := hasAll(got["reads"], `"readOnlyHint":true`); err != nil {
		t.Error(err)
	}
	if err := hasAll(got["be_echo"], `"description":"clashes"`); err != nil { // and not the tool of the backend
		t.Error(err)
	}
	delete(got, "be_echo")
	delete(got, "reads")
	delete(got, "uses_hidden")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}

	reasons := map[string]string{}
	for i, c := range w.gateway.Composites() {
		if c.Available != (c.Reason == "") {
			t.Errorf("composite %d: available %v with reason %q", i, c.Available, c.Reason)
		}
		if c.Reason != "" {
			reasons[c.Definition.Description] = c.Reason
		}
	}
	for what, part := range map[string]string{
		"has a tool that is not there": "be_missing", "contradicts": "readOnlyHint", "twice": "another composite"} {
		if !strings.Contains(reasons[what], part) {
			t.Errorf("%s: reason is %q, want it to name %q", what, reasons[what], part)
		}
	}
	if len(reasons) != 3 {
		t.Errorf("unavailable: %v", reasons)
	}
	for _, name := range []string{"uses_nothing", "lies", "be_hidden"} {
		m := connect(t, w.url, "ann", "2025-11-25", `{}`).call("1", name, `{}`, "").next()
		if m.Error == nil || m.Error.Code != -32602 {
			t.Errorf("%s can be called: %+v", name, m)
		}
	}
}

func TestListChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	stream := connect(t, w.url, "ann", "2025-11-25", `{}`).do(t.Context(), "GET", "")
	stream.frame() // it is open now
	modern := &wire{T: t, url: w.url}
	subscription := modern.modern("subscriptions/listen", "", `{}`, `"notifications":{"toolsListChanged":true}`)
	if m := subscription.message(); m.Method != "notifications/subscriptions/acknowledged" {
		t.Fatalf("subscription began with %+v", m)
	}
	changes := func(what string) {
		t.Helper()
		for _, s := range []*response{stream, subscription} {
			if m := s.message(); m.Method != "notifications/tools/list_changed" {
				t.Errorf("after %s: %+v", what, m)
			}
		}
	}
	w.gateway.SetDefinitions(define(t, simple("one")))
	changes("a new definition")
	w.gateway.SetDefinitions(define(t, simple("one"))) // the same: no news
	w.catalogue.set(tool("echo"), tool("other"))
	changes("a new tool")
	if _, ok := listed(t, w)["be_other"]; !ok {
		t.Error("the new tool is not listed")
	}
	w.catalogue.set()
	if c := w.gateway.Composites()[0]; c.Available {
		t.Error("a composite without its tool is available")
	}
}

// Lists may be shared where everybody gets the same one without a question.
func TestCacheHints(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*gateway.Options){
		"public":  func(o *gateway.Options) { o.Authenticate = nil },
		"private": func(*gateway.Options) {}, // callers have names
	} {
		w := newWorld(t, nil, change)
		var list struct {
			Result struct {
				TTLMs      int    `json:"ttlMs"`
				CacheScope string `json:"cacheScope"`
			}
		}
		body := perduretest.Must(io.ReadAll((&wire{T: t, url: w.url}).modern("tools/list", "", `{}`, "").Body))(t)
		if err := json.Unmarshal(body, &list); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		if list.Result.TTLMs != 30_000 || list.Result.CacheScope != want {
			t.Errorf("the hints are %+v, want 30 s and %s", list.Result, want)
		}
	}
}

func TestReasonIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log syncBuffer
	w := newWorld(t, nil, func(o *gateway.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	w.catalogue.set()
	w.gateway.SetDefinitions(define(t, simple("one")))
	for range 3 {
		w.catalogue.set(tool("other"))
	}
	if n := strings.Count(log.String(), "be_echo"); n != 1 {
		t.Errorf("the reason was logged %d times:\n%s", n, log.String())
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestListIsOnePage: a list has every tool and no cursor, in either era, and only
// 2025-11-25 hears which tools can be tasks.
func TestListIsOnePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"echoed": echoed})
	session, stateless := connect(t, w.url, "ann", "2025-11-25", `{}`), &wire{T: t, url: w.url, caller: "ann"}
	for era, list := range map[string]func(cursor string) *response{
		"2025-11-25": func(cursor string) *response { return session.request("tools/list", `{`+cursor+`}`) },
		"2026-07-28": func(cursor string) *response { return stateless.modern("tools/list", "", `{}`, cursor) },
	} {
		text := string(list("").messageText())
		if err := hasAll(text, `"name":"be_echo"`, `"name":"echoed"`); err != nil {
			t.Errorf("%s: %v", era, err)
		}
		if got, want := strings.Count(text, `"execution":{"taskSupport":"optional"}`), map[string]int{"2025-11-25": 1}[era]; got != want || !json.Valid([]byte(text)) {
			t.Errorf("%s: %d tools can be tasks, want %d:\n%s", era, got, want, text)
		}
		for _, cursor := range []string{`"cursor":"YmVfZWNobw=="`, `"cursor":7`} {
			if _, code := list(cursor).answer(); code != -32602 {
				t.Errorf("%s: a list from %s is answered with code %d", era, cursor, code)
			}
		}
	}
}
