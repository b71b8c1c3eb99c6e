package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestAttackNotUTF8: a message with bytes that are no UTF-8 is refused under its id,
// does nothing, and brings none of them back, on HTTP and on stdio.
func TestAttackNotUTF8(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"echoed": echoed})
	in, out, _ := pipe(t, w)
	lines := bufio.NewReader(out)
	const (
		bad    = "\xff\xed\xa0\x80"
		modern = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`
	)
	for _, c := range []struct{ id, params, want string }{
		{`7`, `"name":"echoed","arguments":{"a":"` + bad + `"},"_meta":{` + modern + `}`, `"id":7,`},
		{`"eight"`, `"name":"echoed","arguments":{},"_meta":{` + modern + `,"progressToken":"` + bad + `"}`, `"id":"eight",`},
		{`"` + bad + `"`, `"name":"echoed","arguments":{},"_meta":{` + modern + `}`, `"id":null,`},
		{`9`, `"name":"` + bad + `"`, `"id":9,`},
	} {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{%s}}`, c.id, c.params)
		if _, err := io.WriteString(in, body+"\n"); err != nil {
			t.Fatal(err)
		}
		answers := map[string]string{}
		answers["stdio"], _ = lines.ReadString('\n')
		resp := (&wire{T: t, url: w.url, caller: "ann"}).post(body, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "echoed")
		text, _ := io.ReadAll(resp.Body)
		answers["HTTP"] = string(text)
		for where, answer := range answers {
			if !utf8.ValidString(answer) || !strings.Contains(answer, c.want) || !strings.Contains(answer, "the message is not UTF-8 text") {
				t.Errorf("%s answers %q with %q", where, body, answer)
			}
		}
	}
	w.runs.mu.Lock()
	started := w.runs.starts
	w.runs.mu.Unlock()
	if started > 0 {
		t.Errorf("%d runs were started", started)
	}
	if _, err := io.WriteString(in, `{"jsonrpc":"2.0","id":10,"method":"ping"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if answer, _ := lines.ReadString('\n'); !strings.Contains(answer, `"id":10`) {
		t.Errorf("the next line is answered %q", answer)
	}
}
