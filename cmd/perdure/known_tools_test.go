package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/perdure/perdure/internal/perduretest"
)

// What a server says of its tools, and whether it hides some, is asked once.
func TestKnownToolsAskOnce(t *testing.T) {
	t.Parallel()
	s := mcpserver.NewMCPServer("perdure", "1")
	s.AddTool(mcp.NewTool("be_echo"), nil)
	var asked atomic.Int32
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcpserver.NewStreamableHTTPServer(s))
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, `{"partial": true, "tools": [{"name": "be_echo", "backend": "be", "original": "echo"}, {"name": "be_hidden", "backend": "be", "original": "hidden", "hidden": true}]}`)
	})
	listener := httptest.NewServer(mux)
	t.Cleanup(listener.Close)

	known := perduretest.Must(validateCommand{againstFlags: againstFlags{Against: listener.URL + "/mcp"}}.knownTools(t.Context()))(t)
	if len(known.listed) != 2 || !known.part || asked.Load() != 1 {
		t.Errorf("%d tools, part = %v, asked %d times", len(known.listed), known.part, asked.Load())
	}
}
