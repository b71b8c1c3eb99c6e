package backends

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/perdure/perdure/internal/perduretest"
)

const patience = 2 * time.Minute

// A testServer is an MCP server with tools that block, report and count.
type testServer struct {
	mcp       *server.MCPServer
	calls     atomic.Int64
	started   chan struct{} // a token for every call of block that has begun
	cancelled chan struct{} // a token for every call of block that was cancelled
}

func newTestServer() *testServer {
	s := &testServer{
		mcp:       server.NewMCPServer("test", "1", server.WithToolCapabilities(true)),
		started:   make(chan struct{}, 100),
		cancelled: make(chan struct{}, 100),
	}
	s.add("echo", s.echo)
	s.add("block", s.block)
	s.add("report", s.report)
	s.add("refuse", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, errors.New("no such luck")
	})
	s.add("crash", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		fmt.Fprintln(os.Stderr, "going down")
		os.Exit(3)
		return nil, nil
	})
	s.add("pid", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(fmt.Sprint(os.Getpid())), nil
	})
	return s
}

func (s *testServer) add(name string, h server.ToolHandlerFunc) {
	s.mcp.AddTool(mcp.NewToolWithRawSchema(name, "tool "+name, json.RawMessage(`{"type":"object"}`)), h)
}

// echo gives the arguments and _meta back as they came.
func (s *testServer) echo(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	s.calls.Add(1)
	var key any
	if req.Params.Meta != nil {
		key = req.Params.Meta.AdditionalFields[metaIdempotencyKey]
	}
	return mcp.NewToolResultStructured(map[string]any{"args": req.GetRawArguments(), "key": key}, "echoed"), nil
}

func (s *testServer) block(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	s.calls.Add(1)
	s.started <- struct{}{}
	<-ctx.Done()
	s.cancelled <- struct{}{}
	return nil, ctx.Err()
}

// report sends progress 1…5 with the argument "who" as message.
func (s *testServer) report(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	s.calls.Add(1)
	who := req.GetString("who", "")
	for i := 1; i <= 5; i++ {
		// The error, of a full queue, is no matter: mcp-go's servers have
		// short ones for all calls of a session.
		_ = server.ServerFromContext(ctx).SendNotificationToClient(ctx, "notifications/progress", map[string]any{
			"progressToken": req.Params.Meta.ProgressToken, "progress": i, "total": 5, "message": who,
		})
	}
	return mcp.NewToolResultText(who), nil
}

// An era is a way in which a backend is served over HTTP.
type era struct {
	name    string
	options []server.StreamableHTTPOption
	version string
}

var eras = []era{
	{"modern", nil, "2026-07-28"},
	{"legacy", []server.StreamableHTTPOption{server.WithStreamableHTTPProtocolVersions("2025-11-25", "2025-06-18")}, "2025-11-25"},
}

func (e era) handler(s *testServer) http.Handler {
	return server.NewStreamableHTTPServer(s.mcp, e.options...)
}

func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	ts := httptest.NewServer(h)
	t.Cleanup(func() {
		ts.CloseClientConnections()
		ts.Close()
	})
	return ts
}

// open starts a pool and waits for its backends.
func open(t *testing.T, configs ...Config) *Pool {
	t.Helper()
	p := openUnready(t, configs...)
	if !p.WaitReady(t.Context(), patience) {
		t.Fatalf("not ready: %+v", p.Status())
	}
	return p
}

func openUnready(t *testing.T, configs ...Config) *Pool {
	t.Helper()
	p := perduretest.Must(New(configs, Aggregation{}, testLogger(t)))(t)
	p.Start(t.Context())
	t.Cleanup(p.Close)
	return p
}

func testLogger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func httpConfig(url string) Config {
	return Config{Name: "be", Transport: StreamableHTTP, URL: url}
}

func callError(t *testing.T, err error) *CallError {
	t.Helper()
	var ce *CallError
	if !errors.As(err, &ce) {
		t.Fatalf("error is %v, want a *CallError", err)
	}
	return ce
}

func receive[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		buf := make([]byte, 1<<20)
		t.Fatalf("waited for %s in vain\n%s", what, buf[:runtime.Stack(buf, true)])
		panic("unreachable")
	}
}

func forEachEra(t *testing.T, f func(t *testing.T, e era)) {
	for _, e := range eras {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			f(t, e)
		})
	}
}

func TestCall(t *testing.T) {
	t.Parallel()
	forEachEra(t, func(t *testing.T, e era) {
		ts := serve(t, e.handler(newTestServer()))
		p := open(t, httpConfig(ts.URL))
		if got := p.Status()[0]; !got.Up || got.ProtocolVersion != e.version || got.Tools != 6 {
			t.Errorf("status %+v", got)
		}
		const args = `{"n":123456789012345678901234567890,"f":1.10,"s":"<é>"}`
		r, err := p.Call(t.Context(), Call{Backend: "be", Tool: "echo", Arguments: json.RawMessage(args), IdempotencyKey: "k1", KeyArgument: "id"})
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Args map[string]json.RawMessage
			Key  string
		}
		perduretest.NoError(t, json.Unmarshal(r.Structured, &got))
		for name, want := range map[string]string{"n": "123456789012345678901234567890", "f": "1.10", "id": `"k1"`} {
			if string(got.Args[name]) != want {
				t.Errorf("argument %s came back as %s, want %s", name, got.Args[name], want)
			}
		}
		if got.Key != "k1" {
			t.Errorf("_meta had key %q", got.Key)
		}
		if diff := cmp.Diff([]Content{{Type: "text", Text: "echoed"}}, r.Content); diff != "" {
			t.Error(diff)
		}
	})
}

func TestCallRefused(t *testing.T) {
	t.Parallel()
	forEachEra(t, func(t *testing.T, e era) {
		ts := serve(t, e.handler(newTestServer()))
		p := open(t, httpConfig(ts.URL))
		tests := []struct {
			name string
			call Call
			want string
		}{
			{"handler error", Call{Backend: "be", Tool: "refuse"}, "no such luck"},
			{"unknown tool", Call{Backend: "be", Tool: "nope"}, "nope"},
			{"arguments", Call{Backend: "be", Tool: "echo", Arguments: json.RawMessage(`[1]`)}, "not a JSON object"},
		}
		for _, tt := range tests {
			_, err := p.Call(t.Context(), tt.call)
			if ce := callError(t, err); ce.Outcome != Refused || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: outcome %d, error %v", tt.name, ce.Outcome, err)
			}
		}
	})
}

// TestUnknownBackend: a process that lacks a backend has not sent the call, which another
// one may make.
func TestUnknownBackend(t *testing.T) {
	t.Parallel()
	_, err := openUnready(t).Call(t.Context(), Call{Backend: "bee", Tool: "echo"})
	if ce := callError(t, err); ce.Outcome != NotSent || !strings.Contains(err.Error(), "no such backend in its configuration") {
		t.Errorf("outcome %d, error %v", ce.Outcome, err)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	s := newTestServer()
	sse := serveSSE(s)
	t.Cleanup(func() {
		sse.CloseClientConnections()
		sse.Close()
	})
	for _, cfg := range []Config{
		httpConfig(serve(t, eras[0].handler(s)).URL),
		httpConfig(serve(t, eras[1].handler(s)).URL),
		{Name: "be", Transport: SSE, URL: sse.URL + "/sse"},
	} {
		cfg.Timeout = 100 * time.Millisecond
		_, err := open(t, cfg).Call(t.Context(), Call{Backend: "be", Tool: "block"})
		if ce := callError(t, err); ce.Outcome != Unknown || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: outcome %d, error %v", cfg.Transport, ce.Outcome, err)
		}
		receive(t, s.cancelled, "the cancelled call")
	}
}

func TestCancelReachesTheBackend(t *testing.T) {
	t.Parallel()
	forEachEra(t, func(t *testing.T, e era) {
		s := newTestServer()
		p := open(t, httpConfig(serve(t, e.handler(s)).URL))
		checkCancel(t, p, s.started)
		receive(t, s.cancelled, "the cancelled call")
	})
}

// checkCancel cancels a call of block after it has begun.
func checkCancel(t *testing.T, p *Pool, started <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := p.Call(ctx, Call{Backend: "be", Tool: "block", Progress: func(Progress) { cancel(errors.New("enough")) }})
		done <- err
	}()
	if started != nil {
		receive(t, started, "the call to begin")
		cancel(errors.New("enough"))
	}
	err := receive(t, done, "the call to end")
	if ce := callError(t, err); ce.Outcome != Unknown || !strings.Contains(err.Error(), "enough") {
		t.Errorf("outcome %d, error %v", ce.Outcome, err)
	}
}

func TestProgressGoesToItsCaller(t *testing.T) {
	t.Parallel()
	forEachEra(t, func(t *testing.T, e era) {
		p := open(t, httpConfig(serve(t, e.handler(newTestServer())).URL))
		// mcp-go's session-based servers send notifications on any stream of
		// the session; those of both eras lose some whose stream has just ended.
		checkProgress(t, p, map[string]int64{"modern": 200, "legacy": 1}[e.name])
	})
}

// checkProgress makes 50 calls at once and wants each to hear of itself only,
// and all together to hear at least so many times.
func checkProgress(t *testing.T, p *Pool, least int64) {
	t.Helper()
	var wg sync.WaitGroup
	var heard atomic.Int64
	for i := range 50 {
		wg.Go(func() {
			who := fmt.Sprintf("caller %d", i)
			last := 0.0
			r, err := p.Call(t.Context(), Call{
				Backend: "be", Tool: "report", Arguments: json.RawMessage(fmt.Sprintf(`{"who":%q}`, who)),
				Progress: func(pr Progress) {
					if pr.Message != who || pr.Progress <= last || pr.Total != 5 {
						t.Errorf("%s hears %+v after %v", who, pr, last)
					}
					last = pr.Progress
					heard.Add(1)
				},
			})
			if err != nil {
				t.Error(err)
			} else if r.Content[0].Text != who {
				t.Errorf("%s has the result of %s", who, r.Content[0].Text)
			}
		})
	}
	wg.Wait()
	if n := heard.Load(); n < least {
		t.Errorf("%d notifications arrived, want %d", n, least)
	}
}

// Calls that are answered by a stream use their connection again.
func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	forEachEra(t, func(t *testing.T, e era) {
		var conns atomic.Int64
		ts := httptest.NewUnstartedServer(e.handler(newTestServer()))
		ts.Config.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				conns.Add(1)
			}
		}
		ts.Start()
		t.Cleanup(func() {
			ts.CloseClientConnections()
			ts.Close()
		})
		p := open(t, httpConfig(ts.URL))
		for range 100 {
			if _, err := p.Call(t.Context(), Call{Backend: "be", Tool: "report", Progress: func(Progress) {}}); err != nil {
				t.Fatal(err)
			}
		}
		if n := conns.Load(); n > 20 {
			t.Errorf("100 calls made %d connections", n)
		}
	})
}

func TestNothingListens(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	p := openUnready(t, httpConfig("http://"+l.Addr().String()+"/mcp"))
	_, err = p.Call(t.Context(), Call{Backend: "be", Tool: "echo"})
	if ce := callError(t, err); ce.Outcome != NotSent || !strings.Contains(err.Error(), "refused") {
		t.Errorf("outcome %d, error %v", ce.Outcome, err)
	}
	if st := p.Status()[0]; st.Up || !strings.Contains(st.Error, "refused") {
		t.Errorf("status %+v", st)
	}
	if p.WaitReady(t.Context(), time.Millisecond) {
		t.Error("ready")
	}
}

// A backend that has not answered yet may offer what begins with its prefix; where
// names are those that backends give, it may offer any.
func TestUnseen(t *testing.T) {
	t.Parallel()
	config := Config{Name: "my-be", Transport: StreamableHTTP, URL: "http://127.0.0.1:1/mcp"}
	for strategy, want := range map[string]map[string]bool{
		StrategyPrefix: {"my-be_echo": true, "my-be.echo": true, "my_be.echo": true, "echo": false, "other_echo": false},
		StrategyManual: {"my-be.echo": true, "echo": true},
	} {
		p := perduretest.Must(New([]Config{config}, Aggregation{Strategy: strategy}, nil))(t)
		for name, may := range want {
			if backend, ok := p.Unseen(name); ok != may || ok && backend != "my-be" {
				t.Errorf("%s, %s: %q, %t", strategy, name, backend, ok)
			}
		}
		p.byName["my-be"].publish(&listing{})
		if _, ok := p.Unseen("my-be_echo"); ok {
			t.Error("a backend that has answered has tools that are not known")
		}
	}
}

// TestAwait waits for a backend whose credentials come after the start: it is tried
// at once, and its tools are known then. One that is still away is no reason to wait
// for more than two tries.
func TestAwait(t *testing.T) {
	t.Parallel()
	forEachEra(t, func(t *testing.T, e era) {
		srv := httptest.NewServer(e.handler(newTestServer()))
		t.Cleanup(srv.Close)
		creds := &lateCredentials{}
		config := httpConfig(srv.URL)
		config.Credentials = creds
		p := openUnready(t, config)
		told := make(chan bool, 10)
		p.OnChange(func() {
			_, away := p.Unseen("be_none")
			told <- away
		})
		if p.Await(t.Context(), "be") || p.Await(t.Context(), "other") {
			t.Fatal("the backend has answered without credentials")
		}
		creds.there.Store(true)
		if !p.Await(t.Context(), "be") {
			t.Fatal("the backend has not answered")
		}
		if _, ok := p.Find("be_echo"); !ok || <-told {
			t.Error("it has answered, and its tools are not known")
		}
	})
}

// lateCredentials are there after a while.
type lateCredentials struct{ there atomic.Bool }

func (*lateCredentials) Identity(Caller) string { return "" }

func (c *lateCredentials) Headers(context.Context, Caller, Headers) (Headers, error) {
	if !c.there.Load() {
		return nil, &CredentialsError{Reason: "none yet", Caller: true}
	}
	return Headers{}, nil
}

func TestReconnectAfterRestart(t *testing.T) {
	t.Parallel()
	forEachEra(t, func(t *testing.T, e era) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		srv := &http.Server{Handler: e.handler(newTestServer())}
		go func() { _ = srv.Serve(l) }()
		p := open(t, httpConfig("http://"+addr))
		changed := make(chan struct{}, 10)
		p.OnChange(func() { changed <- struct{}{} })

		srv.Close()
		_, err = p.Call(t.Context(), Call{Backend: "be", Tool: "echo"})
		if ce := callError(t, err); ce.Outcome != NotSent {
			t.Fatalf("outcome %d, error %v", ce.Outcome, err)
		}
		if _, ok := p.Find("be_echo"); !ok {
			t.Error("the tools of a backend that is down are forgotten")
		}

		if l, err = net.Listen("tcp", addr); err != nil {
			t.Fatal(err)
		}
		s := newTestServer()
		s.add("extra", s.echo)
		srv = &http.Server{Handler: e.handler(s)}
		go func() { _ = srv.Serve(l) }()
		defer srv.Close()
		receive(t, changed, "the new tool")
		if _, ok := p.Find("be_extra"); !ok {
			t.Error("the new tool is not there")
		}
		if _, err := p.Call(t.Context(), Call{Backend: "be", Tool: "extra"}); err != nil {
			t.Error(err)
		}
	})
}

func TestListChanged(t *testing.T) {
	t.Parallel()
	forEachEra(t, func(t *testing.T, e era) {
		s := newTestServer()
		p := open(t, httpConfig(serve(t, e.handler(s)).URL))
		changed := make(chan struct{}, 10)
		p.OnChange(func() { changed <- struct{}{} })
		for tick := time.Tick(200 * time.Millisecond); ; { // the stream may not be open yet
			s.mcp.DeleteTools("late")
			s.add("late", s.echo)
			select {
			case <-changed:
				if _, ok := p.Find("be.late"); ok {
					return
				}
			case <-tick:
			case <-t.Context().Done():
				t.Fatal("no change")
			}
		}
	})
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	good := httpConfig("http://x/mcp")
	with := func(change func(*Config)) []Config {
		c := good
		change(&c)
		return []Config{c}
	}
	tests := []struct {
		name    string
		configs []Config
		agg     Aggregation
		want    string
	}{
		{"twice", []Config{good, good}, Aggregation{}, "twice"},
		{"no name", with(func(c *Config) { c.Name = "" }), Aggregation{}, "needs a name"},
		{"transport", with(func(c *Config) { c.Transport = "pigeon" }), Aggregation{}, "pigeon"},
		{"url", with(func(c *Config) { c.URL = "x" }), Aggregation{}, "http or https"},
		{"command", with(func(c *Config) { c.Transport = Stdio }), Aggregation{}, "needs a command"},
		{"credentials", with(func(c *Config) { c.Transport, c.Command, c.Credentials = Stdio, "x", &tokens{} }), Aggregation{}, "to the process with env"},
		{"class", with(func(c *Config) { c.Effects = []EffectRule{{Tool: "*", Class: "safe"}} }), Aggregation{}, "use read, idempotent, keyed or unsafe"},
		{"glob", with(func(c *Config) { c.Effects = []EffectRule{{Tool: "[", Class: "read"}} }), Aggregation{}, "glob"},
		{"key argument", with(func(c *Config) { c.Effects = []EffectRule{{Tool: "*", Class: "read", KeyArgument: "k"}} }), Aggregation{}, "only class keyed"},
		{"strategy", []Config{good}, Aggregation{Strategy: "first"}, "use prefix, priority or manual"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := New(tt.configs, tt.agg, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// TestReconfigure gives tools other classes and names while the sessions stay.
func TestReconfigure(t *testing.T) {
	t.Parallel()
	config := httpConfig(serve(t, eras[0].handler(newTestServer())).URL)
	p := open(t, config)
	before, _ := p.Find("be_echo")
	if before.Effect != "unsafe" {
		t.Fatalf("without a rule, the class is %s", before.Effect)
	}
	changes := 0
	p.OnChange(func() { changes++ })
	config.Effects = []EffectRule{{Tool: "echo", Class: "read"}}
	agg := Aggregation{PrefixFormat: "{workload}-"}
	perduretest.NoError(t, p.Reconfigure([]Config{config, {Name: "new", Transport: Stdio, Command: "new"}}, agg))
	if after, ok := p.Find("be-echo"); !ok || after.Effect != "read" || changes != 1 {
		t.Errorf("be-echo is %+v, after %d changes", after, changes)
	}
	if again := before.Effect; again != "unsafe" {
		t.Errorf("a tool that was found before changed to %s", again)
	}
	if err := p.Reconfigure([]Config{config}, agg); err != nil || changes != 1 {
		t.Errorf("the same again: %v, %d changes", err, changes)
	}
	config.Effects = []EffectRule{{Tool: "[", Class: "read"}}
	if err := p.Reconfigure([]Config{config}, Aggregation{}); err == nil {
		t.Error("a rule that is none was taken")
	}
	if _, ok := p.Find("be-echo"); !ok {
		t.Error("an error has changed the names of tools")
	}
}

// The status of a backend has the tools that are left out, with reasons.
func TestStatusOfToolsLeftOut(t *testing.T) {
	t.Parallel()
	s := newTestServer()
	s.add("delete item", s.echo)
	p := open(t, httpConfig(serve(t, eras[0].handler(s)).URL))
	st := p.Status()[0]
	if why := st.LeftOut[`"delete item"`]; why != "its name has white space in it" || len(st.LeftOut) != 1 || st.Tools != len(p.Tools()) {
		t.Errorf("the status is %+v", st)
	}
}
