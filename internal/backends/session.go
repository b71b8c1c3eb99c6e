package backends

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// self is how perdure names itself to backends.
var self = mcp.Implementation{Name: "perdure", Version: "1"}

// metaIdempotencyKey is the key in _meta of tools/call under which a call's
// idempotency key travels. It never goes into a header: net/http repeats a
// POST that carries one.
const metaIdempotencyKey = "perdure/idempotency-key"

// controlTimeout bounds messages without an answer, such as the cancellation of a request.
const controlTimeout = 5 * time.Second

// discoverTimeout is how long a server that ignores server/discover is waited for; longer
// than mcp-go's own, since interpreters start slowly.
const discoverTimeout = 10 * time.Second

// A session is one connection to a backend, initialised, for any number of
// concurrent calls.
type session struct {
	client  *client.Client
	wire    transport.Interface
	version string // negotiated protocol version

	// ctx lives until close, lost is closed when the session cannot be used
	// any more, changed gets a token when the list of tools has changed.
	ctx      context.Context
	cancel   context.CancelFunc
	lost     chan struct{}
	lostOnce sync.Once
	changed  chan struct{}

	requests atomic.Int64                         // calls that were sent
	mirrored atomic.Pointer[map[string]*mcp.Tool] // tools some of whose arguments travel in headers too; nil = none
	progress progressRouter
	known    knownNames
	holders  holders               // of the answers on a stream that has all of them
	flow     *flow                 // of unrequested messages
	failure  atomic.Pointer[error] // why it was given up; nil = it was not

	headers atomic.Pointer[Headers] // of requests that belong to no call
	cfg     *Config                 // of the backend
	refused atomic.Pointer[Headers] // answered with 401 last; nil = none yet
	visitor bool                    // of one identity; the shared session follows changes
	older   bool                    // only revisions before 2026-07-28 are spoken

	mu         sync.Mutex
	closed     bool
	background sync.WaitGroup

	uses    int  // calls under way; guarded by the mu of sessions
	retired bool // close when uses is 0; guarded by the mu of sessions
}

// hide removes the session's secrets from an error.
func (s *session) hide(err error) error { return s.cfg.secrets(*s.headers.Load()).hide(err) }

func (s *session) handshake(ctx context.Context) error {
	stop := context.AfterFunc(ctx, s.cancel)
	defer stop()
	if err := s.client.Start(s.ctx); err != nil {
		return fmt.Errorf("connecting: %w", shortened(plain(err)))
	}
	x := &exchange{caller: ctx}
	ctx = context.WithValue(ctx, exchangeKey{}, x)
	var req mcp.InitializeRequest
	req.Params.ClientInfo = self
	result, err := s.client.Initialize(ctx, req)
	if mcp.IsUnsupportedProtocolVersion(err) && !s.older {
		// It answered server/discover too late: it is of 2026-07-28.
		result, err = s.client.Initialize(ctx, req)
	}
	if err != nil {
		return fmt.Errorf("initialising: %w", x.refusal(shortened(plain(err))))
	}
	s.version = result.ProtocolVersion
	return nil
}

// cancelRequest sends a server the cancellation of a request. mcp-go's client does so over
// stdio only; in 2026-07-28 over HTTP closing the request is the cancellation.
func (s *session) cancelRequest(x *exchange, id mcp.RequestId, reason error) {
	if x.outcome() == NotSent {
		return
	}
	n := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION}
	n.Method = string(mcp.MethodNotificationCancelled)
	n.Params.AdditionalFields = map[string]any{"requestId": id, "reason": reason.Error()}
	s.spawn(func() {
		ctx, cancel := context.WithTimeout(s.ctx, controlTimeout)
		defer cancel()
		_ = s.wire.SendNotification(ctx, n) // the call has ended: an error has no receiver
	})
}

// fail ends the session if the server floods it. Other errors only end a stream.
func (s *session) fail(err error) {
	if errors.Is(err, errFlood) {
		s.failure.CompareAndSwap(nil, &err)
		s.lose()
	}
}

// lose marks the session as unusable.
func (s *session) lose() { s.lostOnce.Do(func() { close(s.lost) }) }

func (s *session) isLost() bool {
	select {
	case <-s.lost:
		return true
	default:
		return false
	}
}

// close ends the session and all requests under way.
func (s *session) close() {
	s.lose()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	_ = s.client.Close()
	s.cancel()
	s.background.Wait()
}

// spawn runs f until close waits for it; not at all after.
func (s *session) spawn(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.background.Go(f)
	}
}

// notified takes a notification of the server, in the goroutine that reads answers, so that
// progress comes before its result.
func (s *session) notified(n mcp.JSONRPCNotification) {
	switch n.Method {
	case string(mcp.MethodNotificationToolsListChanged):
		s.noteChange()
	case string(mcp.MethodNotificationProgress):
		s.progress.route(n.Params.AdditionalFields)
	}
}

func (s *session) noteChange() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// listen keeps a subscription to changes of the tool list, on servers that
// have no stream of notifications by themselves. One that does not offer it
// is asked again from time to time, as any.
func (s *session) listen() {
	const first, most = time.Second, time.Minute
	for delay := first; ; delay = min(2*delay, most) {
		began := time.Now()
		err := s.client.Listen(s.ctx, mcp.SubscriptionFilter{ToolsListChanged: true})
		if s.ctx.Err() != nil || isRPCError(err) {
			return
		}
		if time.Since(began) > most {
			delay = first
		}
		s.noteChange() // something may have changed while there was no subscription
		select {
		case <-time.After(delay):
		case <-s.ctx.Done():
			return
		}
	}
}

// isRPCError reports whether err is an answer of the server.
func isRPCError(err error) bool {
	var onWire *transport.Error
	return err != nil && !errors.As(err, &onWire)
}

// sessionGone reports whether a call failed because the server has ended the session; then
// it was not executed, unless it mayBeTools.
func (s *session) sessionGone(x *exchange, err error) bool {
	if _, ok := s.wire.(*child); ok || s.isLost() {
		return x.outcome() == NotSent
	}
	if mcp.IsModernProtocol(s.version) {
		return speaksOlder(err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch x.status {
	case http.StatusNotFound: // by the specification
		return true
	case http.StatusBadRequest: // of some servers
		return strings.Contains(strings.ToLower(err.Error()), "session")
	}
	return !x.reached && errors.Is(err, transport.ErrSessionTerminated) // else its stream has broken, and cannot be resumed
}

// mayBeTools reports whether an error that reads like the end of the session may be that of
// the called tool: the server has read the request to the end. One of 2026-07-28 that does not
// speak the revision says so with a status of its own.
func (s *session) mayBeTools(x *exchange) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.named && (x.status < http.StatusMultipleChoices || !mcp.IsModernProtocol(s.version))
}

var errAsksForEver = fmt.Errorf("the tool has asked for input %d times in the middle of one call, and asks again", maxRounds)

var errInputRequired = errors.New("the tool asks for input in the middle of the call, which perdure gives only in direct calls of a client that can be asked")
