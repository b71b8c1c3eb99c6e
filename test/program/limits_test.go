//go:build !nodev

package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/activities"
	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/devserver"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/workflows"
)

// sizedBackend answers with as much as the tool's name says, in KB.
type sizedBackend struct{}

func (sizedBackend) Call(_ context.Context, call backends.Call) (*backends.Result, error) {
	kind, size, _ := strings.Cut(call.Tool, "_")
	var kb int
	_, _ = fmt.Sscan(size, &kb)
	text := strings.Repeat("x", kb<<10)
	if kind == "html" {
		text = strings.Repeat("<", kb<<10)
	}
	return &backends.Result{Structured: json.RawMessage(`{"v":"` + text + `"}`)}, nil
}

// startTemporal starts a Temporal in the test's own process, which takes runs.
func startTemporal(t *testing.T, log *slog.Logger) client.Client {
	t.Helper()
	server, err := devserver.Start(t.Context(), devserver.Options{Dir: t.TempDir(), Logger: log, SearchAttributes: runs.SearchAttributes()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	c, err := client.Dial(client.Options{HostPort: server.Address(), Logger: sdklog.NewStructuredLogger(log),
		ConnectionOptions: client.ConnectionOptions{TLS: server.TLS()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Runs at the limits of Temporal, which it does not tell of but by terminating
// or blocking them, go on or fail with an error that names the limit.
func TestLimits(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	c := startTemporal(t, quiet)
	w := worker.New(c, workflows.TaskQueue, worker.Options{})
	workflows.Register(w, trust)
	activities.Register(w, activities.New(sizedBackend{}, quiet, activities.Options{}))
	perduretest.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	door := runs.New(runs.Config{Keys: testKeys, Client: c, Logger: quiet})

	for _, tc := range []struct{ name, source, want string }{
		{"parallel_reads", `{name: a, description: d, steps: [` + many(6, `{id: s%d, tool: read_1000}`) + `]` + count, `{"n":6}`},
		{"many_reads", `{name: a, description: d, steps: [{id: e, type: forEach, collection: "{{json (until 300)}}", maxIterations: 300, maxParallel: 50, step: {tool: read_40}}]` + count, `{"n":1}`},
		{"large_arguments", `{name: a, description: d, steps: [{id: big, tool: read_150}, {id: e, type: forEach, collection: "{{json (until 50)}}", maxParallel: 50,
			step: {tool: text_1, arguments: {v: "{{.steps.big.output.v}}"}}}]` + count, `{"n":2}`},
		{"markup", `{name: a, description: d, steps: [{id: h, tool: html_1500}]}`, "output_too_large"},
		{"markup_result", `{name: a, description: d, steps: [{id: h, tool: html_300}, {id: i, tool: html_300}],
			output: {properties: {a: {type: string, description: d, value: "{{.steps.h.output.v}}{{.steps.i.output.v}}"}}}}`, "result_too_large"},
		{"long_message", `{name: a, description: d, steps: [{id: a, tool: text_1500}, {id: b, tool: text_1500}, {id: g, type: elicitation, message: "{{.steps.a.output.v}}{{.steps.b.output.v}}"}]}`, "elicitation_too_large"},
		{"many_gates", `{name: a, description: d, failureMode: best_effort, steps: [{id: a, tool: text_90},` + many(40, `{id: g%d, type: elicitation, message: "{{.steps.a.output.v}}", timeout: 5s, onCancel: {action: continue}}`) + `]` + count, `{"n":`},
		{"retry_delay", `{name: a, description: d, steps: [{id: a, tool: text_1, onError: {action: retry, retryCount: 1, retryDelay: 50000h}}]` + count, `{"n":1}`},
		{"long_timeout", `{name: a, description: d, timeout: 2000000h, steps: [{id: a, tool: text_1, timeout: 2000000h}, {id: g, type: elicitation, message: m, timeout: 2000000h, condition: "false"}]` + count, `{"n":1}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			got, err := end(ctx, door, tc.source)
			if err != nil || !strings.HasPrefix(got, tc.want) {
				t.Errorf("got %.300s, %v; want %s", got, err, tc.want)
			}
		})
	}
}

// count is an output block that counts the steps that have completed.
const count = `, output: {properties: {n: {type: integer, description: d, value: '{{$n := 0}}{{range .steps}}{{if eq .status "completed"}}{{$n = add $n 1}}{{end}}{{end}}{{$n}}'}}}}`

func many(n int, step string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, step+",", i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// end is the output of a run, or the code with which it failed.
func end(ctx context.Context, door *runs.Client, source string) (string, error) {
	defs, diags := definitions.Parse("limits.yaml", []byte(source))
	if err := diags.Err(); err != nil {
		return "", err
	}
	if err := definitions.Check(defs, definitions.CheckOptions{}).Err(); err != nil {
		return "", err
	}
	tools := map[string]definitions.Tool{}
	for _, name := range defs[0].ToolNames() {
		tools[name] = definitions.Tool{Name: name, Backend: "be", Original: name, Effect: definitions.Unsafe}
		if strings.HasPrefix(name, "read") {
			tools[name] = definitions.Tool{Name: name, Backend: "be", Original: name, Effect: definitions.Read}
		}
	}
	started, err := door.Start(ctx, runs.StartRequest{Definition: defs[0], Arguments: json.RawMessage(`{}`), Tools: tools})
	if err != nil {
		return "", err
	}
	for event, err := range door.Follow(ctx, started.ID, 0, runs.AllEvents) {
		if err != nil {
			return "", err
		}
		switch {
		case event.Kind != runs.EventDone:
		case event.Outcome.Failure != nil:
			return string(event.Outcome.Failure.Error.Code) + ": " + event.Outcome.Failure.Error.Message, nil
		default:
			return string(event.Outcome.Output), nil
		}
	}
	return "", ctx.Err()
}
