package service

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/store"
)

// An answer has room for an output, once more as text: more than that only where large
// values are kept.
func TestAnswersFitWhatIsKept(t *testing.T) {
	t.Parallel()
	s := server.NewMCPServer("be", "1", server.WithToolCapabilities(true))
	for name, size := range map[string]int{"fits": 6 << 20, "large": 9 << 20} {
		s.AddTool(mcp.NewTool(name), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText(strings.Repeat("x", size)), nil
		})
	}
	be := httptest.NewServer(server.NewStreamableHTTPServer(s))
	t.Cleanup(be.Close)
	loaded := &config.Loaded{Settings: config.Settings{Backends: []backends.Config{{Name: "be", Transport: backends.StreamableHTTP, URL: be.URL}}}}
	for _, values := range []store.Values{nil, struct{ store.Values }{}} {
		pool, _, err := newPool(Options{Loaded: loaded, Values: values})
		if err != nil {
			t.Fatal(err)
		}
		pool.Start(t.Context())
		t.Cleanup(pool.Close)
		if !pool.WaitReady(t.Context(), 30*time.Second) {
			t.Fatal("not ready")
		}
		if _, err := pool.Call(t.Context(), backends.Call{Backend: "be", Tool: "fits"}); err != nil {
			t.Errorf("large values %t: %v", values != nil, err)
		}
		_, err = pool.Call(t.Context(), backends.Call{Backend: "be", Tool: "large"})
		if errors.Is(err, backends.ErrTooLarge) != (values == nil) {
			t.Errorf("large values %t: %v", values != nil, err)
		}
	}
}
