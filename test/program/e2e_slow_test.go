package program_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/perduretest"
)

// longer than the 30 s after which common clients, proxies and libraries think
// that something is wrong.
const longer = 35 * time.Second

const slowDefinitions = `
compositeTools:
  - name: ask
    description: Asks a person.
    steps: &ask
      - {id: approval, type: elicitation, message: "Go on?", timeout: 24h, schema: {type: object, properties: {verdict: {type: string}}, required: [verdict]}}
    output: &verdict
      properties:
        verdict: {type: string, description: Verdict, value: "{{.steps.approval.output.content.verdict}}"}
  - {name: ask_and_leave, description: Asks a person., steps: *ask, output: *verdict}
  - name: call_read
    description: A slow read.
    steps: [{id: call, tool: be_slow_read}]
  - name: call_write
    description: A slow write.
    steps: [{id: call, tool: be_slow_write}]
`

// TestThirtyFiveSeconds really waits: for a person, and for a backend, in every
// way in which a client can wait. All of them wait at the same time.
func TestThirtyFiveSeconds(t *testing.T) {
	t.Parallel()
	sleep := func(ctx context.Context, _ map[string]any) (*mcp.CallToolResult, error) {
		select {
		case <-time.After(longer):
			return structured(map[string]any{"slept": true}), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	backend := serveFakes(t, map[string]fakeTool{"be_slow_read": sleep, "be_slow_write": sleep})
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), backend.configuration(`[{tool: "*read", class: read}, {tool: "*", class: unsafe}]`)+slowDefinitions)
	d := startDev(t, dir, "--config", "perdure.yaml", "--call-patience", "0s")
	slowly := answerer(func(ctx context.Context, _ string) (string, any, error) {
		select {
		case <-time.After(longer):
			return "accept", map[string]any{"verdict": "late"}, nil
		case <-ctx.Done():
			return "", nil, ctx.Err()
		}
	})
	const late, slept = `{"verdict": "late"}`, `{"slept": true}`
	// go test lets only as many parallel tests run as there are processors,
	// and these do nothing but wait.
	var cases sync.WaitGroup
	defer cases.Wait()
	atOnce := func(name string, f func(*testing.T)) { cases.Go(func() { t.Run(name, f) }) }

	atOnce("a person, on the stream", func(t *testing.T) {
		raw := perduretest.Must(newResumer(t, d.url(), slowly).call(t.Context(), 1, "ask", `{}`))(t)
		sameJSON(t, "the result", structuredContent(raw), late)
	})
	atOnce("a person, by input_required", func(t *testing.T) {
		sameJSON(t, "the result", toolCall{name: "ask"}.must(t, d.dial(t, modern, slowly)), late)
	})
	atOnce("a person, and the client is gone", func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		asked := make(chan string, 1)
		c := newResumer(t, d.url(), silent(asked))
		go func() { _, _ = c.call(ctx, 1, "ask_and_leave", `{}`) }()
		receive(t, asked, "the question")
		leave()
		id := d.onlyRun(t, "ask_and_leave", "waiting")
		time.Sleep(longer)
		d.run(t, "runs", "answer", id, "--accept", "--content", late)
		sameJSON(t, "the result", toolCall{name: awaitTool, arguments: map[string]any{"runId": id}}.must(t, d.dial(t, legacy, nil)), late)
	})
	for _, version := range []string{"2025-06-18", legacy, modern} {
		for _, tool := range []string{"call_read", "call_write", "be_slow_read", "be_slow_write"} {
			atOnce(fmt.Sprintf("a backend, %s in %s", tool, version), func(t *testing.T) {
				sameJSON(t, "the result", toolCall{name: tool, progress: true}.must(t, d.dial(t, version, nil)), slept)
			})
		}
	}
}
