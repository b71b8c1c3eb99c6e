package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/web"
)

// TestAttackStdioLines sends lines that are too long, or have too many values: each request
// among them gets an error under its id, wherever that is in the line, and other calls are
// not affected.
func TestAttackStdioLines(t *testing.T) {
	t.Parallel()
	const most = 2_000_000
	w := newWorld(t, map[string]func(*play){"hang": hanging, "echoed": echoed}, func(o *gateway.Options) {
		o.MaxRequest, o.Bodies = most, web.NewBodies(4*most, 10*time.Millisecond)
	})
	in, out, _ := pipe(t, w)
	say, hear := lines(t, in, out)
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	say(`{"jsonrpc":"2.0","id":"first","method":"tools/call","params":{"name":"hang","arguments":{},` + meta + `}}`)
	w.runs.only(t)
	text := strings.Repeat(`\"},\"id\":5,{[`, 3*most/10)
	params := fmt.Sprintf(`"params":{"name":"echoed","arguments":{"id":6,"method":7,"a":"%s","b":[{"id":8}]},%s}`, text, meta)
	for _, tt := range []struct{ line, id string }{
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call",` + params + `}`, `1`},
		{`{"method":"tools/call",` + params + `,"jsonrpc":"2.0","id" : "a\"b" }`, `"a\"b"`},
		{`{` + params + `,"id":12345678901234567890,"method":"ping","jsonrpc":"2.0"}`, `12345678901234567890`},
		{`{"jsonrpc":"2.0","id":2,"method":"ping","params":{"a":[` + strings.Repeat(`0,`, 9*most/20) + `0]}}`, `2`},
		{`{"jsonrpc":"2.0","method":"notifications/x",` + params + `}`, ``},
		{`{"jsonrpc":"2.0","id":3,"result":{},` + params + `}`, ``},
		{`[{"jsonrpc":"2.0","id":4,"method":"ping",` + params + `}]`, ``},
		{`{"jsonrpc":"2.0","method":"ping","id":"` + strings.Repeat("x", 2*most) + `"}`, ``},
		{strings.Repeat("[", 2*most), ``},
	} {
		say(tt.line)
		if tt.id == "" {
			continue
		}
		if m := hear(); m.Error == nil || m.Error.Code != -32600 || string(m.ID) != tt.id {
			t.Errorf("%.60s…: %s %+v", tt.line, m.ID, m.Error)
		}
	}
	say(`{"jsonrpc":"2.0","id":"last","method":"tools/call","params":{"name":"echoed","arguments":{},` + meta + `}}`)
	if m := hear(); string(m.ID) != `"last"` || m.Result == nil || m.Result.IsError {
		t.Errorf("the call after them: %s %+v", m.ID, m.Error)
	}
}

// TestAttackStdioFlood has a client send more requests than one may have under way:
// those that are too many are refused, each under its id.
func TestAttackStdioFlood(t *testing.T) {
	t.Parallel()
	const most = 3
	w := newWorld(t, map[string]func(*play){"hang": hanging}, func(o *gateway.Options) { o.Quotas.Requests = most })
	in, out, _ := pipe(t, w)
	_, hear := lines(t, in, out)
	go func() {
		for i := range 2 * most {
			_, _ = fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"hang","arguments":{"n":%d},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`+"\n", i, i)
		}
	}()
	for range most {
		if m := hear(); m.Error == nil || !strings.Contains(m.Error.Message, "quotas.requests") {
			t.Errorf("%s: %+v", m.ID, m.Error)
		}
	}
	w.runs.change(func() {
		if n := len(w.runs.runs); n > most {
			t.Errorf("%d runs were started, want %d", n, most)
		}
	})
}

// TestAttackStdioUnread has a client send requests and read nothing: it is not read
// from any more, once it has as many under way as it may have.
func TestAttackStdioUnread(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, func(o *gateway.Options) { o.Quotas.Requests = 3 })
	in, _, _ := pipe(t, w)
	var sent atomic.Int64
	go func() {
		for i := range 100 {
			if _, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", i); err != nil {
				return
			}
			sent.Add(1)
		}
	}()
	time.Sleep(300 * time.Millisecond)
	if n := sent.Load(); n > 10 {
		t.Errorf("%d requests were taken of a client that reads nothing", n)
	}
	_ = in.Close()
}

// TestAttackStdioListens: a subscription lasts as long as its client likes, and would
// hold the room for a large request as long; on stdio it may be no larger than over HTTP.
func TestAttackStdioListens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, func(o *gateway.Options) { o.MaxRequest = 4 << 20 })
	in, out, _ := pipe(t, w)
	dec := json.NewDecoder(out)
	listen := func(id int, pad string) {
		_, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"pad":%q,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`+"\n", id, pad)
		if err != nil {
			t.Error(err)
		}
	}
	listen(1, strings.Repeat("x", 2<<20))
	_, _ = io.WriteString(in, `{"jsonrpc":"2.0","id":2,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`+"\n")
	var m msg
	if err := dec.Decode(&m); err != nil || string(m.ID) != "1" || m.Error == nil || m.Error.Code != -32600 {
		t.Errorf("a large subscription is answered %s %+v, %v", m.ID, m.Error, err)
	}
	if m = (msg{}); dec.Decode(&m) != nil || string(m.ID) != "2" {
		t.Errorf("the next request is answered %s %+v", m.ID, m.Error)
	}
}
