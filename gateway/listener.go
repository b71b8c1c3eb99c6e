package gateway

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// A listener is how mcp-go's broadcasts reach a stream of ours: a session that
// is registered for as long as the stream is open. It holds nothing that a
// request needs.
type listener struct {
	id            string
	notifications chan mcp.JSONRPCNotification

	mu     sync.Mutex
	ready  bool
	filter *mcp.SubscriptionFilter // of subscriptions/listen; nil = everything
}

var _ server.SessionWithSubscriptionFilter = (*listener)(nil)

// newListener makes a listener that is ready for broadcasts.
func newListener() *listener {
	return &listener{id: newNonce(), notifications: make(chan mcp.JSONRPCNotification, 16), ready: true}
}

func newNonce() string { return rand.Text() }

// forward sends what is broadcast to out, and comments between, until ctx ends.
func (l *listener) forward(ctx context.Context, out outlet, keepAlive time.Duration) {
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		select {
		case n := <-l.notifications:
			out.event("", mustEncode(n))
		case <-tick.C:
			out.comment()
		case <-ctx.Done():
			return
		}
	}
}

// What follows is server.ClientSession.

func (l *listener) SessionID() string { return l.id }

func (l *listener) NotificationChannel() chan<- mcp.JSONRPCNotification { return l.notifications }

func (l *listener) Initialize() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ready = true
}

func (l *listener) Initialized() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ready || l.filter != nil
}

func (l *listener) SetSubscriptionFilter(f mcp.SubscriptionFilter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.filter = &f
	if f.IsEmpty() {
		l.filter = nil
	}
}

func (l *listener) SubscriptionFilter() (mcp.SubscriptionFilter, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.filter == nil {
		return mcp.SubscriptionFilter{}, false
	}
	return *l.filter, true
}
