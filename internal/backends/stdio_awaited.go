package backends

import (
	"sync"

	"github.com/mark3labs/mcp-go/client/transport"
)

// awaited has the requests whose answers are or were waited for.
type awaited struct {
	mu      sync.Mutex
	pending map[string]awaitedAnswer
	left    map[string]bool // requests whose answers are no longer waited for
}

type awaitedAnswer struct {
	to     chan arrival
	called bool // by a call or a list, not by what keeps the session
}

// An arrival is the answer to a request, or why what has come is of no use.
type arrival struct {
	answer *transport.JSONRPCResponse
	err    error
}

func newAwaited() *awaited {
	return &awaited{pending: map[string]awaitedAnswer{}, left: map[string]bool{}}
}

// add gives the channel for the answer to a request.
func (a *awaited) add(id string, called bool) chan arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	ch := make(chan arrival, 1)
	a.pending[id] = awaitedAnswer{ch, called}
	return ch
}

// expects reports whether the answer to a request is waited for.
func (a *awaited) expects(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pending[id].to != nil
}

// calls is how many calls wait for their answers.
func (a *awaited) calls() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, answer := range a.pending {
		if answer.called {
			n++
		}
	}
	return n
}

// take gives the channel for the answer to a request; nil = not waited for. asked reports
// whether there was such a request.
func (a *awaited) take(id string) (ch chan arrival, asked bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ch = a.pending[id].to
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
	if a.pending[id].to == nil {
		return
	}
	delete(a.pending, id)
	if len(a.left) >= maxLeft {
		clear(a.left)
	}
	a.left[id] = true
}
