package gateway_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/backends"
)

// TestDryRun asks for plans in both eras and of every kind of tool: no run is
// started and no backend is called.
func TestDryRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"echoed": echoed})
	var called atomic.Int32
	w.catalogue.call = func(context.Context, backends.Call) (*backends.Result, error) {
		called.Add(1)
		return nil, context.Canceled
	}
	session := connect(t, w.url, "ann", "2025-11-25", `{}`)
	const dry = `{"perdure/dry-run":true,"perdure/idempotency-key":"k"}`
	modern := &wire{T: t, url: w.url, caller: "ann"}

	for era, m := range map[string]*msg{
		"session": session.call("1", "echoed", `{"message":"m","extra":12345678901234567890}`, dry).result(false),
		"modern":  modernDry(modern, "echoed", `{"message":"m","extra":12345678901234567890}`).result(false),
	} {
		var plan view.Plan
		if err := json.Unmarshal(m.Result.Structured, &plan); err != nil {
			t.Fatalf("%s: %v", era, err)
		}
		if string(plan.Arguments) != `{"extra":12345678901234567890,"message":"m","n":1}` || len(plan.Steps) != 2 || plan.AtMost.Writes != 2 {
			t.Errorf("%s: plan %s", era, m.Result.Structured)
		}
		if string(m.Result.Meta["perdure/dry-run"]) != "true" || m.Result.Meta["perdure/run"] != nil {
			t.Errorf("%s: _meta %s", era, m.Result.Meta)
		}
		if err := hasAll(m.text(), "nothing was called", `message = "m"`, "no approval before it"); err != nil {
			t.Errorf("%s: %v", era, err)
		}
	}

	for name, tt := range map[string]struct{ tool, arguments, want string }{
		"arguments that do not fit": {"echoed", `{"message":7}`, "message"},
		"a tool of a backend":       {"be_echo", `{}`, "be_echo is not a composite tool"},
		"a built-in tool":           {"perdure_run_cancel", `{"runId":"echoed/1"}`, "not a composite tool"},
	} {
		if m := session.call(`"`+name+`"`, tt.tool, tt.arguments, dry).result(true); !strings.Contains(m.text(), tt.want) {
			t.Errorf("%s: %s", name, m.text())
		}
	}
	if m := session.call("9", "echoed", `{"message":"m"}`, `{"perdure/dry-run":"true"}`).next(); m.Error == nil {
		t.Errorf("a dry run that is asked for wrongly was answered by %s", m.text())
	}

	if w.runs.starts != 0 || called.Load() != 0 {
		t.Errorf("%d runs were started and %d tools called", w.runs.starts, called.Load())
	}
	session.call("10", "echoed", `{"message":"m"}`, `{"perdure/dry-run":false}`).result(false)
	if w.runs.starts != 1 {
		t.Error("a call that is no dry run started no run")
	}
}

// modernDry asks for a plan by a request of 2026-07-28.
func modernDry(w *wire, name, arguments string) *response {
	w.Helper()
	return w.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`","arguments":`+arguments+
		`,"_meta":{"perdure/dry-run":true,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"wire","version":"2"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", name)
}
