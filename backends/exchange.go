package backends

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// ErrTooLarge is in the chain of errors of answers over Config.MaxResultBytes.
var ErrTooLarge = errors.New("the answer is over the limit maxResultBytes")

func tooLarge(limit int64) error { return fmt.Errorf("%w of %d bytes", ErrTooLarge, limit) }

// An exchange is what is known of one request on its way to a backend and
// back. It travels in the request's context through mcp-go's client, which
// itself tells neither whether a request left nor what exactly came back.
type exchange struct {
	caller  context.Context   // of the call, without what mcp-go derives from it
	headers Headers           // credentials of the call; nil = those of the session
	asking  *Asking           // of the call; nil = nobody can be asked
	traced  map[string]string // headers that name the trace of the call; nil = none

	mu      sync.Mutex
	reached bool                       // bytes of the request may have got to the backend
	conn    *countedConn               // HTTP: what the request is written to
	before  int64                      // HTTP: writes to conn before this request
	status  int                        // HTTP: status of the answer, 0 = none
	answer  *transport.JSONRPCResponse // what came back
	broke   error                      // why reading the answer ended
}

type exchangeKey struct{}

// newExchange returns ctx with a fresh exchange in it.
func newExchange(ctx context.Context) (context.Context, *exchange) {
	x := &exchange{caller: ctx}
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// exchangeOf returns the exchange of ctx; one that nobody looks at if there
// is none, as in the handshake.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{caller: ctx}
}

func (x *exchange) set(f func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f()
}

// outcome says what is known of a request that gave no result.
func (x *exchange) outcome() Outcome {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case !x.reached:
		return NotSent
	case x.status >= 500, x.status == http.StatusRequestTimeout: // with 408 some servers give up a handler that is at work
		return Unknown
	case x.answer != nil && x.answer.Error != nil:
		return Refused
	}
	switch x.status {
	case http.StatusNotFound, http.StatusTooEarly, http.StatusTooManyRequests:
		return NotSent
	}
	if x.status >= 300 {
		return Refused
	}
	return Unknown
}

// unauthorized reports whether the backend refused the credentials, and so
// did not execute the request.
func (x *exchange) unauthorized() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.status == http.StatusUnauthorized
}

// cause is the error to show for a request that mcp-go says failed with err.
func (x *exchange) cause(err error) error {
	err = plain(err)
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.answer != nil && x.answer.Error != nil:
		return &RPCError{Code: x.answer.Error.Code, Message: x.answer.Error.Message, Data: x.answer.Error.Data}
	case x.broke != nil:
		return fmt.Errorf("reading the answer: %w", x.broke)
	case x.status >= 300:
		return fmt.Errorf("HTTP status %d %s: %w", x.status, http.StatusText(x.status), err)
	case x.status > 0:
		return fmt.Errorf("the answer ended before the result: %w", err)
	case x.conn != nil && x.reached:
		return fmt.Errorf("the connection ended before an answer came: %w", err)
	}
	return err
}

// plain takes what mcp-go and net/http have wrapped around an error off it:
// the backend and the call are named already.
func plain(err error) error {
	var onWire *url.Error
	if errors.As(err, &onWire) {
		return onWire.Err
	}
	var wrapped *transport.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// A meter is an http.RoundTripper that records in the exchange of each
// request how far it got, and bounds what comes back.
//
// net/http repeats a POST by itself only if nothing of it was written, or if
// it carries an Idempotency-Key header, which Config does not admit
// (net/http.Transport: shouldRetryRequest, Request.isReplayable). Redirects,
// which would repeat it as well, are not followed.
type meter struct {
	base  *http.Transport
	limit int64
}

// idleConnTimeout is shorter than the 5 s after which Node closes idle
// connections: a request that meets the closing is lost without anyone
// knowing whether it was read.
const idleConnTimeout = 4 * time.Second

func newMeter(limit int64) *meter {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	return &meter{limit: limit, base: &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &countedConn{Conn: conn}, nil
		},
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     idleConnTimeout,
		TLSHandshakeTimeout: 10 * time.Second,
	}}
}

// client returns an HTTP client without a timeout of its own, whose requests
// carry the credentials of a session.
func (b *backend) client(s *session) *http.Client {
	return &http.Client{
		Transport:     &bearer{meter: b.meter, s: s},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	x := exchangeOf(req.Context())
	if req.Method != http.MethodPost {
		resp, err := m.base.RoundTrip(req)
		if err == nil {
			resp.Body = m.bound(resp, x, nil)
		}
		return resp, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(req.Context()))
	context.AfterFunc(x.caller, cancel)
	awaiting := context.AfterFunc(req.Context(), cancel)
	resp, err := m.base.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, x.trace())))
	x.set(func() {
		x.reached = x.reached || err == nil || x.conn != nil && x.conn.seal() > x.before
		if err == nil {
			x.status = resp.StatusCode
		}
	})
	if err != nil {
		cancel()
		return nil, err
	}
	awaiting()
	resp.Body = m.bound(resp, x, cancel)
	return resp, nil
}

func (m *meter) bound(resp *http.Response, x *exchange, release context.CancelFunc) *boundedBody {
	events := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	return &boundedBody{ReadCloser: resp.Body, limit: m.limit, events: events, x: x, release: release}
}

// trace follows a request to the connection that it is written to. net/http
// tries another connection only when nothing was written to the one before.
func (x *exchange) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { x.set(func() { x.conn = nil }) },
		GotConn: func(info httptrace.GotConnInfo) {
			x.set(func() {
				conn, ok := counted(info.Conn)
				if !ok {
					x.reached = true // cannot be told: the careful answer
					return
				}
				x.conn, x.before = conn, conn.writes.Load()
				conn.reused.Store(info.Reused)
			})
		},
	}
}

func counted(conn net.Conn) (*countedConn, bool) {
	if wrapped, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = wrapped.NetConn()
	}
	c, ok := conn.(*countedConn)
	return c, ok
}

// A countedConn counts the writes that were begun. It serves one request at a
// time, as HTTP/1 does.
type countedConn struct {
	net.Conn
	writes atomic.Int64
	reused atomic.Bool // the next write begins another request
	mu     sync.Mutex
	sealed bool
}

// Write refuses to begin a request on a connection that the server has closed
// meanwhile; net/http takes a new one then, as nothing was written. What were
// written could not be told from a request that was executed.
func (c *countedConn) Write(p []byte) (int, error) {
	if c.reused.Swap(false) && closedByPeer(c.Conn) {
		return 0, net.ErrClosed
	}
	if !c.begin() {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

func (c *countedConn) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.sealed {
		c.writes.Add(1)
	}
	return !c.sealed
}

// seal lets no write begin any more and returns how many there were. It is
// called when a request has failed; net/http writes from another goroutine
// and may not have got to it yet.
func (c *countedConn) seal() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sealed = true
	return c.writes.Load()
}

// A boundedBody ends with ErrTooLarge after limit bytes: of a body, or of one
// event where the body is a stream of events.
type boundedBody struct {
	io.ReadCloser
	limit   int64
	events  bool
	n       int64
	newline bool // the last byte ended a line
	x       *exchange
	release context.CancelFunc // of a POST: ends the request
	closing sync.Once
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n += int64(n)
	if b.events {
		b.countEvent(p[:n])
	}
	if b.n > b.limit {
		n, err = 0, tooLarge(b.limit)
	}
	if err != nil && err != io.EOF {
		b.x.set(func() { b.x.broke = err })
	}
	return n, err
}

// drainTime and drainBytes bound the wait for the end of a body whose answer
// has been read.
const (
	drainTime  = 250 * time.Millisecond
	drainBytes = 64 << 10
)

// Close lets the connection be used again: a server ends its stream right
// after the answer, but mcp-go gives both context and body up before that,
// which would cost a connection for every call that is answered by a stream.
func (b *boundedBody) Close() error {
	if b.release == nil {
		return b.ReadCloser.Close()
	}
	b.closing.Do(func() {
		go func() {
			defer b.release()
			defer time.AfterFunc(drainTime, b.release).Stop()
			_, _ = io.CopyN(io.Discard, b.ReadCloser, drainBytes)
			_ = b.ReadCloser.Close()
		}()
	})
	return nil
}

// countEvent starts the count again where an empty line ends an event.
func (b *boundedBody) countEvent(p []byte) {
	for i, c := range p {
		switch {
		case c == '\n' && b.newline:
			b.n = int64(len(p) - i - 1)
		case c == '\n':
			b.newline = true
		case c != '\r':
			b.newline = false
		}
	}
}

// capture records the answer of a request and hands mcp-go's client one that
// it can decode without loss of time: its own decoding makes float64 of
// numbers and refuses content that it does not know.
func (x *exchange) capture(method string, answer *transport.JSONRPCResponse) *transport.JSONRPCResponse {
	if answer == nil {
		return nil
	}
	x.set(func() { x.answer = answer })
	if method != string(mcp.MethodToolsCall) || answer.Error != nil || len(answer.Result) == 0 {
		return answer
	}
	stub := *answer
	stub.Result = []byte(`{"content":[]}`)
	return &stub
}
