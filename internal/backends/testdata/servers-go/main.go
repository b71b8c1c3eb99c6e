// Command servers-go is an MCP server on the official Go SDK, with which the
// tests of package backends talk. It says on stdout where it listens.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type text struct {
	Text string `json:"text"`
}

func main() {
	overHTTP := flag.Bool("http", false, "listen on a free port, rather than to stdin")
	stateless := flag.Bool("stateless", false, "keep no sessions")
	flag.Parse()
	server := mcp.NewServer(&mcp.Implementation{Name: "servers-go", Version: "1"}, nil)
	echo := func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, text, error) {
		return nil, in, nil
	}
	mcp.AddTool(server, &mcp.Tool{Name: "echo", Description: "Says what it is told."}, echo)
	mcp.AddTool(server, &mcp.Tool{Name: "grow", Description: "Adds a tool."}, func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, text, error) {
		mcp.AddTool(server, &mcp.Tool{Name: in.Text, Description: "Was added."}, echo)
		return nil, in, nil
	})
	if !*overHTTP {
		if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			log.Print(err)
		}
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("http://%s/mcp\n", listener.Addr())
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: *stateless})
	log.Fatal(http.Serve(listener, handler))
}
