package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
)

// A fakeTool answers a call of a tool.
type fakeTool func(ctx context.Context, arguments map[string]any) (*mcp.CallToolResult, error)

// fakeServers are MCP servers inside of the test, one for each backend, that
// note each execution of a tool.
type fakeServers struct {
	web   *httptest.Server
	names []string // of the backends

	servers map[string]*mcpserver.MCPServer // by backend
	answers map[string]fakeTool

	mu          sync.Mutex
	calls       []fakeCall
	credentials []string // the header Authorization of each call
}

// A fakeCall is one execution of a tool.
type fakeCall struct {
	Tool      string // BACKEND_TOOL
	Arguments string // JSON, keys sorted
	Key       string // idempotency key

	Traceparent, TraceHeader string // the trace, in _meta and by header
}

// fakeSchema is the input schema of every tool: any arguments, with a number
// that templates must not make a string.
const fakeSchema = `{"type":"object","properties":{"pullNumber":{"type":"number"}}}`

// serveFakes serves tools by their full name, BACKEND_TOOL.
func serveFakes(t *testing.T, tools map[string]fakeTool) *fakeServers {
	servers := map[string]*mcpserver.MCPServer{}
	f := &fakeServers{servers: servers, answers: tools}
	mux := http.NewServeMux()
	for full, answer := range tools {
		backend, name, _ := strings.Cut(full, "_")
		if servers[backend] == nil {
			servers[backend] = mcpserver.NewMCPServer(backend, "1", mcpserver.WithToolCapabilities(true))
			f.names = append(f.names, backend)
			mux.Handle("/"+backend+"/mcp", mcpserver.NewStreamableHTTPServer(servers[backend]))
		}
		tool := mcp.NewToolWithRawSchema(name, "tool "+name, json.RawMessage(fakeSchema))
		servers[backend].AddTool(tool, f.noting(full, answer))
	}
	sort.Strings(f.names)
	f.web = httptest.NewServer(mux)
	t.Cleanup(func() {
		f.web.CloseClientConnections()
		f.web.Close()
	})
	return f
}

// redefine gives a tool another input schema.
func (f *fakeServers) redefine(full, schema string) {
	backend, name, _ := strings.Cut(full, "_")
	tool := mcp.NewToolWithRawSchema(name, "tool "+name, json.RawMessage(schema))
	f.servers[backend].AddTool(tool, f.noting(full, f.answers[full]))
}

func (f *fakeServers) noting(tool string, answer fakeTool) mcpserver.ToolHandlerFunc {
	return func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		arguments, err := json.Marshal(request.GetArguments())
		if err != nil {
			return nil, err
		}
		call := fakeCall{Tool: tool, Arguments: string(arguments)}
		if request.Params.Meta != nil {
			call.Key, _ = request.Params.Meta.AdditionalFields["perdure/idempotency-key"].(string)
			call.Traceparent, _ = request.Params.Meta.AdditionalFields["traceparent"].(string)
		}
		call.TraceHeader = request.Header.Get("Traceparent")
		f.mu.Lock()
		f.calls = append(f.calls, call)
		f.credentials = append(f.credentials, request.Header.Get("Authorization"))
		f.mu.Unlock()
		return answer(ctx, request.GetArguments())
	}
}

// configuration is that of all the servers, as YAML; effects is what stands
// under that key of each.
func (f *fakeServers) configuration(effects string) string {
	var b strings.Builder
	b.WriteString("backends:\n")
	for _, name := range f.names {
		fmt.Fprintf(&b, "  - {name: %s, transport: streamable-http, url: %q, effects: %s}\n", name, f.web.URL+"/"+name+"/mcp", effects)
	}
	return b.String()
}

// count tells how often a tool was executed with arguments that hold a text.
func (f *fakeServers) count(tool, with string) int {
	n := 0
	for _, call := range f.seen() {
		if call.Tool == tool && strings.Contains(call.Arguments, with) {
			n++
		}
	}
	return n
}

// authorized are the headers Authorization of all calls.
func (f *fakeServers) authorized() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.credentials)
}

func (f *fakeServers) seen() []fakeCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// structuredAnswer answers alike whatever the arguments are, with structured
// content.
func structuredAnswer(content string) fakeTool {
	return func(context.Context, map[string]any) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultStructured(json.RawMessage(content), content), nil
	}
}

// failingAnswer answers with an error.
func failingAnswer(text string) fakeTool {
	return func(context.Context, map[string]any) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultError(text), nil
	}
}

// textAnswer answers alike whatever the arguments are, with text.
func textAnswer(text string) fakeTool {
	return func(context.Context, map[string]any) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(text), nil
	}
}
