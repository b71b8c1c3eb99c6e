package program_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/perdure/perdure/test/topology"
)

// A balancer is a proxy before replicas that notes where requests went.
type balancer struct {
	*topology.Balancer
	web *httptest.Server

	mu     sync.Mutex
	served []servedRequest
}

// A servedRequest says where a request went.
type servedRequest struct {
	what    string // the HTTP method, and that of the message or "response"
	replica string
}

func newBalancer(t *testing.T, replicas ...string) *balancer {
	b := &balancer{Balancer: topology.NewBalancer(replicas...)}
	b.Served = func(r *http.Request, body []byte, replica string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.served = append(b.served, servedRequest{r.Method + " " + message(body), replica})
	}
	b.web = httptest.NewServer(b)
	t.Cleanup(func() {
		b.web.CloseClientConnections()
		b.web.Close()
	})
	return b
}

func (b *balancer) url() string { return b.web.URL + endpoint }

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
