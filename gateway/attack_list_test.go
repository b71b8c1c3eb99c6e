package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/web"
)

// TestAttackLargeLists has a backend offer a list of tools of megabytes, and clients ask
// for it as often as they may at once: what finds no room is not written.
func TestAttackLargeLists(t *testing.T) {
	t.Parallel()
	bodies := web.NewBodies(4<<20, 20*time.Millisecond)
	w := newWorld(t, map[string]func(*play){"echoed": echoed}, func(o *gateway.Options) { o.Bodies = bodies })
	large := tool("large")
	large.Description = strings.Repeat("x", 1<<20)
	w.catalogue.set(tool("echo"), large)
	session := connect(t, w.url, "ann", "2025-11-25", `{}`)
	stateless := &wire{T: t, url: w.url, caller: "ann"}
	list := func() map[string]*response {
		return map[string]*response{"a session": session.request("tools/list", `{}`), "2026-07-28": stateless.modern("tools/list", "", `{}`, "")}
	}
	var free []func()
	for _, other := range []string{"bob", "eve"} {
		f := perduretest.Must(bodies.Work(t.Context(), other, 2<<20))(t)
		free = append(free, f)
	}
	for era, r := range list() {
		if _, code := r.answer(); r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" || code != -32603 {
			t.Errorf("%s: a list without room is answered %s, %v, %d", era, r.Status, r.Header, code)
		}
	}
	for _, f := range free {
		f()
	}
	for era, r := range list() {
		if list := r.messageText(); r.StatusCode != http.StatusOK || len(list) < 1<<20 {
			t.Errorf("%s: with room the list is answered %s, %d bytes", era, r.Status, len(list))
		}
	}
	if free, err := bodies.Work(t.Context(), "bob", 2<<20); err != nil {
		t.Errorf("the lists that were written hold their room: %v", err)
	} else {
		free()
	}
}
