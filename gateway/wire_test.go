package gateway_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/runs"
)

// wire is a client without a library between it and the gateway.
type wire struct {
	*testing.T
	url     string
	caller  string
	token   string // bearer token; "" = none
	session string
	version string
	until   context.Context // ends the connections of its requests; nil = the test does
}

// wireHTTP is not http.DefaultClient, whose idle connections every
// httptest.Server closes when it ends, in the middle of another test's request.
var wireHTTP = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}

// frame is one SSE event; a comment has nothing set.
type frame struct {
	ID, Retry string
	Data      json.RawMessage
	Comment   bool
}

// msg is a JSON-RPC message of the server.
type msg struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result *struct {
		ResultType    string                        `json:"resultType"`
		IsError       bool                          `json:"isError"`
		Content       []struct{ Type, Text string } `json:"content"`
		Structured    json.RawMessage               `json:"structuredContent"`
		Meta          map[string]json.RawMessage    `json:"_meta"`
		RequestState  string                        `json:"requestState"`
		InputRequests map[string]struct {
			Method string
			Params struct {
				Mode, Message, URL, ElicitationID string
				RequestedSchema                   json.RawMessage
			}
		} `json:"inputRequests"`
		Tools []struct {
			Name         string
			OutputSchema json.RawMessage
		} `json:"tools"`
	} `json:"result"`
	Error *struct {
		Code    int
		Message string
		Data    json.RawMessage
	} `json:"error"`
}

func (m *msg) text() string {
	if m.Result == nil || len(m.Result.Content) == 0 {
		return ""
	}
	return m.Result.Content[0].Text
}

// runOf is what a result says of its run.
type runOf struct {
	ID       runs.RunID
	Status   string
	Attached bool
}

func (m *msg) run() (r runOf) {
	_ = json.Unmarshal(m.Result.Meta["perdure/run"], &r)
	return r
}

// response is an HTTP response whose frames are read one by one.
type response struct {
	*testing.T
	*http.Response
	lines  *bufio.Reader
	lastID string
}

func (w *wire) do(ctx context.Context, method, body string, header ...string) *response {
	w.Helper()
	req, err := http.NewRequestWithContext(ctx, method, w.url, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("X-Caller", w.caller)
	if w.token != "" {
		req.Header.Set("Authorization", "Bearer "+w.token)
	}
	if w.session != "" {
		req.Header.Set("Mcp-Session-Id", w.session)
	}
	if w.version != "" {
		req.Header.Set("Mcp-Protocol-Version", w.version)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			req.Header.Del(header[i])
		}
	}
	resp, err := wireHTTP.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { resp.Body.Close() })
	return &response{T: w.T, Response: resp, lines: bufio.NewReader(resp.Body)}
}

func (w *wire) post(body string, header ...string) *response {
	w.Helper()
	return w.do(cmp.Or(w.until, w.Context()), http.MethodPost, body, header...)
}

// connect opens a session of a protocol version.
func connect(t *testing.T, url, caller, version, capabilities string) *wire {
	t.Helper()
	w := &wire{T: t, url: url, caller: caller}
	resp := w.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"wire","version":"1"}}}`, version, capabilities))
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("initialize: %s", resp.Status)
	}
	w.session, w.version = resp.Header.Get("Mcp-Session-Id"), version
	if w.session == "" {
		t.Fatal("initialize gave no session id")
	}
	if got := w.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); got.StatusCode != http.StatusAccepted {
		t.Fatalf("initialized: %s", got.Status)
	}
	return w
}

const canAsk = `{"elicitation":{}}`

// call posts a tools/call of the session era; meta may be empty.
func (w *wire) call(id, name, arguments, meta string, header ...string) *response {
	w.Helper()
	return w.post(callBody(id, name, arguments, meta), header...)
}

func callBody(id, name, arguments, meta string) string {
	if meta != "" {
		meta = `,"_meta":` + meta
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`, id, name, arguments, meta)
}

// modern posts a request of 2026-07-28. rest are members of params.
func (w *wire) modern(method, name, capabilities, rest string) *response {
	w.Helper()
	id := requestSerial.Add(1)
	if rest != "" {
		rest += ","
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s"_meta":{"progressToken":"p%d","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"wire","version":"2"},"io.modelcontextprotocol/clientCapabilities":%s}}}`,
		id, method, rest, id, capabilities)
	header := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		header = append(header, "Mcp-Name", name)
	}
	return w.post(body, header...)
}

func (w *wire) modernCall(name, arguments, capabilities, rest string) *response {
	w.Helper()
	if rest != "" {
		rest = "," + rest
	}
	return w.modern("tools/call", name, capabilities, fmt.Sprintf(`"name":%q,"arguments":%s%s`, name, arguments, rest))
}

// keyed calls with the beginning of a _meta of its own.
func (w *wire) keyed(name, meta string) *response {
	w.Helper()
	return w.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{},%s,"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		requestSerial.Add(1), name, meta), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", name)
}

// frame reads the next SSE event or comment; ok is false at the end.
func (r *response) frame() (f frame, ok bool) {
	r.Helper()
	var data []byte
	any := false
	for {
		line, err := r.lines.ReadString('\n')
		if err != nil {
			if err != io.EOF && r.Context().Err() == nil {
				r.Logf("stream broke: %v", err)
			}
			return frame{}, false
		}
		line = strings.TrimRight(line, "\n")
		switch field, value, _ := strings.Cut(line, ":"); {
		case line == "" && any:
			f.Data = data
			if f.ID != "" {
				r.lastID = f.ID
			}
			return f, true
		case line == "":
		case field == "":
			f.Comment, any = true, true
		case field == "id":
			f.ID, any = strings.TrimSpace(value), true
		case field == "retry":
			f.Retry, any = strings.TrimSpace(value), true
		case field == "data":
			data, any = append(data, strings.TrimSpace(value)...), true
		default:
			any = true
		}
	}
}

// next reads the next message that is not progress, from a stream or from JSON.
func (r *response) next() *msg {
	r.Helper()
	for {
		m := r.message()
		if m.Method != "notifications/progress" {
			return m
		}
	}
}

func (r *response) message() *msg {
	r.Helper()
	return r.decode(r.messageText())
}

// messageText reads the next message, from a stream or from JSON.
func (r *response) messageText() []byte {
	r.Helper()
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		b, err := io.ReadAll(r.lines)
		if err != nil {
			r.Fatal(err)
		}
		return b
	}
	for {
		f, ok := r.frame()
		if !ok {
			r.Fatal("the stream ended before a message")
		}
		if len(f.Data) > 0 {
			return f.Data
		}
	}
}

func (r *response) decode(b []byte) *msg {
	r.Helper()
	var m msg
	if err := json.Unmarshal(b, &m); err != nil {
		r.Fatalf("HTTP %d: %s: %v", r.StatusCode, b, err)
	}
	return &m
}

// result reads up to the response and checks whether it is an error result.
func (r *response) result(isError bool) *msg {
	r.Helper()
	m := r.next()
	if m.Result == nil {
		r.Fatalf("want a result, got %s %+v", m.Method, m.Error)
	}
	if m.Result.IsError != isError {
		r.Fatalf("isError is %v: %s", m.Result.IsError, m.text())
	}
	return m
}

// asked reads up to an elicitation and returns the id of the request and its message.
func (r *response) asked() (id, message string, schema json.RawMessage) {
	r.Helper()
	m := r.next()
	if m.Method != "elicitation/create" {
		r.Fatalf("want an elicitation, got %q %+v", m.Method, m.Result)
	}
	var p struct {
		Message         string
		RequestedSchema json.RawMessage
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		r.Fatal(err)
	}
	if err := json.Unmarshal(m.ID, &id); err != nil {
		r.Fatalf("id of the question is no string: %v", err)
	}
	return id, p.Message, p.RequestedSchema
}

// reply answers a question and returns the HTTP status.
func (w *wire) reply(id, result string) int {
	w.Helper()
	return w.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":%s}`, id, result)).StatusCode
}

// structuredIs compares structured content byte by byte.
func (m *msg) structuredIs(t *testing.T, want string) {
	t.Helper()
	if !bytes.Equal(m.Result.Structured, []byte(want)) {
		t.Errorf("structuredContent is %s, want %s (%s)", m.Result.Structured, want, m.text())
	}
}

// try posts a request whose connection may break.
func (w *wire) try(ctx context.Context, body string, header ...string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, strings.NewReader(body))
	if err != nil {
		w.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("X-Caller", w.caller)
	req.Header.Set("Mcp-Session-Id", w.session)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if resp, err := wireHTTP.Do(req); err == nil {
		_ = resp.Body.Close()
	}
}

// changed is a token with another last letter.
func changed(token string) string {
	if last := len(token) - 1; token[last] == 'A' {
		return token[:last] + "Q"
	}
	return token[:len(token)-1] + "A"
}
