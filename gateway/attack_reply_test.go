package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/perduretest"
)

// TestAttackSecondReply: on stdio, of two responses to one elicitation the one counts
// that was sent first, and one that has both a result and an error accepts nothing.
func TestAttackSecondReply(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated}, func(o *gateway.Options) { o.Patience = time.Second })
	in, out, _ := pipe(t, w)
	dec := json.NewDecoder(out)
	say := func(lines string) {
		t.Helper()
		if _, err := io.WriteString(in, lines); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(wanted func(*msg) bool) *msg {
		t.Helper()
		for {
			var m msg
			perduretest.NoError(t, dec.Decode(&m))
			if wanted(&m) {
				return &m
			}
		}
	}
	say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + canAsk + `,"clientInfo":{"name":"x","version":"1"}}}` + "\n")
	hear(func(m *msg) bool { return string(m.ID) == "0" })
	const accepts, declines = `{"action":"accept","content":{"reason":"r"}}`, `{"action":"decline"}`
	call := 0
	answered := func(responses ...string) *msg {
		t.Helper()
		call++
		say(callBody(fmt.Sprint(call), "gated", fmt.Sprintf(`{"n":%d}`, call), "") + "\n")
		id := string(hear(func(m *msg) bool { return m.Method == "elicitation/create" }).ID)
		lines := ""
		for _, response := range responses {
			lines += `{"jsonrpc":"2.0","id":` + id + `,` + response + "}\n"
		}
		say(lines)
		return hear(func(m *msg) bool { return string(m.ID) == fmt.Sprint(call) })
	}
	for range 10 {
		if m := answered(`"result":`+declines, `"result":`+accepts); !strings.Contains(string(m.Result.Structured), `"decline"`) {
			t.Fatalf("declined, and then accepted: %s", m.Result.Structured)
		}
		if m := answered(`"result":`+accepts, `"result":`+declines, `"result":`+declines); !strings.Contains(string(m.Result.Structured), `"accept"`) {
			t.Fatalf("accepted, and then declined: %s", m.Result.Structured)
		}
	}
	if m := answered(`"result":` + accepts + `,"error":{"code":-32603,"message":"no"}`); strings.Contains(string(m.Result.Structured), `"accept"`) {
		t.Errorf("accepted by an error: %s", m.Result.Structured)
	}
}
