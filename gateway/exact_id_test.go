package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

// Ids that no float64 holds, or that it would write otherwise.
var exactIDs = []string{"9007199254740993", "-9007199254740993", "123456789012345678901234567890", "1e3", "1.0", "0.1", "7", `"9007199254740993"`}

// Every request is answered with the id that it had, to the digit.
func TestExactIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"echoed": echoed})
	session := connect(t, w.url, "ann", "2025-11-25", `{}`)
	modern := &wire{T: t, url: w.url, caller: "ann"}
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	for _, id := range exactIDs {
		is := func(name string, got []byte) {
			var m struct {
				ID     json.RawMessage
				Params struct {
					Meta map[string]json.RawMessage `json:"_meta"`
				}
			}
			if err := json.Unmarshal(got, &m); err != nil {
				t.Fatalf("%s: %v in %s", name, err, got)
			}
			if of := m.Params.Meta["io.modelcontextprotocol/subscriptionId"]; of != nil {
				m.ID = of
			}
			if string(m.ID) != id {
				t.Errorf("%s with id %s is answered with %s", name, id, got)
			}
		}
		for name, body := range map[string]string{
			"initialize":   `"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`,
			"ping":         `"method":"ping"`,
			"tools/list":   `"method":"tools/list","params":{}`,
			"tools/call":   `"method":"tools/call","params":{"name":"echoed","arguments":{}}`,
			"unknown tool": `"method":"tools/call","params":{"name":"nothing"}`,
			"no method":    `"method":"nothing/here"`,
			"tasks/list":   `"method":"tasks/list","params":{}`,
			"tasks/get":    `"method":"tasks/get","params":{"taskId":"x"}`,
		} {
			is(name, session.post(`{"jsonrpc":"2.0","id":`+id+`,`+body+`}`).messageText())
		}
		for name, method := range map[string]string{"discover": "server/discover", "tools/list": "tools/list", "subscriptions/listen": "subscriptions/listen", "no method": "nothing/here"} {
			resp := modern.do(t.Context(), http.MethodPost, `{"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`","params":{"notifications":{"toolsListChanged":true},`+meta+`}}`,
				"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method)
			is("modern "+name, resp.messageText())
			_ = resp.Body.Close()
		}
		done := session.request("tools/call", `{"name":"echoed","arguments":{},"task":{}}`).ok().Task.TaskID
		for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
			is(method+" of a task", session.post(`{"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`","params":`+of(done)+`}`).messageText())
		}
		task := modern.modernCall("echoed", `{"id":`+id+`}`, takesTasks, "").ok().TaskID
		for method, params := range map[string]string{
			"tools/call":   `"name":"echoed","arguments":{}`,
			"tasks/get":    fmt.Sprintf(`"taskId":%q`, task),
			"tasks/update": fmt.Sprintf(`"taskId":%q,"inputResponses":{}`, task),
			"tasks/cancel": fmt.Sprintf(`"taskId":%q`, task),
		} {
			name := "echoed"
			if method != "tools/call" {
				name = task
			}
			body := `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params +
				`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + takesTasks + `}}}`
			is("modern "+method, modern.post(body, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name).messageText())
		}
	}
}

func TestExactIDsOnStdio(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"echoed": echoed})
	in, out, _ := pipe(t, w)
	dec := json.NewDecoder(out)
	for _, id := range exactIDs {
		for _, body := range []string{
			`"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`,
			`"method":"ping"`, `"method":"tools/list","params":{}`, `"method":"nothing/here"`,
			`"method":"tools/call","params":{"name":"echoed","arguments":{}}`,
		} {
			if _, err := io.WriteString(in, `{"jsonrpc":"2.0","id":`+id+`,`+body+"}\n"); err != nil {
				t.Fatal(err)
			}
			var m struct{ ID json.RawMessage }
			if err := dec.Decode(&m); err != nil || string(m.ID) != id {
				t.Errorf("id %s of %s came back as %s: %v", id, strings.SplitN(body, ",", 2)[0], m.ID, err)
			}
		}
	}
	listen := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, exactIDs[0])
	if _, err := io.WriteString(in, listen+"\n"); err != nil {
		t.Fatal(err)
	}
	var m struct {
		Params struct {
			Meta map[string]json.RawMessage `json:"_meta"`
		}
	}
	if err := dec.Decode(&m); err != nil || string(m.Params.Meta["io.modelcontextprotocol/subscriptionId"]) != exactIDs[0] {
		t.Errorf("the subscription is called %s: %v", m.Params.Meta, err)
	}
}

// TestInvalidRequests sends JSON that is no message: it is said to be none, and
// nothing is executed.
func TestInvalidRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"echoed": echoed})
	in, out, _ := pipe(t, w)
	dec := json.NewDecoder(out)
	const request = `"method":"tools/call","params":{"name":"echoed","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":{},` + request:        "must be a string or a number",
		`{"jsonrpc":"2.0","id":[1],` + request:       "must be a string or a number",
		`{"jsonrpc":"2.0","id":true,` + request:      "must be a string or a number",
		`{"jsonrpc":"2.0","id":null,` + request:      "must be a string or a number",
		` [{"jsonrpc":"2.0","id":1,` + request + `]`: "send each message by itself",
	} {
		c := &wire{T: t, url: w.url, caller: "ann"}
		resp := c.post(body)
		text := perduretest.Must(io.ReadAll(resp.Body))(t)
		if _, err := io.WriteString(in, body+"\n"); err != nil {
			t.Fatal(err)
		}
		var line json.RawMessage
		perduretest.NoError(t, dec.Decode(&line))
		for where, got := range map[string]string{"HTTP": string(text), "stdio": string(line)} {
			if err := hasAll(got, `"code":-32600`, `"id":null`, want); err != nil {
				t.Errorf("%s by %s: %v", body, where, err)
			}
		}
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: HTTP %d", body, resp.StatusCode)
		}
	}
	w.runs.mu.Lock()
	defer w.runs.mu.Unlock()
	if n := w.runs.starts; n != 0 {
		t.Errorf("%d runs were started", n)
	}
}
