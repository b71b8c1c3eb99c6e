package backends

import (
	"sync"

	"github.com/mark3labs/mcp-go/client/transport"
)

// Awaited are the requests whose answers are waited for, or were.
type awaited struct {
	mu      sync.Mutex
	pending map[string]chan *transport.JSONRPCResponse
	left    map[string]bool // requests whose answers nobody waits for any more
}

func newAwaited() *awaited {
	return &awaited{pending: map[string]chan *transport.JSONRPCResponse{}, left: map[string]bool{}}
}

// add is where the answer to a request comes.
func (a *awaited) add(id string) chan *transport.JSONRPCResponse {
	a.mu.Lock()
	defer a.mu.Unlock()
	ch := make(chan *transport.JSONRPCResponse, 1)
	a.pending[id] = ch
	return ch
}

// take is where the answer to a request is waited for; nil = nobody waits. Asked
// says whether there was such a request.
func (a *awaited) take(id string) (ch chan *transport.JSONRPCResponse, asked bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ch = a.pending[id]
	asked = ch != nil || a.left[id]
	delete(a.pending, id)
	delete(a.left, id)
	return ch, asked
}

// maxLeft is of how many requests it is remembered that they were made.
const maxLeft = 10_000

// leave waits for the answer to a request no more.
func (a *awaited) leave(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pending[id] == nil {
		return
	}
	delete(a.pending, id)
	if len(a.left) >= maxLeft {
		clear(a.left)
	}
	a.left[id] = true
}
