package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
)

// hops put bare workflows where perdure's are: an MCP server of mcp-go whose tools each
// run one, before them, and an MCP client of mcp-go in their activities.
type hops struct {
	backend *client.Client
	web     *http.Server
	url     string // followed by activities or local
}

func newHops(ctx context.Context, b *bare, backend string) (*hops, error) {
	connections := &http.Client{Transport: &http.Transport{MaxIdleConns: 512, MaxIdleConnsPerHost: 512}}
	over, err := transport.NewStreamableHTTP(backend, transport.WithHTTPBasicClient(connections))
	if err != nil {
		return nil, err
	}
	h := &hops{backend: client.NewClient(over)}
	if err := h.backend.Start(ctx); err != nil {
		return nil, err
	}
	hello := mcp.InitializeRequest{}
	hello.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	hello.Params.ClientInfo = mcp.Implementation{Name: "bare", Version: "1"}
	if _, err := h.backend.Initialize(ctx, hello); err != nil {
		return nil, fmt.Errorf("connecting to the backend: %w", err)
	}
	mux := http.NewServeMux()
	for name, local := range map[string]bool{"activities": false, "local": true} {
		mux.Handle("/"+name, mcpserver.NewStreamableHTTPServer(h.tools(b, manner{Local: local, Calls: true}),
			mcpserver.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler))))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h.url = "http://" + listener.Addr().String() + "/"
	h.web = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = h.web.Serve(listener) }()
	return h, nil
}

func (h *hops) close() {
	_ = h.web.Close()
	_ = h.backend.Close()
}

// tools are an MCP server with a tool for each shape.
func (h *hops) tools(b *bare, m manner) *mcpserver.MCPServer {
	s := mcpserver.NewMCPServer("bare", "1", mcpserver.WithToolCapabilities(true), mcpserver.WithElicitation())
	for _, shape := range shapes {
		if shape.script || shape.direct {
			continue
		}
		s.AddTool(mcp.NewTool(shape.name), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			decide := func(ctx context.Context) error { return elicit(ctx, s) }
			if err := b.run(ctx, shape.name, m, decide); err != nil {
				return nil, err
			}
			return mcp.NewToolResultText("done"), nil
		})
	}
	s.AddTool(mcp.NewTool("be_echo"), h.pass)
	return s
}

// pass passes a call on to the backend, as a proxy does.
func (h *hops) pass(ctx context.Context, call mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	request := mcp.CallToolRequest{}
	request.Params.Name, request.Params.Arguments = "echo", call.Params.Arguments
	return h.backend.CallTool(ctx, request)
}

func elicit(ctx context.Context, s *mcpserver.MCPServer) error {
	ask := mcp.ElicitationRequest{}
	ask.Params.Message = "Write?"
	ask.Params.RequestedSchema = map[string]any{"type": "object", "properties": map[string]any{"reason": map[string]any{"type": "string"}}}
	answer, err := s.RequestElicitation(ctx, ask)
	if err == nil && answer.Action != mcp.ElicitationResponseActionAccept {
		err = fmt.Errorf("the client answered %s", answer.Action)
	}
	return err
}

// call is an activity that calls a tool of the backend.
func (h *hops) call(ctx context.Context, tool string, arguments map[string]any) (any, error) {
	request := mcp.CallToolRequest{}
	request.Params.Name, request.Params.Arguments = tool, arguments
	result, err := h.backend.CallTool(ctx, request)
	if err != nil {
		return nil, err
	}
	if result.IsError {
		return nil, fmt.Errorf("%s failed: %v", tool, result.Content)
	}
	return result.StructuredContent, nil
}
