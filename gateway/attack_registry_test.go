package gateway_test

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/registry"
	"github.com/perdure/perdure/internal/store"
	"github.com/perdure/perdure/internal/web"
)

// TestAttackRegistryReaders has a caller ask the registry for definitions, of a megabyte
// each, more often than it may and than there is room for.
func TestAttackRegistryReaders(t *testing.T) {
	t.Parallel()
	kept := perduretest.Must(store.OpenRegistryFile(filepath.Join(t.TempDir(), "registry.jsonl")))(t)
	t.Cleanup(kept.Close)
	bodies := web.NewBodies(8<<20, time.Second)
	w := newWorld(t, map[string]func(*play){"hang": hanging}, func(o *gateway.Options) {
		o.Registry, o.Bodies, o.Quotas.Requests = registry.New(registry.Options{Store: kept}), bodies, 1
	})
	asked := func(want int, when string) {
		t.Helper()
		if code, answer := w.request(http.MethodGet, "versions", "ann", nil); code != want {
			t.Errorf("%s it is answered %d: %s", when, code, answer)
		}
	}
	asked(http.StatusOK, "with room")
	var free []func()
	for _, other := range []string{"bob", "eve"} {
		f := perduretest.Must(bodies.Work(t.Context(), other, 4<<20))(t)
		free = append(free, f)
	}
	asked(http.StatusServiceUnavailable, "without room")
	for _, f := range free {
		f()
	}
	asked(http.StatusOK, "with room again")
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	c.call("1", "hang", `{}`, `{"progressToken":"p"}`)
	asked(http.StatusTooManyRequests, "beyond the quota")
}
