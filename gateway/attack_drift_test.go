package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

// TestAttackLargeDrift: a backend describes a tool with a schema of a megabyte after a
// composite tool was published that calls it. The two are compared once, and not with each
// call, nor each time that somebody asks what has changed.
func TestAttackLargeDrift(t *testing.T) {
	w, _ := newPublishing(t)
	w.runs.plays = map[string]func(*play){"open": echoed}
	w.mustPublish("open", "1.0.0", "for all")
	var b strings.Builder
	for i := range 45_000 {
		fmt.Fprintf(&b, `,"p%d":{"type":"x"}`, i)
	}
	changed := tool("echo")
	changed.InputSchema = json.RawMessage(`{"properties":{` + b.String()[1:] + `}}`)
	w.catalogue.set(changed)
	session := connect(t, w.url, "ann", "2025-11-25", `{}`)
	session.call("0", "open", `{"n":0}`, `{}`).next()
	const calls = 10
	allocated := perduretest.Allocated(func() {
		for i := range calls {
			session.call(fmt.Sprint(i+1), "open", fmt.Sprintf(`{"n":%d}`, i+1), `{}`).next()
		}
	})
	if n := allocated >> 20; n > 10*calls {
		t.Errorf("%d calls have allocated %d MB", calls, n)
	}
	allocated = perduretest.Allocated(func() {
		for range calls {
			if code, text := w.request("GET", "drift", "ann", nil); code != http.StatusOK || !strings.Contains(text, "echo") {
				t.Fatalf("%d %.200s", code, text)
			}
		}
	})
	if n := allocated >> 20; n > calls {
		t.Errorf("%d requests have allocated %d MB", calls, n)
	}
}
