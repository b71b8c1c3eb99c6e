package backends

import (
	"sync"

	"github.com/mark3labs/mcp-go/client/transport"
)

// awaited has the requests whose answers are or were waited for.
type awaited struct {
	mu      sync.Mutex
	pending map[string]chan arrival
	left    map[string]bool // requests whose answers are no longer waited for
}

// An arrival is the answer to a request, or why what has come is of no use.
type arrival struct {
	answer *transport.JSONRPCResponse
	err    error
}

func newAwaited() *awaited {
	return &awaited{pending: map[string]chan arrival{}, left: map[string]bool{}}
}

// add gives the channel for the answer to a request.
func (a *awaited) add(id string) chan arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	ch := make(chan arrival, 1)
	a.pending[id] = ch
	return ch
}

// expects reports whether the answer to a request is waited for.
func (a *awaited) expects(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pending[id] != nil
}

// take gives the channel for the answer to a request; nil = not waited for. asked reports
// whether there was such a request.
func (a *awaited) take(id string) (ch chan arrival, asked bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ch = a.pending[id]
	asked = ch != nil || a.left[id]
	delete(a.pending, id)
	delete(a.left, id)
	return ch, asked
}

// maxLeft bounds left.
const maxLeft = 10_000

// leave stops waiting for the answer to a request.
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
