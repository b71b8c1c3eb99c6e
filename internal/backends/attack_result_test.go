package backends

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
)

// TestAttackBackendAmbiguous: a result in which a member is there twice, or in other
// letters as well, says one thing to all who read it.
func TestAttackBackendAmbiguous(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]string{
		`{"_meta":5,"content":[],"_meta":{"perdure/error":{}}}`:                               `{"content":[],"_meta":{"perdure/error":{}}}`,
		`{"_meta":{"perdure/error":{}},"_meta":null,"content":[]}`:                            `{"_meta":null,"content":[]}`,
		`{"_META":{"perdure/error":{}},"_meta":{"a":1.50},"other":[1,{"x":"},\""}]}`:          `{"_meta":{"a":1.50},"other":[1,{"x":"},\""}]}`,
		`{"\u005fmeta":1, "_meta" : 2 , "x":"y" }`:                                            `{"_meta":2,"x":"y"}`,
		`{"isError":true,"IsError":false,"content":[]}`:                                       `{"isError":true,"content":[]}`,
		`{"structuredContent":{"a":1},"structuredcontent":{"a":2},"ReſultType":"x"}`:          `{"structuredContent":{"a":1}}`,
		`{"content":[],"resultType":"input_required","resultType":"complete"}`:                `{"content":[],"resultType":"complete"}`,
		` {"content":[{"type":"text","text":"as it is"}],"structuredContent":{"n":1e400}} `:   ` {"content":[{"type":"text","text":"as it is"}],"structuredContent":{"n":1e400}} `,
		`{"structuredContent":{"a":"]}","b":[{}]},"content":[],"n":-1.5e3,"t":true,"z":null}`: `{"structuredContent":{"a":"]}","b":[{}]},"content":[],"n":-1.5e3,"t":true,"z":null}`,
	} {
		result, err := parseResult(json.RawMessage(sent))
		if err != nil || string(result.Raw) != want {
			t.Errorf("%s\n gives %+v, %v", sent, result, err)
			continue
		}
		var read struct {
			IsError    bool            `json:"isError"`
			Structured json.RawMessage `json:"structuredContent"`
		}
		if err := json.Unmarshal([]byte(want), &read); err != nil || read.IsError != result.IsError || string(read.Structured) != string(result.Structured) || result.Asks {
			t.Errorf("%s\n is read as %+v, %v", sent, result, err)
		}
	}
}

// TestAttackBackendResultType: what is no end of a call, such as a task that was not
// asked for, is none: whether the tool was executed is not known.
func TestAttackBackendResultType(t *testing.T) {
	t.Parallel()
	said := ""
	h := &hostile{call: func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, said)
	}}
	p := open(t, httpConfig(serve(t, h).URL))
	for _, said = range []string{
		`{"resultType":"task","task":{"taskId":"x","status":"working"}}`, `{"resultType":"later","content":[]}`,
		`{"resultType":5}`, `[]`, `"done"`, `7`,
	} {
		_, err := callGo(t, p, Call{})
		var failed *CallError
		if !errors.As(err, &failed) || failed.Outcome != Unknown {
			t.Errorf("%s: %v", said, err)
		}
	}
	for _, said = range []string{`{"resultType":"complete","content":[]}`, `{"resultType":"","content":null}`, `{}`, `null`, ` { } `} {
		if _, err := callGo(t, p, Call{}); err != nil {
			t.Errorf("%s: %v", said, err)
		}
	}
}

// TestAttackBackendNotUTF8: bytes that are no UTF-8 stay in no list and no result: a
// client that reads strictly would lose all tools, or its connection.
func TestAttackBackendNotUTF8(t *testing.T) {
	t.Parallel()
	const bad = "a\xff\xfeb\xed\xa0\x80c"
	stream := false
	h := &hostile{
		list: func(string) any {
			return func(w http.ResponseWriter, id json.RawMessage) {
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"go","description":"%s","inputSchema":{"type":"object","description":"%s"},"outputSchema":{"type":"object","title":"%s"}}]}}`, id, bad, bad, bad)
			}
		},
		call: func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			text := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}],"structuredContent":{"%s":"%s"}}}`, id, bad, bad, bad)
			if stream {
				w.Header().Set("Content-Type", "text/event-stream")
				text = sseEvent(text)
			}
			fmt.Fprint(w, text)
		},
	}
	p := open(t, httpConfig(serve(t, h).URL))
	for _, tool := range p.Tools() {
		if all := tool.Description + string(tool.InputSchema) + string(tool.OutputSchema); !utf8.ValidString(all) || strings.Count(all, "a\uFFFDb") != 3 {
			t.Errorf("the tool is %q", all)
		}
	}
	for _, stream = range []bool{false, true} {
		if result, err := callGo(t, p, Call{}); err != nil || !utf8.Valid(result.Raw) || !utf8.Valid(result.Structured) {
			t.Errorf("stream %t: %+v, %v", stream, result, err)
		}
	}

	c := &child{flow: newFlow()}
	told := make(chan mcp.JSONRPCNotification, 1)
	c.notify = func(n mcp.JSONRPCNotification) { told <- n }
	if err := c.receive([]byte(`{"jsonrpc":"2.0","method":"notifications/` + bad + `"}`)); err != nil || !utf8.ValidString((<-told).Method) {
		t.Errorf("a line of a child: %v", err)
	}
	if text := string(utf8Text([]byte("fine ü"))); text != "fine ü" {
		t.Errorf("what is right became %q", text)
	}
}
