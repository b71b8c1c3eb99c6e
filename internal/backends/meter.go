package backends

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/internal/web"
)

// A meter records in the exchange of each request how far it got, and bounds the answer.
//
// net/http repeats a POST by itself only if nothing of it was written, or if
// it carries an Idempotency-Key header, which Config does not admit
// (net/http.Transport: shouldRetryRequest, Request.isReplayable). Redirects,
// which would repeat it as well, are not followed.
type meter struct {
	base   *http.Transport
	budget answerBudget
}

// idleConnTimeout is shorter than the 5 s after which Node closes idle
// connections: a request during the closing is lost with an unknown outcome.
const idleConnTimeout = 4 * time.Second

func newMeter(b answerBudget, certificates []byte) *meter {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	return &meter{budget: b, base: &http.Transport{
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
		TLSClientConfig:     trusting(certificates),

		MaxResponseHeaderBytes: maxChatter,
	}}
}

// trusting gives a TLS configuration that trusts the certificates of the system and
// more of them; nil = those of the system.
func trusting(certificates []byte) *tls.Config {
	if len(certificates) == 0 {
		return nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	roots.AppendCertsFromPEM(certificates) // Config.check refuses what has none
	return &tls.Config{RootCAs: roots}
}

// roundTrip sends a request of a session.
func (m *meter) roundTrip(req *http.Request, s *session) (*http.Response, error) {
	x := exchangeOf(req.Context())
	if req.Method != http.MethodPost {
		resp, err := m.base.RoundTrip(req)
		if err == nil {
			resp.Body = m.body(resp, x, s, nil)
		}
		return resp, err
	}
	ctx, end := context.WithCancel(context.WithoutCancel(req.Context()))
	ended := context.AfterFunc(x.caller, end)
	cancel := func() { // or a caller that lives on would keep the answer
		ended()
		end()
	}
	awaiting := context.AfterFunc(req.Context(), cancel)
	resp, err := m.base.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, x.trace())))
	x.set(func() {
		x.reached = x.reached || err == nil || x.conn != nil && x.conn.seal() > x.before
		if err == nil {
			x.status, x.after = resp.StatusCode, retryAfter(resp, time.Now())
		}
	})
	if err != nil {
		cancel()
		return nil, err
	}
	awaiting()
	resp.Body = m.body(resp, x, s, cancel)
	return resp, nil
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
					x.reached = true // unknown: the cautious answer
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

// Write refuses to begin a request on a connection that the server has closed meanwhile;
// net/http then takes a new one, as nothing was written. After a write, the request could
// not be distinguished from an executed one.
func (c *countedConn) Write(p []byte) (int, error) {
	if c.reused.Swap(false) && web.ClosedByPeer(c.Conn) {
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

// seal refuses further writes and returns how many there were. It is called when a request
// has failed; net/http writes from another goroutine and may not have begun yet.
func (c *countedConn) seal() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sealed = true
	return c.writes.Load()
}
