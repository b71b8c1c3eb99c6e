// Package web bounds the resources that a peer can take before a handler decides whether
// to serve it.
//
// Every HTTP server of perdure is made by New: the MCP endpoint with the
// approvals page, health, metrics, the codec endpoint and the Web UI of dev. A
// server checks the Host and Origin of each request, bounds headers, bodies and the
// connections of each peer, and requires progress of senders and readers. Handlers with
// large requests share Bodies.
package web

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Limits of every server.
const (
	headerLimit = 10 * time.Second // for the header of a request
	idleLimit   = 5 * time.Minute  // between two requests of a connection; proxies close theirs earlier
	maxHeader   = 64 << 10         // bytes; net/http allows 4 KB more

	// defaultMaxBody is the default of Options.MaxBody.
	defaultMaxBody = 64 << 10
	// defaultMaxConnections is the default of Options.MaxConnections. A proxy is one
	// peer: each stream of its clients is a connection.
	defaultMaxConnections = 4096
)

// Options of a server. Handler is required.
type Options struct {
	Handler http.Handler
	// Origins has the names of the server, and the pages that may call it. Zero = addresses,
	// names without public DNS, and pages of this machine.
	Origins OriginPolicy
	// MaxBody is the largest body of a request in bytes; handlers may take less. 0
	// = 64 KiB.
	MaxBody int64
	// MaxConnections is how many connections a peer may have open: an IPv4
	// address, or an IPv6 network of 64 bits. 0 = 4096.
	MaxConnections int

	Logger *slog.Logger // nil = slog.Default()
}

// A Server is an HTTP server. Answers have no time limit, since calls wait for people.
type Server struct {
	http  *http.Server
	peers *peers
}

// New makes a server that does not listen yet.
func New(o Options) *Server {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	s := &Server{peers: newPeers(cmp.Or(o.MaxConnections, defaultMaxConnections), o.Logger)}
	s.http = &http.Server{
		Handler:           guard(o),
		ReadHeaderTimeout: headerLimit,
		IdleTimeout:       idleLimit,
		MaxHeaderBytes:    maxHeader,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connection{}, unwrapped(c))
		},
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
	}
	return s
}

// guard checks each request before its handler.
func guard(o Options) http.Handler {
	largest := cmp.Or(o.MaxBody, defaultMaxBody)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := o.Origins.Refusal(r); why != "" {
			o.Logger.Info("refusing a request", "remote", r.RemoteAddr, "error", why)
			http.Error(w, why, http.StatusForbidden)
			return
		}
		o.Handler.ServeHTTP(w, paceBody(w, r, largest))
	})
}

// Serve takes connections of l until End; then the error is http.ErrServerClosed.
func (s *Server) Serve(l net.Listener) error { return s.http.Serve(s.peers.listen(l)) }

// OnShutdown calls f when the server begins to end.
func (s *Server) OnShutdown(f func()) { s.http.RegisterOnShutdown(f) }

// End takes no more connections, waits for the requests under way, and cuts off those
// that do not end within the grace period; then it is false.
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
