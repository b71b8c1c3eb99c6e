package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A resumer is a client of 2025-11-25 that does what the protocol lets it do:
// when a stream breaks before its response, it comes back with the id of the
// last event. It knows nothing of replicas.
type resumer struct {
	t       *testing.T
	url     string
	session string
	ask     answerer

	requests int // that must has made
	resumed  int // how often it came back
}

// newResumer opens a session.
func newResumer(t *testing.T, url string, ask answerer) *resumer {
	t.Helper()
	r := &resumer{t: t, url: url, ask: ask}
	capabilities := `{"tasks":{"list":{},"cancel":{}}}`
	if ask != nil {
		capabilities = `{"elicitation":{},"tasks":{"list":{},"cancel":{}}}`
	}
	response, err := r.post(t.Context(), `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":`+
		capabilities+`,"clientInfo":{"name":"resumer","version":"1"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if r.session = response.Header.Get("Mcp-Session-Id"); r.session == "" {
		body, _ := io.ReadAll(response.Body)
		t.Fatalf("no session: %s %s", response.Status, body)
	}
	return r
}

func (r *resumer) post(ctx context.Context, body string) (*http.Response, error) {
	return r.send(ctx, http.MethodPost, body, "")
}

func (r *resumer) send(ctx context.Context, method, body, last string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, r.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Mcp-Protocol-Version", legacy)
	if r.session != "" {
		request.Header.Set("Mcp-Session-Id", r.session)
	}
	if last != "" {
		request.Header.Set("Last-Event-ID", last)
	}
	return http.DefaultClient.Do(request)
}

// A rpcMessage is what comes on a stream.
type rpcMessage struct {
	ID     json.RawMessage
	Method string
	Params struct{ Message string }
	Result json.RawMessage
	Error  json.RawMessage
}

// call calls a tool and gives its result.
func (r *resumer) call(ctx context.Context, id int, tool, arguments string) (json.RawMessage, error) {
	return r.request(ctx, id, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":{"progressToken":%d}}`, tool, arguments, id))
}

// request gives the result of a request, through as many streams as it takes.
func (r *resumer) request(ctx context.Context, id int, method, params string) (json.RawMessage, error) {
	response, err := r.post(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params))
	last := ""
	for {
		if err == nil && response.StatusCode == http.StatusOK && !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
			return plainResult(response)
		} else if err == nil && response.StatusCode == http.StatusOK {
			var result *rpcMessage
			if result, last = r.read(ctx, response, last, fmt.Sprint(id)); result != nil {
				return result.Result, asError(result.Error)
			}
		} else if err == nil {
			response.Body.Close()
		}
		if last == "" {
			return nil, fmt.Errorf("the call broke before the client had a place to come back to: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond): // less than the server asks for
		}
		r.resumed++
		response, err = r.send(ctx, http.MethodGet, "", last)
	}
}

// plainResult is the result that a response without a stream has.
func plainResult(response *http.Response) (json.RawMessage, error) {
	defer response.Body.Close()
	var m rpcMessage
	if err := json.NewDecoder(response.Body).Decode(&m); err != nil {
		return nil, err
	}
	return m.Result, asError(m.Error)
}

func asError(raw json.RawMessage) error {
	if len(raw) > 0 {
		return fmt.Errorf("JSON-RPC error %s", raw)
	}
	return nil
}

// read reads a stream to its end or to the response, and answers what it asks.
func (r *resumer) read(ctx context.Context, response *http.Response, last, id string) (*rpcMessage, string) {
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	place := ""
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "id":
			place = value
		case "data":
			if place != "" {
				last = place
			}
			var m rpcMessage
			if json.Unmarshal([]byte(value), &m) != nil {
				continue
			}
			if m.Method == "elicitation/create" {
				go r.answer(ctx, m)
			}
			if m.Method == "" && string(m.ID) == id {
				return &m, last
			}
		}
	}
	return nil, last
}

// answer answers a question, again until somebody takes the answer.
func (r *resumer) answer(ctx context.Context, m rpcMessage) {
	action, content, err := r.ask(ctx, m.Params.Message)
	if err != nil {
		return
	}
	body := asJSON(r.t, map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": map[string]any{"action": action, "content": content}})
	for ctx.Err() == nil {
		response, err := r.post(ctx, body)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusAccepted {
				return
			}
		}
		time.Sleep(50 * time.Millisecond) // the replica may be on its way out
	}
}

// must makes a request that has a result, which is decoded into a value, nil =
// none.
func (r *resumer) must(t *testing.T, method, params string, into any) json.RawMessage {
	t.Helper()
	r.requests++
	raw, err := r.request(t.Context(), r.requests, method, params)
	if err == nil && into != nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return raw
}

// postModern sends a request of 2026-07-28 and gives its result.
func postModern(ctx context.Context, url, method, name, body string) (json.RawMessage, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for header, value := range map[string]string{
		"Accept": "application/json, text/event-stream", "Content-Type": "application/json",
		"Mcp-Protocol-Version": modern, "Mcp-Method": method, "Mcp-Name": name,
	} {
		request.Header.Set(header, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	return plainResult(response)
}
