// Package exact keeps what MCP servers answer as they sent it: mcp-go's client turns
// results into values in which large numbers lose digits and objects their order.
package exact

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/mark3labs/mcp-go/client/transport"
)

// A Transport keeps the results of requests, by method, until they are taken.
type Transport struct {
	*transport.StreamableHTTP

	mu      sync.Mutex
	results map[string][]json.RawMessage
}

// New makes a transport of another one.
func New(http *transport.StreamableHTTP) *Transport {
	return &Transport{StreamableHTTP: http, results: map[string][]json.RawMessage{}}
}

// SendRequest sends a request, and keeps its result unless that is an error.
func (t *Transport) SendRequest(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	response, err := t.StreamableHTTP.SendRequest(ctx, request)
	if err == nil && response.Error == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.results[request.Method] = append(t.results[request.Method], response.Result)
	}
	return response, err
}

// Take gives the results of a method since it was last asked, in order.
func (t *Transport) Take(method string) []json.RawMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	results := t.results[method]
	delete(t.results, method)
	return results
}
