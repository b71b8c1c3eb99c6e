package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
)

// A call waits for its run while the server cannot reach it.
func TestCallWaitsForItsRun(t *testing.T) {
	t.Parallel()
	var awaited atomic.Int64
	s := mcpserver.NewMCPServer("perdure", "1")
	s.AddTool(mcp.NewTool("deploy"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		r := mcp.NewToolResultText("It goes on.")
		r.Meta = &mcp.Meta{AdditionalFields: map[string]any{"perdure/run": map[string]any{"id": "deploy/1", "status": "running"}}}
		return r, nil
	})
	s.AddTool(mcp.NewTool(awaitTool, mcp.WithString("runId")), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if id := req.GetString("runId", ""); id != "deploy/1" {
			t.Errorf("awaited is %q", id)
		}
		if awaited.Add(1) < 3 {
			r := mcp.NewToolResultError("runs cannot be reached at the moment, nothing is lost (run deploy/1)")
			r.Meta = &mcp.Meta{AdditionalFields: map[string]any{"perdure/error": map[string]any{"code": "unavailable"}}}
			return r, nil
		}
		return mcp.NewToolResultText("deployed"), nil
	})
	listener := httptest.NewServer(mcpserver.NewStreamableHTTPServer(s))
	defer listener.Close()
	var notes bytes.Buffer
	call := &pendingCall{c: &console{err: &notes, exact: &notes}, to: target{url: listener.URL}, name: "deploy", key: "k"}
	result, err := call.result(t.Context())
	if err != nil || result.IsError || result.text() != "deployed" || awaited.Load() != 3 {
		t.Errorf("%v, %+v, awaited %d times", err, result, awaited.Load())
	}
	if n := strings.Count(notes.String(), "cannot reach the run"); n != 1 {
		t.Errorf("said %d times: %s", n, notes.String())
	}
}

// TestCallThatIsTurnedDown: a call is made again where a proxy finds no server, and not where
// it refuses the call itself.
func TestCallThatIsTurnedDown(t *testing.T) {
	t.Parallel()
	s := mcpserver.NewMCPServer("perdure", "1")
	s.AddTool(mcp.NewTool("deploy"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("deployed"), nil
	})
	server := mcpserver.NewStreamableHTTPServer(s)
	answers := []int{http.StatusBadGateway, http.StatusTooManyRequests, http.StatusRequestEntityTooLarge}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte(`"tools/call"`)) && len(answers) > 0 {
			w.WriteHeader(answers[0])
			answers = answers[1:]
			fmt.Fprintln(w, "<html>")
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		server.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	var notes bytes.Buffer
	call := &pendingCall{c: &console{err: &notes, exact: &notes}, to: target{url: proxy.URL}, name: "deploy", key: "k"}
	if _, err := call.result(t.Context()); err == nil || !strings.Contains(err.Error(), "status 413") || len(answers) > 0 {
		t.Errorf("%v, left %v", err, answers)
	}
}

// TestUnreached: what to do is said where no answer came, once and without the words of
// the layers in between.
func TestUnreached(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	for url, want := range map[string]string{
		"http://nowhere.invalid/mcp":                              "cannot find the host of http://nowhere.invalid/mcp: ",
		strings.Replace(plain.URL, "http:", "https:", 1) + "/mcp": "is served without TLS; write http:// instead",
		"127.0.0.1/mcp": `--url or PERDURE_URL: "127.0.0.1/mcp" is not the URL of an MCP endpoint`,
	} {
		_, err := connect(t.Context(), target{url: url})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "transport error") {
			t.Errorf("%s: got %v, want %s", url, err, want)
		}
	}
}

// TestUnreachedByCheck: a check names its own flag.
func TestUnreachedByCheck(t *testing.T) {
	t.Parallel()
	_, err := againstFlags{Against: "http://127.0.0.1:1/mcp"}.listedTools(t.Context())
	if err == nil || !strings.HasSuffix(err.Error(), "or name another server with --against") {
		t.Error(err)
	}
}
