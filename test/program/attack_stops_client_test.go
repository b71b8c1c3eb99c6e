//go:build !nodev

package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/perduretest"
)

// A call that its client cancels, or whose run an operator does, sends nothing more:
// neither of a composite tool, which reads, nor one that is passed through and waits
// for its turn.
func TestAttackStoppedRunByItsClient(t *testing.T) {
	t.Parallel()
	reading, holding, release := make(chan struct{}, 100), make(chan struct{}, 100), make(chan struct{})
	backend := serveFakes(t, map[string]fakeTool{
		"be_read": func(context.Context, map[string]any) (*mcp.CallToolResult, error) {
			reading <- struct{}{}
			time.Sleep(300 * time.Millisecond)
			return mcp.NewToolResultStructured(json.RawMessage(`{}`), `{}`), nil
		},
		"be_write": structuredAnswer(`{}`),
		"li_hold": func(ctx context.Context, _ map[string]any) (*mcp.CallToolResult, error) {
			holding <- struct{}{}
			<-release
			return mcp.NewToolResultStructured(json.RawMessage(`{}`), `{}`), nil
		},
		"li_write": structuredAnswer(`{}`),
	})
	var steps []string
	for i := range 12 {
		steps = append(steps, fmt.Sprintf("{id: s%d, tool: be_read, arguments: {n: %d}, dependsOn: [%s]}", i, i, strings.Repeat(fmt.Sprintf("s%d", i-1), min(i, 1))))
	}
	configuration := backend.configuration(`[{tool: read, class: read}, {tool: "*", class: unsafe}]`)
	configuration = strings.Replace(configuration, "name: li,", "name: li, limits: {concurrency: 1},", 1)
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), configuration+"compositeTools:\n  - name: reads\n    description: Reads for long, and then writes.\n    parameters: {of: string}\n    steps: ["+
		strings.Join(steps, ", ")+", {id: w, tool: be_write, dependsOn: [s11], arguments: {of: '{{.params.of}}'}}]\n")
	w := startDev(t, dir, "--config", "perdure.yaml")

	for name, stop := range map[string]func(c *resumer, run string){
		"by its client": func(c *resumer, _ string) {
			perduretest.NoError(t, c.Notify(t.Context(), "notifications/cancelled", `{"requestId":1,"reason":"enough"}`))
		},
		"by an operator": func(_ *resumer, run string) { w.run(t, "runs", "cancel", run) },
	} {
		t.Run(name, func(t *testing.T) {
			bound := 2 * stopBound // with what a command takes
			promptly(t, name, bound, func(t *testing.T, name string) time.Duration {
				c := newResumer(t, w.url(), nil)
				ended := make(chan error, 1)
				go func() {
					_, err := c.call(t.Context(), 1, "reads", fmt.Sprintf(`{"of":%q}`, name))
					ended <- err
				}()
				receive(t, reading, "a read")
				run := w.runs(t, "reads")[0].ID
				stop(c, run)
				stopped := time.Now()
				until(t, "the run to end", func() bool { return strings.Contains(w.run(t, "runs", "show", run), "cancelled") })
				took := time.Since(stopped)
				receive(t, ended, "the end of the call")
				if n := backend.count("be_write", name); n > 0 {
					t.Errorf("it has written %d times", n)
				}
				for len(reading) > 0 {
					<-reading
				}
				return took
			})
		})
	}
	t.Run("passed through", func(t *testing.T) {
		c := newResumer(t, w.url(), nil)
		held, ended := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := c.call(t.Context(), 1, "li_hold", `{}`)
			held <- err
		}()
		receive(t, holding, "the call before")
		go func() {
			_, err := c.call(t.Context(), 2, "li_write", `{}`)
			ended <- err
		}()
		until(t, "the call to be cancelled", func() bool {
			perduretest.NoError(t, c.Notify(t.Context(), "notifications/cancelled", `{"requestId":2}`))
			return len(ended) > 0
		})
		close(release)
		receive(t, held, "the end of the call before")
		if n := backend.count("li_write", ""); n > 0 {
			t.Errorf("it was sent %d times", n)
		}
	})
}
