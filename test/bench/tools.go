package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
)

// toolSchema is the input of a tool as servers have them.
const toolSchema = `{"type":"object","properties":{"owner":{"type":"string","description":"The account that owns the repository."},` +
	`"repository":{"type":"string","description":"The name of the repository."},"number":{"type":"integer","minimum":1},` +
	`"labels":{"type":"array","items":{"type":"string"}},"state":{"type":"string","enum":["open","closed"]}},"required":["owner","repository"]}`

// measureTools prints what it takes to list the tools of a server, and of perdure in front
// of it.
func measureTools(ctx context.Context, perdure string, tools, lists int) error {
	dir, err := os.MkdirTemp("", "perdure-bench-")
	if err != nil {
		return err
	}
	l := &lab{dir: dir, urls: map[string]string{}, pids: map[string]int{}}
	defer l.close()
	address, done, err := serveTools(tools)
	if err != nil {
		return err
	}
	defer done()
	config := "name: tools\nincomingAuth: {type: anonymous}\n" + plenty + "backends:\n  - {name: be, url: http://" + address + "/mcp, transport: streamable-http}\n"
	if err := l.serve(ctx, perdure, "tools", config); err != nil {
		return err
	}
	fmt.Print("| tools/list | tools | p50 / p99 | processor time of the server |\n|---|---|---|---|\n")
	for _, row := range []struct {
		name, url string
		pid       int
	}{
		{"perdure", l.urls["tools"], l.pids["tools"]},
		{"mcp-go, with the client in its process", "http://" + address + "/mcp", os.Getpid()},
	} {
		if err := list(ctx, row.name, row.url, row.pid, tools, lists); err != nil {
			return err
		}
	}
	return nil
}

func serveTools(n int) (address string, done func(), err error) {
	s := mcpserver.NewMCPServer("tools", "1", mcpserver.WithToolCapabilities(true))
	for i := range n {
		name := fmt.Sprintf("tool_%d", i)
		s.AddTool(mcp.NewToolWithRawSchema(name, "Reads the issues of a repository, by state and labels, "+name+".", json.RawMessage(toolSchema)),
			func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return mcp.NewToolResultText("done"), nil
			})
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	web := &http.Server{Handler: mcpserver.NewStreamableHTTPServer(s, mcpserver.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler))), ReadHeaderTimeout: time.Minute}
	go func() { _ = web.Serve(listener) }()
	return listener.Addr().String(), func() { _ = web.Close() }, nil
}

func list(ctx context.Context, name, url string, pid, tools, lists int) error {
	over, err := transport.NewStreamableHTTP(url, transport.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	c := client.NewClient(over, client.WithLegacyProtocolOnly())
	if err := c.Start(ctx); err != nil {
		return err
	}
	defer c.Close()
	hello := mcp.InitializeRequest{}
	hello.Params.ProtocolVersion = mcp.LATEST_LEGACY_PROTOCOL_VERSION
	hello.Params.ClientInfo = mcp.Implementation{Name: "bench", Version: "1"}
	if _, err := c.Initialize(ctx, hello); err != nil {
		return err
	}
	for until := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		all, err := c.ListTools(ctx, mcp.ListToolsRequest{})
		if err != nil {
			return err
		}
		if len(all.Tools) >= tools {
			break
		}
		if time.Now().After(until) {
			return fmt.Errorf("%s lists %d tools", name, len(all.Tools))
		}
	}
	before, err := processor(pid)
	if err != nil {
		return err
	}
	var times []time.Duration
	for range lists {
		began := time.Now()
		if _, err := c.ListTools(ctx, mcp.ListToolsRequest{}); err != nil {
			return err
		}
		times = append(times, time.Since(began))
	}
	after, err := processor(pid)
	fmt.Printf("| %s | %d | %.1f / %.1f ms | %.1f ms |\n", name, tools, percentile(times, .5), percentile(times, .99), (after-before).Seconds()*1000/float64(lists))
	return err
}
