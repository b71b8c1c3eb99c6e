package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"sync"
	"syscall"
	"testing"
)

// A balancer is a proxy that gives each request to the next replica, without
// regard to whose it is. It passes over replicas that refuse the connection.
type balancer struct {
	web       *httptest.Server
	transport *http.Transport // a connection for each request

	mu       sync.Mutex
	replicas []string // host:port
	next     int
	served   []*servedRequest
}

// A servedRequest says where a request went.
type servedRequest struct {
	what    string // the HTTP method, and that of the message or "response"
	replica string
}

func newBalancer(t *testing.T, replicas ...string) *balancer {
	b := &balancer{replicas: replicas, transport: &http.Transport{DisableKeepAlives: true}}
	b.web = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "replica" },
		Transport:     b,
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	})
	t.Cleanup(func() {
		b.web.CloseClientConnections()
		b.web.Close()
	})
	return b
}

func (b *balancer) url() string { return b.web.URL + endpoint }

// RoundTrip gives the request to the next replica that takes it.
func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
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
		replica := b.take()
		out := r.Clone(r.Context())
		out.URL.Host, out.Host = replica, replica
		out.Body = io.NopCloser(bytes.NewReader(body))
		sent := b.note(servedRequest{r.Method + " " + message(body), replica})
		if response, err = b.transport.RoundTrip(out); !errors.Is(err, syscall.ECONNREFUSED) {
			return response, err
		}
		b.forget(sent)
	}
	return response, err
}

func (b *balancer) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	return b.replicas[b.next%len(b.replicas)]
}

func (b *balancer) note(s servedRequest) *servedRequest {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.served = append(b.served, &s)
	return &s
}

func (b *balancer) forget(s *servedRequest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.served = slices.DeleteFunc(b.served, func(other *servedRequest) bool { return other == s })
}

// where lists the replicas that such requests went to, in order.
func (b *balancer) where(what string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var replicas []string
	for _, s := range b.served {
		if s.what == what {
			replicas = append(replicas, s.replica)
		}
	}
	return replicas
}

// spread fails the test unless such requests went to more than one replica.
func (b *balancer) spread(t *testing.T, whats ...string) {
	t.Helper()
	var replicas []string
	for _, what := range whats {
		replicas = append(replicas, b.where(what)...)
	}
	slices.Sort(replicas)
	if len(slices.Compact(replicas)) < 2 {
		t.Errorf("%v went to %v only", whats, replicas)
	}
}

// message says what a message is.
func message(body []byte) string {
	var m struct{ Method string }
	switch {
	case len(body) == 0:
		return ""
	case json.Unmarshal(body, &m) != nil:
		return "?"
	case m.Method == "":
		return "response"
	}
	return m.Method
}
