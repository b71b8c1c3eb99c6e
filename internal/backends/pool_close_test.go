package backends

import (
	"context"
	"errors"
	"net/http/httptest"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server/servertest"
)

func signalIgnore() { signal.Ignore(syscall.SIGTERM) }

func jsonrpcRequest(id int64, payload string) transport.JSONRPCRequest {
	return transport.JSONRPCRequest{
		JSONRPC: mcp.JSONRPC_VERSION, ID: mcp.NewRequestId(id), Method: "tools/call", Params: map[string]string{"x": payload},
	}
}

// Close ends calls under way and leaves no goroutine behind. It counts
// goroutines, so it does not run beside other tests.
func TestCloseLeavesNothing(t *testing.T) {
	s := newTestServer()
	sse := serveSSE(s)
	modern := serve(t, eras[0].handler(s))
	legacy := serve(t, eras[1].handler(s))
	dead := Config{Name: "dead", Transport: StreamableHTTP, URL: "http://127.0.0.1:1/mcp"}
	child := childConfig("server")
	child.Name = "child"
	p, err := New([]Config{
		{Name: "modern", Transport: StreamableHTTP, URL: modern.URL},
		{Name: "legacy", Transport: StreamableHTTP, URL: legacy.URL},
		{Name: "sse", Transport: SSE, URL: sse.URL + "/sse"},
		child, dead,
	}, Aggregation{}, testLogger(t))
	if err != nil {
		t.Fatal(err)
	}
	p.Start(t.Context())
	for _, b := range p.backends[:4] {
		receive(t, b.health.wasUp, b.cfg.Name)
	}
	ended := make(chan error, 3)
	for _, name := range []string{"modern", "legacy", "sse"} {
		go func() {
			_, err := p.Call(t.Context(), Call{Backend: name, Tool: "block"})
			ended <- err
		}()
	}
	for range 3 {
		receive(t, s.started, "the calls to begin")
	}
	p.Close()
	for range 3 {
		if ce := callError(t, receive(t, ended, "the calls to end")); ce.Outcome != Unknown {
			t.Errorf("outcome %d, error %v", ce.Outcome, ce)
		}
	}
	if _, err := p.Call(t.Context(), Call{Backend: "modern", Tool: "echo"}); !errors.Is(err, errClosed) {
		t.Errorf("error %v after Close", err)
	}
	sse.CloseClientConnections()
	sse.Close()
	for deadline := time.Now().Add(patience); ; {
		left := ours()
		if left == "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("goroutines that are left:\n%s", left)
		}
		runtime.Gosched()
	}
	p.Close() // again does nothing
}

// ours returns the stacks of goroutines that a pool and mcp-go's client have
// started.
func ours() string {
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var left []string
	for _, g := range strings.Split(string(buf), "\n\n") {
		mine := strings.Contains(g, "perdure/backends.(") || strings.Contains(g, "mcp-go/client")
		if mine && !strings.Contains(g, "testing.tRunner") && !strings.Contains(g, "mcp-go/server") {
			left = append(left, g)
		}
	}
	return strings.Join(left, "\n\n")
}

func TestSSETransport(t *testing.T) {
	t.Parallel()
	s := newTestServer()
	ts := serveSSE(s)
	t.Cleanup(func() {
		ts.CloseClientConnections()
		ts.Close()
	})
	p := open(t, Config{Name: "be", Transport: SSE, URL: ts.URL + "/sse"})
	checkProgress(t, p, 0) // mcp-go's server of this transport loses many
	checkCancel(t, p, s.started)
	receive(t, s.cancelled, "the cancelled call")

	done := make(chan error, 1)
	go func() {
		_, err := p.Call(context.WithoutCancel(t.Context()), Call{Backend: "be", Tool: "block"})
		done <- err
	}()
	receive(t, s.started, "the call to begin")
	ts.CloseClientConnections()
	if ce := callError(t, receive(t, done, "the call to end")); ce.Outcome != Unknown {
		t.Errorf("outcome %d, error %v", ce.Outcome, ce)
	}
	// The connection that the pool made at once may have been cut as well, which
	// shows only when a call over it gets no answer.
	var err error
	for range 5 {
		if _, err = p.Call(t.Context(), Call{Backend: "be", Tool: "echo"}); err == nil {
			return
		}
		if ce := callError(t, err); ce.Outcome == Refused {
			break
		}
	}
	t.Fatalf("after the stream was lost: %v", err)
}

func serveSSE(s *testServer) *httptest.Server { return servertest.NewTestServer(s.mcp) }
