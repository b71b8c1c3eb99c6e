package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/perdure/perdure/internal/perduretest"
)

const forwardedSecret = "planted-forwarded-s3cret"

// A recorder is a backend that records what calls of its tool came with: the headers
// X-Key, X-Other and traceparent, and _meta, by the argument "at".
type recorder struct {
	*httptest.Server

	mu   sync.Mutex
	came map[string]string
}

func newRecorder(t *testing.T) *recorder {
	b := &recorder{came: map[string]string{}}
	s := mcpserver.NewMCPServer("be", "1", mcpserver.WithToolCapabilities(true))
	s.AddTool(mcp.NewToolWithRawSchema("send", "sends", json.RawMessage(`{"type":"object"}`)), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var meta map[string]any
		if req.Params.Meta != nil {
			meta = req.Params.Meta.AdditionalFields
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.came[req.GetString("at", "")] = fmt.Sprintf("key=%s other=%s trace=%s trip=%v secret=%v", req.Header.Get("X-Key"), req.Header.Get("X-Other"),
			req.Header.Get("Traceparent"), meta["acme.example/trip"], meta["other.example/x"])
		return mcp.NewToolResultText("sent"), nil
	})
	b.Server = httptest.NewServer(mcpserver.NewStreamableHTTPServer(s))
	t.Cleanup(func() {
		b.CloseClientConnections()
		b.Close()
	})
	return b
}

func (b *recorder) at(place string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.came[place]
}

// The headers and keys of _meta that are listed reach backends: from a direct call, and
// from each step of a run and of a run that it calls, also after a kill -9. They are in
// no history and no log, in clear in no file, and gone when the run has ended.
func TestForwardedOfALongRun(t *testing.T) {
	t.Parallel()
	b, dir := newRecorder(t), t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), fmt.Sprintf(`
name: forwarded
backends:
  - {name: be, transport: streamable-http, url: %q, effects: [{tool: "*", class: read}]}
passthroughHeaders: [x-key, traceparent]
passthroughMeta: [acme.example/*]
compositeTools:
  - name: outer
    description: Sends before and after somebody has agreed.
    timeout: 1h
    steps:
      - {id: before, tool: be_send, arguments: {at: before}}
      - {id: agree, type: elicitation, message: "Send?", timeout: 30m, dependsOn: [before]}
      - {id: after, tool: be_send, dependsOn: [agree], arguments: {at: after}}
      - {id: inner, type: workflow, workflow: inner, dependsOn: [agree]}
  - name: inner
    description: Sends.
    steps: [{id: send, tool: be_send, arguments: {at: inner}}]
`, b.URL))
	d := newDev(t, dir, "--config", "perdure.yaml")
	d.start()
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	wire, err := transport.NewStreamableHTTP("http://"+d.address+endpoint, transport.WithHTTPLogger(slog.New(slog.DiscardHandler)),
		transport.WithHTTPHeaders(map[string]string{"X-Key": forwardedSecret, "X-Other": "no", "traceparent": trace}))
	if err != nil {
		t.Fatal(err)
	}
	c := initialize(t, client.NewClient(wire), legacy)
	call := func(tool string, arguments map[string]any) string {
		var request mcp.CallToolRequest
		request.Params.Name, request.Params.Arguments = tool, arguments
		request.Params.Meta = &mcp.Meta{AdditionalFields: map[string]any{"acme.example/trip": "planted-trip-s3cret", "other.example/x": "no"}}
		result := perduretest.Must(c.CallTool(t.Context(), request))(t)
		return asJSON(t, result.Content) + asJSON(t, result.Meta)
	}
	const want = "key=" + forwardedSecret + " other= trace=" + trace + " trip=planted-trip-s3cret secret=<nil>"
	came := func(places ...string) {
		t.Helper()
		for _, place := range places {
			if got := b.at(place); got != want {
				t.Errorf("%s: the backend got %q, want %q", place, got, want)
			}
		}
	}
	call("be_send", map[string]any{"at": "direct"})
	said := call("outer", nil)
	run := d.onlyRun(t, "outer", "waiting")
	came("direct", "before")
	logs := d.output.String()
	d.kill()
	d.start()
	d.run(t, "runs", "answer", run, "--accept")
	until(t, "the run to end", func() bool { return strings.Contains(d.run(t, "runs", "show", run), "completed") })
	came("after", "inner")
	until(t, "what was kept for the run to be removed", func() bool {
		left, err := filepath.Glob(filepath.Join(dir, ".perdure", "grants", "*.json"))
		return err == nil && !slices.ContainsFunc(left, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && !strings.Contains(string(text), `"backend":"perdure/tools/be"`) // what the backend lists is kept
		})
	})
	said += d.run(t, "runs", "show", run, "-o", "json")
	logs += d.interrupt(patience)
	for where, text := range map[string]string{"what is said": said, "the logs": logs, "the histories": d.histories(t)} {
		if strings.Contains(text, "s3cret") {
			t.Errorf("what was forwarded is in %s", where)
		}
	}
	leaks(t, filepath.Join(dir, ".perdure"))
}

// leaks fails the test if what was forwarded is in a file below a directory.
func leaks(t *testing.T, dir string) {
	t.Helper()
	v := &vault{secrets: map[string]string{"header": forwardedSecret, "_meta": "planted-trip-s3cret"}}
	err := filepath.WalkDir(dir, func(file string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(file)
		v.check(t, file, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
