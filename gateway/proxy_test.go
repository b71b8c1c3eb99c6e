package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/web"
)

func TestProxyPassesResultsOn(t *testing.T) {
	t.Parallel()
	const raw = `{"_meta":{"x/y":1.50},"content":[{"type":"image","data":"aGk=","mimeType":"image/png"},{"type":"text","text":"<b>"}],"structuredContent":{"n":12345678901234567890,"f":1.0},"isError":true}`
	w := newWorld(t, nil)
	calls := make(chan backends.Call, 8)
	w.catalogue.call = func(_ context.Context, c backends.Call) (*backends.Result, error) {
		calls <- c
		return &backends.Result{Raw: json.RawMessage(raw)}, nil
	}
	session := connect(t, w.url, "ann", "2025-11-25", `{}`)
	modern := &wire{T: t, url: w.url, caller: "ann"}
	for name, tt := range map[string]struct {
		resp *response
		want string
	}{
		"session": {session.call("7", "be_echo", `{"n":12345678901234567890.10}`, `{"perdure/idempotency-key":"k1"}`), raw},
		"modern":  {modern.modernCall("be_echo", `{"n":12345678901234567890.10}`, `{}`, ""), `{"resultType":"complete",` + raw[1:]},
	} {
		var got struct{ Result json.RawMessage }
		perduretest.NoError(t, json.NewDecoder(tt.resp.lines).Decode(&got))
		if diff := cmp.Diff(tt.want, string(got.Result)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for range 2 {
		c := <-calls
		if c.Backend != "be" || c.Tool != "echo" || string(c.Arguments) != `{"n":12345678901234567890.10}` {
			t.Errorf("call was %+v", c)
		}
	}
}

// TestProxyKeys: the same key of two callers is two keys for a backend, which
// may not tell them apart.
func TestProxyKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	calls := make(chan backends.Call, 1)
	w.catalogue.call = func(_ context.Context, c backends.Call) (*backends.Result, error) {
		calls <- c
		return &backends.Result{Raw: json.RawMessage(`{"content":[]}`)}, nil
	}
	sent := func(caller, meta string) string {
		connect(t, w.url, caller, "2025-11-25", `{}`).call("7", "be_echo", `{}`, meta).result(false)
		return (<-calls).IdempotencyKey
	}
	ann := sent("ann", `{"perdure/idempotency-key":"k1"}`)
	if again := sent("ann", `{"perdure/idempotency-key":"k1"}`); ann == "" || again != ann {
		t.Errorf("a call and its repetition have the keys %q and %q", ann, again)
	}
	for name, other := range map[string]string{
		"another caller": sent("bob", `{"perdure/idempotency-key":"k1"}`),
		"another key":    sent("ann", `{"perdure/idempotency-key":"k2"}`),
	} {
		if other == ann || other == "" {
			t.Errorf("%s: the key is %q, too", name, other)
		}
	}
	if none := sent("ann", `{}`); none != "" {
		t.Errorf("a call without a key has the key %q", none)
	}
}

func TestProxyProgressAndCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	cancelled := make(chan error, 1)
	w.catalogue.call = func(ctx context.Context, c backends.Call) (*backends.Result, error) {
		for _, p := range []float64{1, 2, 2, 1, 3} {
			c.Progress(backends.Progress{Progress: p, Total: 3, Message: "working"})
		}
		<-ctx.Done()
		cancelled <- context.Cause(ctx)
		return nil, &backends.CallError{Backend: "be", Tool: "echo", Outcome: backends.Unknown, Err: ctx.Err()}
	}
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	stream := c.call(`"abc"`, "be_echo", `{}`, `{"progressToken":"t"}`)
	for _, want := range []float64{1, 2, 3} {
		if got := stream.progress(); got != want {
			t.Errorf("progress %v, want %v", got, want)
		}
	}
	c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"abc","reason":"enough"}}`)
	<-cancelled
	m := stream.result(true)
	if err := hasAll(m.text(), "may have taken effect"); err != nil {
		t.Error(err)
	}
}

func TestProxyErrors(t *testing.T) {
	t.Parallel()
	boom := errors.New("connection refused")
	for name, tt := range map[string]struct {
		err       error
		effect    string
		code      string
		retryable bool
		says      string
	}{
		"not sent":          {&backends.CallError{Backend: "be", Tool: "echo", Outcome: backends.NotSent, Err: boom}, "unsafe", "not_sent", true, "was not executed"},
		"refused":           {&backends.CallError{Backend: "be", Tool: "echo", Outcome: backends.Refused, Err: boom}, "unsafe", "refused", false, "refused"},
		"unknown":           {&backends.CallError{Backend: "be", Tool: "echo", Err: boom}, "unsafe", "outcome_unknown", false, "check before"},
		"unknown of a read": {&backends.CallError{Backend: "be", Tool: "echo", Err: boom}, "read", "no_answer", true, "may help"},
		"anything else":     {errors.New("secret detail"), "unsafe", "internal", false, "internal error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			echo := tool("echo")
			echo.Effect = tt.effect
			w.catalogue.set(echo)
			w.catalogue.call = func(context.Context, backends.Call) (*backends.Result, error) { return nil, tt.err }
			m := connect(t, w.url, "ann", "2025-11-25", `{}`).call("1", "be_echo", `{}`, "").result(true)
			var e struct {
				Code      string
				Retryable bool
			}
			perduretest.NoError(t, json.Unmarshal(m.Result.Meta["perdure/error"], &e))
			if e.Code != tt.code || e.Retryable != tt.retryable || !strings.Contains(m.text(), tt.says) || strings.Contains(m.text(), "secret") {
				t.Errorf("got %+v: %s", e, m.text())
			}
		})
	}
}

func TestProxyOutlivesADroppedConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	began, goOn, ended := make(chan bool), make(chan bool), make(chan error)
	w.catalogue.call = func(ctx context.Context, _ backends.Call) (*backends.Result, error) {
		began <- true
		<-goOn
		ended <- ctx.Err()
		return &backends.Result{Raw: json.RawMessage(`{"content":[]}`)}, nil
	}
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	ctx, drop := context.WithCancel(t.Context())
	gone := make(chan bool)
	go func() {
		defer close(gone)
		req := callBody("1", "be_echo", `{}`, "")
		c.try(ctx, req)
	}()
	<-began
	drop()
	<-gone
	goOn <- true
	if err := <-ended; err != nil {
		t.Errorf("the backend call was cancelled: %v", err)
	}
}

// TestProxyNoResult: a backend that gives null has executed the call and is to blame.
func TestProxyNoResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.catalogue.call = func(context.Context, backends.Call) (*backends.Result, error) {
		return &backends.Result{Raw: json.RawMessage(`null`)}, nil
	}
	for name, resp := range map[string]*response{
		"session": connect(t, w.url, "ann", "2025-11-25", `{}`).call("1", "be_echo", `{}`, ""),
		"modern":  (&wire{T: t, url: w.url, caller: "ann"}).modernCall("be_echo", `{}`, `{}`, ""),
	} {
		if err := hasAll(resp.result(true).text(), "be_echo was executed", "backend be gave null"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestProxyResultHoldsRoom: a large result takes room of its caller until it is written.
func TestProxyResultHoldsRoom(t *testing.T) {
	t.Parallel()
	bodies := web.NewBodies(1<<20, time.Minute)
	if _, err := bodies.Work(t.Context(), "eve", 1<<19); err != nil { // which keeps half
		t.Fatal(err)
	}
	w := newWorld(t, nil, func(o *gateway.Options) { o.Bodies = bodies })
	w.catalogue.call = func(context.Context, backends.Call) (*backends.Result, error) {
		return &backends.Result{Raw: json.RawMessage(`{"content":[],"structuredContent":{"x":"` + strings.Repeat("x", 64<<20) + `"}}`)}, nil
	}
	response := (&wire{T: t, url: w.url, caller: "ann"}).modernCall("be_echo", `{}`, `{}`, "")
	free := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		free, err := bodies.Work(ctx, "bob", 1)
		if err == nil {
			free()
		}
		return err
	}
	if free(50*time.Millisecond) == nil {
		t.Error("a result that is not read takes no room")
	}
	response.Body.Close()
	if err := free(20 * time.Second); err != nil {
		t.Errorf("a result whose reader has gone keeps its room: %v", err)
	}
}
