package backends

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/mark3labs/mcp-go/client/transport"
)

// An ExactTransport keeps the results of requests as the server has sent them, by
// method, until they are taken: mcp-go's client turns results into values in which
// large numbers lose digits and objects their order.
type ExactTransport struct {
	*transport.StreamableHTTP

	mu      sync.Mutex
	results map[string][]json.RawMessage
}

// NewExactTransport makes a transport of another one.
func NewExactTransport(http *transport.StreamableHTTP) *ExactTransport {
	return &ExactTransport{StreamableHTTP: http, results: map[string][]json.RawMessage{}}
}

// SendRequest sends a request, and keeps its result unless that is an error.
func (t *ExactTransport) SendRequest(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	response, err := t.StreamableHTTP.SendRequest(ctx, request)
	if err == nil && response.Error == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.results[request.Method] = append(t.results[request.Method], response.Result)
	}
	return response, err
}

// Take gives the results of a method since it was last asked, in order.
func (t *ExactTransport) Take(method string) []json.RawMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	results := t.results[method]
	delete(t.results, method)
	return results
}
