package topology

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"sync/atomic"
	"syscall"
)

// A Balancer is a reverse proxy that gives each request to the next replica,
// without regard to whose it is. It passes over replicas that refuse the
// connection.
type Balancer struct {
	// Served is told of each request that a replica has taken, with its body.
	// nil = nobody is.
	Served func(r *http.Request, body []byte, replica string)

	replicas  []string // host:port
	next      atomic.Int64
	transport *http.Transport // a connection for each request
	proxy     *httputil.ReverseProxy
}

// NewBalancer makes a proxy before replicas, host:port each.
func NewBalancer(replicas ...string) *Balancer {
	b := &Balancer{replicas: replicas, transport: &http.Transport{DisableKeepAlives: true}}
	b.proxy = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "replica" },
		Transport:     b,
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		ErrorLog:      log.New(io.Discard, "", 0), // streams break all the time
	}
	return b
}

// ServeHTTP passes a request on.
func (b *Balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) { b.proxy.ServeHTTP(w, r) }

// Serve serves the proxy at an address until the context is done.
func (b *Balancer) Serve(ctx context.Context, address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: b, ErrorLog: log.New(io.Discard, "", 0)}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// RoundTrip gives the request to the next replica that takes it.
func (b *Balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	var response *http.Response
	err := errors.New("no replicas")
	for range b.replicas {
		replica := b.replicas[int(b.next.Add(1))%len(b.replicas)]
		out := r.Clone(r.Context())
		out.URL.Host, out.Host = replica, replica
		out.Body = io.NopCloser(bytes.NewReader(body))
		if response, err = b.transport.RoundTrip(out); errors.Is(err, syscall.ECONNREFUSED) {
			continue
		}
		if b.Served != nil {
			b.Served(r, body, replica)
		}
		return response, err
	}
	return response, err
}
