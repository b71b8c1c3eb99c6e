package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// fan is a chain of composite tools. Each calls the next one in twenty steps: six
// small files that say 64 million calls.
func fan() string {
	var b strings.Builder
	for level := range 6 {
		fmt.Fprintf(&b, "---\nname: fan%d\ndescription: d\nsteps:\n", level)
		for step := range 20 {
			fmt.Fprintf(&b, "  - {id: s%d, type: workflow, workflow: fan%d}\n", step, level+1)
		}
	}
	return b.String() + "---\nname: fan6\ndescription: d\nsteps:\n  - {id: s, tool: be_echo}\n"
}

// TestAttackFan calls, and plans, a composite tool that calls others which call others: what
// the gateway looks at before there is a run does not grow with the calls of the whole tree.
func TestAttackFan(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"fan0": echoed, "echoed": echoed})
	w.gateway.SetDefinitions(define(t, fan()+"---"+simple("echoed")))
	answered := func(what string, call func(c *wire)) {
		t.Helper()
		done := make(chan struct{})
		go func() {
			defer close(done)
			call(connect(t, w.url, what, "2025-11-25", `{}`))
		}()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Fatalf("%s is not answered", what)
		}
	}
	answered("a call", func(c *wire) { c.call("1", "fan0", `{}`, `{}`).result(false) })
	answered("a dry run", func(c *wire) {
		if m := c.call("1", "fan0", `{}`, `{"perdure/dry-run":true}`).result(true); !strings.Contains(m.text(), "more than") {
			t.Errorf("a plan of 64 million steps: %.200s", m.text())
		}
	})
	answered("another call", func(c *wire) { c.call("1", "echoed", `{"message":"m"}`, `{}`).result(false) })
}
