// Package clients has clients that use all that the protocol gives them: one of
// each era that is closer to the wire than a library is. They know nothing of
// replicas. A Session comes back to a stream
// that broke, and a Sessionless repeats its request with what it was asked.
package clients

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// The eras of the protocol that clients speak.
const (
	Legacy = "2025-11-25" // sessions; the server asks
	Modern = "2026-07-28" // no sessions; the client repeats its request with the answer
)

// ask is the method of a question.
const ask = "elicitation/create"

// An Asked answers what a client is asked. An error leaves the question to
// others.
type Asked func(ctx context.Context, question string) (action string, content any, err error)

// message is what comes from a server.
type message struct {
	ID     json.RawMessage
	Method string
	Params struct{ Message string }
	Result json.RawMessage
	Error  json.RawMessage
}

// A Session is a client of 2025-11-25 that does what the protocol lets it do:
// when a stream breaks before its response, it comes back with the id of the
// last event. Its requests may be made at the same time.
type Session struct {
	URL   string
	Asked Asked // nil = it cannot be asked

	// Resumed is how often it came back.
	Resumed int

	id string
}

// Open opens the session.
func (s *Session) Open(ctx context.Context) error {
	capabilities := `{"tasks":{"list":{},"cancel":{}}}`
	if s.Asked != nil {
		capabilities = `{"elicitation":{},"tasks":{"list":{},"cancel":{}}}`
	}
	response, err := s.post(ctx, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+Legacy+`","capabilities":`+
		capabilities+`,"clientInfo":{"name":"session","version":"1"}}}`)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if s.id = response.Header.Get("Mcp-Session-Id"); s.id == "" {
		return fmt.Errorf("no session: %s", response.Status)
	}
	return nil
}

func (s *Session) post(ctx context.Context, body string) (*http.Response, error) {
	return s.send(ctx, http.MethodPost, body, "")
}

func (s *Session) send(ctx context.Context, method, body, last string) (*http.Response, error) {
	headers := map[string]string{"Mcp-Protocol-Version": Legacy}
	if s.id != "" {
		headers["Mcp-Session-Id"] = s.id
	}
	if last != "" {
		headers["Last-Event-ID"] = last
	}
	return send(ctx, method, s.URL, body, headers)
}

func send(ctx context.Context, method, url, body string, headers map[string]string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Header.Set("Content-Type", "application/json")
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	return http.DefaultClient.Do(request)
}

// Request gives the result of a request, through as many streams as it takes.
func (s *Session) Request(ctx context.Context, id int, method, params string) (json.RawMessage, error) {
	response, err := s.post(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params))
	last := ""
	for {
		if err == nil && response.StatusCode == http.StatusOK && !streams(response) {
			return result(response)
		} else if err == nil && response.StatusCode == http.StatusOK {
			var m *message
			if m, last = s.read(ctx, response, last, fmt.Sprint(id)); m != nil {
				return m.Result, asError(m.Error)
			}
		} else if err == nil {
			response.Body.Close()
			err = fmt.Errorf("status %s", response.Status)
		}
		if last == "" {
			return nil, fmt.Errorf("the call broke before the client had a place to come back to: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond): // less than the server asks for
		}
		s.Resumed++
		response, err = s.send(ctx, http.MethodGet, "", last)
	}
}

// Notify sends a notification.
func (s *Session) Notify(ctx context.Context, method, params string) error {
	response, err := s.post(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params))
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func streams(response *http.Response) bool {
	return strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream")
}

// read reads a stream to its end or to the response, and answers what it asks.
func (s *Session) read(ctx context.Context, response *http.Response, last, id string) (*message, string) {
	defer response.Body.Close()
	place := ""
	for field, value := range events(response) {
		switch field {
		case "id":
			place = value
		case "data":
			if place != "" {
				last = place
			}
			var m message
			if json.Unmarshal([]byte(value), &m) != nil {
				continue
			}
			if m.Method == ask && s.Asked != nil {
				go s.answer(ctx, m)
			}
			if m.Method == "" && string(m.ID) == id {
				return &m, last
			}
		}
	}
	return nil, last
}

// events are the fields of a stream.
func events(response *http.Response) func(yield func(field, value string) bool) {
	return func(yield func(string, string) bool) {
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, 8<<20)
		for lines.Scan() {
			if field, value, _ := strings.Cut(lines.Text(), ": "); !yield(field, value) {
				return
			}
		}
	}
}

// answer answers a question, again until somebody takes the answer.
func (s *Session) answer(ctx context.Context, m message) {
	action, content, err := s.Asked(ctx, m.Params.Message)
	if err != nil {
		return
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": map[string]any{"action": action, "content": content}})
	if err != nil {
		return
	}
	for ctx.Err() == nil {
		response, err := s.post(ctx, string(body))
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusAccepted {
				return
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond): // the replica may be on its way out
		}
	}
}

// A Sessionless is a client of 2026-07-28.
type Sessionless struct {
	URL string
	// Capabilities is a JSON object, such as {"elicitation":{}}; "" = {}.
	Capabilities string
}

// Request sends a request and gives its result. Params are the members of the
// object without braces; name is that of the tool or the task.
func (s *Sessionless) Request(ctx context.Context, id int, method, name, params string) (json.RawMessage, error) {
	capabilities := s.Capabilities
	if capabilities == "" {
		capabilities = "{}"
	}
	meta := `"io.modelcontextprotocol/protocolVersion":"` + Modern + `","io.modelcontextprotocol/clientInfo":{"name":"sessionless","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":` + capabilities
	if rest, ok := strings.CutPrefix(params, `"_meta":{`); ok { // the caller has some of its own
		params = `"_meta":{` + meta + "," + rest
	} else {
		params += `,"_meta":{` + meta + "}"
	}
	response, err := send(ctx, http.MethodPost, s.URL, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, id, method, params),
		map[string]string{"Mcp-Protocol-Version": Modern, "Mcp-Method": method, "Mcp-Name": name})
	if err != nil {
		return nil, err
	}
	return result(response)
}

// result is the result that a response has, plain or at the end of a stream.
func result(response *http.Response) (json.RawMessage, error) {
	defer response.Body.Close()
	var m message
	if !streams(response) {
		if err := json.NewDecoder(response.Body).Decode(&m); err != nil {
			return nil, fmt.Errorf("status %s: %w", response.Status, err)
		}
		return m.Result, asError(m.Error)
	}
	for field, value := range events(response) {
		if field == "data" && json.Unmarshal([]byte(value), &m) == nil && m.Method == "" && len(m.ID) > 0 {
			return m.Result, asError(m.Error)
		}
	}
	return nil, fmt.Errorf("the stream ended without a result")
}

func asError(raw json.RawMessage) error {
	if len(raw) > 0 {
		return fmt.Errorf("JSON-RPC error %s", raw)
	}
	return nil
}
