// Package web bounds how much of a process a peer may take before a handler has
// decided whether to serve it.
//
// Every HTTP server of perdure is made by New: the MCP endpoint with the
// approvals page, health, metrics, the codec endpoint and the Web UI of dev. A
// server checks the Host and Origin of each request, bounds headers, bodies and
// the connections of each peer, and demands progress of those who send and of
// those who read. Bodies are what handlers with large requests share.
package web

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// What every server demands.
const (
	headerLimit = 10 * time.Second // for the header of a request
	idleLimit   = 5 * time.Minute  // of a connection between two requests; proxies close theirs earlier
	maxHeader   = 64 << 10         // bytes; net/http allows 4 KB more

	// DefaultMaxBody is the largest body of a request where Options do not say.
	DefaultMaxBody = 64 << 10
	// DefaultMaxConnections is how many connections a peer may have open where
	// Options do not say. A proxy is one peer: each stream of its clients is a
	// connection.
	DefaultMaxConnections = 4096
)

// Options of a server. Handler is required.
type Options struct {
	Handler http.Handler
	// Origins says by which names the server is called, and which pages may call
	// it. The zero one allows addresses, names without public DNS, and pages of
	// this machine.
	Origins OriginPolicy
	// MaxBody is the largest body of a request in bytes; handlers may take less. 0
	// = DefaultMaxBody.
	MaxBody int64
	// MaxConnections is how many connections a peer may have open: an IPv4
	// address, or an IPv6 network of 64 bits. 0 = DefaultMaxConnections.
	MaxConnections int

	Logger *slog.Logger // nil = slog.Default()
}

// A Server is an HTTP server. A request may take as long as it likes to be
// answered, since calls wait for people.
type Server struct {
	http  *http.Server
	peers *peers
}

// New makes a server that listens nowhere yet.
func New(o Options) *Server {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	s := &Server{peers: newPeers(cmp.Or(o.MaxConnections, DefaultMaxConnections), o.Logger)}
	s.http = &http.Server{
		Handler:           guard(o),
		ReadHeaderTimeout: headerLimit,
		IdleTimeout:       idleLimit,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
	}
	return s
}

// guard is what each request passes before its handler.
func guard(o Options) http.Handler {
	largest := cmp.Or(o.MaxBody, DefaultMaxBody)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := o.Origins.Refusal(r); why != "" {
			o.Logger.Info("refusing a request", "remote", r.RemoteAddr, "error", why)
			http.Error(w, why, http.StatusForbidden)
			return
		}
		paceBody(w, r, largest)
		o.Handler.ServeHTTP(w, r)
	})
}

// Serve takes connections of l until End; then the error is http.ErrServerClosed.
func (s *Server) Serve(l net.Listener) error { return s.http.Serve(s.peers.listen(l)) }

// OnShutdown has f called when the server begins to end.
func (s *Server) OnShutdown(f func()) { s.http.RegisterOnShutdown(f) }

// End takes no more connections, waits for the requests under way, and cuts off
// what has not ended within the grace period: then it is false.
func (s *Server) End(grace time.Duration) (inTime bool) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if s.http.Shutdown(ctx) == nil {
		return true
	}
	_ = s.http.Close()
	return false
}

// Run serves l until ctx ends, and then ends the server.
func (s *Server) Run(ctx context.Context, l net.Listener, grace time.Duration) error {
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		s.End(grace)
		return nil
	}
}
