package backends

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/perduretest"
)

// mapListings keep lists in memory.
type mapListings struct {
	mu   sync.Mutex
	kept map[string]string
}

func (m *mapListings) Last(_ context.Context, backend string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if kept, ok := m.kept[backend]; ok {
		return []byte(kept), nil
	}
	return nil, nil
}

func (m *mapListings) Keep(_ context.Context, backend string, listed []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept[backend] = string(listed)
	return nil
}

func openKeeping(t *testing.T, l Listings, cfg Config) *Pool {
	t.Helper()
	p := perduretest.Must(New([]Config{cfg}, Aggregation{}, testLogger(t)))(t)
	p.Keep(l)
	p.Start(t.Context())
	t.Cleanup(p.Close)
	return p
}

// TestListOfBefore shows that a backend which is away when a process starts, because it
// refuses connections or does not answer, has the tools that it has listed to another
// process, with the classes of this one, and those that it lists when it is back.
func TestListOfBefore(t *testing.T) {
	t.Parallel()
	s := newTestServer()
	s.mcp.AddTool(mcp.NewToolWithRawSchema("exact", "<é>", []byte(`{"type":"object","properties":{"n":{"type":"integer","maximum":123456789012345678901234567890}}}`)), s.echo)
	listings := &mapListings{kept: map[string]string{}}
	before := openKeeping(t, listings, httpConfig(serve(t, eras[0].handler(s)).URL))
	if !before.WaitReady(t.Context(), patience) {
		t.Fatal("not ready")
	}
	until(t, "the list to be kept", func() bool { kept, _ := listings.Last(t.Context(), "be"); return kept != nil })
	want, _ := before.Find("be_exact")

	hung, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	for name, url := range map[string]string{"refuses": "http://127.0.0.1:1/mcp", "hangs": "http://" + hung.Addr().String() + "/mcp"} {
		cfg := httpConfig(url)
		cfg.Effects = []EffectRule{{Tool: "exact", Class: "read"}}
		p := openKeeping(t, listings, cfg)
		until(t, name+": its tools", func() bool { _, ok := p.Find("be_exact"); return ok })
		got, _ := p.Find("be_exact")
		if got.Description != want.Description || got.Effect != "read" || string(got.InputSchema) != string(want.InputSchema) {
			t.Errorf("%s: the tool is %+v, want %+v of class read", name, got, want)
		}
		if backend, ok := p.Unseen("be_other"); ok {
			t.Errorf("%s: %s may have another tool", name, backend)
		}
		if up := p.Status()[0].Up; up {
			t.Errorf("%s: it counts as up", name)
		}
	}

	address := hung.Addr().String()
	hung.Close()
	p := openKeeping(t, listings, httpConfig("http://"+address+"/mcp"))
	until(t, "its tools", func() bool { _, ok := p.Find("be_exact"); return ok })
	s.mcp.DeleteTools("exact")
	back := &httptest.Server{Config: &http.Server{Handler: eras[0].handler(s)}}
	if back.Listener, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	back.Start()
	t.Cleanup(func() { back.CloseClientConnections(); back.Close() })
	if !p.WaitReady(t.Context(), patience) {
		t.Fatal("it is not back")
	}
	if _, ok := p.Find("be_exact"); ok {
		t.Error("a tool is there that the backend does not list any more")
	}
}

// TestListOfBeforeIsDamaged shows that a list which cannot be read counts as none.
func TestListOfBeforeIsDamaged(t *testing.T) {
	t.Parallel()
	p := openKeeping(t, &mapListings{kept: map[string]string{"be": `[{"name":`}}, httpConfig("http://127.0.0.1:1/mcp"))
	until(t, "a try", func() bool { return p.Status()[0].Tried })
	if backend, ok := p.Unseen("be_echo"); !ok || backend != "be" {
		t.Errorf("unseen: %q, %t", backend, ok)
	}
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s in vain", what)
		}
	}
}
