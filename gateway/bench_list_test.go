package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/backends"
)

// BenchmarkList lists 2,000 tools of a backend to a client of 2026-07-28.
func BenchmarkList(b *testing.B) {
	schema := json.RawMessage(`{"type":"object","properties":{"owner":{"type":"string","description":"owner of the repository"},"labels":{"type":"array","items":{"type":"string"}},"state":{"enum":["open","closed"]}},"required":["owner"]}`)
	all := make([]backends.Tool, 2000)
	for i := range all {
		all[i] = tool(fmt.Sprintf("tool_%d", i))
		all[i].Description, all[i].InputSchema = "Reads the issues of a repository, by state and labels.", schema
	}
	g, err := gateway.New(gateway.Options{Runs: &fakeRuns{}, Catalogue: &fakeCatalogue{tools: all}, Keys: gateway.Keys{Key: testKey}})
	if err != nil {
		b.Fatal(err)
	}
	handler := g.Handler()
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"b","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	ask := func() *httptest.ResponseRecorder {
		ctx, end := context.WithCancel(b.Context()) // its end frees the room of the list
		defer end()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", strings.NewReader(list))
		for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"} {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	if w := ask(); w.Code != http.StatusOK || strings.Count(w.Body.String(), `"inputSchema"`) < len(all) {
		body, _ := io.ReadAll(io.LimitReader(w.Body, 500))
		b.Fatalf("the list is %d: %s", w.Code, body)
	}
	b.ReportAllocs()
	for b.Loop() {
		if w := ask(); w.Code != http.StatusOK {
			b.Fatalf("a list is answered %d", w.Code)
		}
	}
}
