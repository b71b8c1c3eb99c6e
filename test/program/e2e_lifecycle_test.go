package program_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/pgtest"
)

// TestStopAtGate ends the program in order while a person is asked.
func TestStopAtGate(t *testing.T) {
	t.Parallel()
	repository := newRepository(t)
	d := startDev(t, repository)
	asked := make(chan string, 1)
	c := d.dial(t, legacy, silent(asked))
	go func() { _, _ = toolCall{name: "prepare_review", key: "k"}.by(t.Context(), c) }()
	receive(t, asked, "the question")
	id := d.onlyRun(t, "prepare_review", "waiting")

	_, refused, err := d.try(t, "dev", "--listen", "127.0.0.1:0", "--ui-listen", "")
	if err == nil || !strings.Contains(refused, ".perdure") || !regexp.MustCompile(`in use by another process \(\d+\), perdure dev at http://`+d.address+`/mcp; use that one`).MatchString(refused) {
		t.Errorf("a second dev on the same data: %v, %s", err, refused)
	}
	if out := d.interrupt(15 * time.Second); !strings.Contains(out, "stopping; runs continue when perdure dev is started again") {
		t.Errorf("dev says nothing of stopping:\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(repository, ".perdure/dev.json")); err == nil {
		t.Error("dev.json is left behind")
	}

	d.start()
	if got := d.onlyRun(t, "prepare_review", "waiting"); got != id {
		t.Errorf("the run is %s, was %s", got, id)
	}
	// The same call again, by a client of the other era, goes on where the
	// first one stopped: the person is asked and the result comes.
	again := toolCall{name: "prepare_review", key: "k"}.must(t, d.dial(t, modern, says("decline", nil)))
	if !strings.Contains(again, `"decision":"decline"`) {
		t.Errorf("the result is %s", again)
	}
	d.onlyRun(t, "prepare_review", "completed")
	if files, _ := filepath.Glob(filepath.Join(repository, ".perdure/reviews/*")); len(files) > 0 {
		t.Errorf("written after decline: %v", files)
	}
}

// TestAttackDataDirectoryIsReplaced removes the data directory of a dev that runs, and
// has another one started in its place: the first ends soon, with the reason and no
// promise, and leaves the file of the second.
func TestAttackDataDirectoryIsReplaced(t *testing.T) {
	t.Parallel()
	repository := newRepository(t)
	first := startDev(t, repository)
	perduretest.NoError(t, os.RemoveAll(filepath.Join(repository, ".perdure")))
	second := startDev(t, repository)
	receive(t, first.ended, "the end of the dev without its directory")
	out := first.output.String()
	if code := first.serving.State().ExitCode(); code != 1 || !strings.Contains(out, "the data directory .perdure was removed or replaced") || strings.Contains(out, "runs continue") {
		t.Errorf("ended with status %d: %s", code, out)
	}
	if _, err := os.Stat(filepath.Join(repository, ".perdure/dev.json")); err != nil {
		t.Error(err)
	}
	second.interrupt(15 * time.Second)
}

// TestSecondInterrupt: the first Ctrl-C gives calls under way their time, the second
// one ends the program at once, and the next start continues the run.
func TestSecondInterrupt(t *testing.T) {
	t.Parallel()
	called, answer := make(chan struct{}, 10), make(chan struct{})
	f := serveFakes(t, map[string]fakeTool{"be_hang": func(ctx context.Context, _ map[string]any) (*mcp.CallToolResult, error) {
		called <- struct{}{}
		select {
		case <-answer:
		case <-time.After(patience):
		}
		return mcp.NewToolResultText("ok"), nil
	}})
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), f.configuration(`[{tool: "*", class: idempotent}]`)+`compositeTools:
  - {name: slow, description: Takes long., steps: [{id: one, tool: be_hang}]}
`)
	d := startDev(t, dir, "--config", "perdure.yaml")
	c := d.dial(t, legacy, nil)
	go func() { _, _ = toolCall{name: "slow"}.by(t.Context(), c) }()
	receive(t, called, "the call")
	perduretest.NoError(t, d.serving.Signal(os.Interrupt))
	until(t, "the first one to count", func() bool { return strings.Contains(d.output.String(), "stopping;") })
	begun := time.Now()
	perduretest.NoError(t, d.serving.Signal(os.Interrupt))
	receive(t, d.ended, "the end")
	if took := time.Since(begun); took > 3*time.Second || d.serving.State().ExitCode() == 0 {
		t.Errorf("dev ended after %s with %s", took, d.serving.State())
	}
	close(answer)
	d.start()
	d.onlyRun(t, "slow", "completed")
}

// TestBackendsComeAndGo starts with a backend that is down, whose tools are not known
// but what uses them is, and kills another.
func TestBackendsComeAndGo(t *testing.T) {
	t.Parallel()
	address, err := pgtest.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	repository := newRepository(t)
	putFile(t, filepath.Join(repository, ".perdure/perdure.yaml"), fmt.Sprintf(`
backends:
  - {name: late, transport: streamable-http, url: "http://%s/mcp"}
  - name: repo
    transport: stdio
    command: sh
    args: [-c, "echo $$ > .perdure/pid; exec perdure backend repo"]
    effects: [{tool: "*", class: read}]
compositeTools:
  - name: both
    description: Uses both backends.
    steps:
      - {id: info, tool: repo_info}
      - {id: hello, tool: late_hello, arguments: {branch: "{{.steps.info.output.branch}}"}}
`, address))
	d := startDev(t, repository, "--config", ".perdure/perdure.yaml")
	c := d.dial(t, modern, nil)
	if tools := names(t, c); slices.Contains(tools, "late_hello") || !slices.Contains(tools, "both") || !slices.Contains(tools, "repo_info") {
		t.Errorf("with a backend down the tools are %v", tools)
	}
	if out := d.run(t, "definitions"); !slices.Equal(strings.Fields(out), []string{"both", "-", "available"}) {
		t.Errorf("the definitions are: %s", out)
	}
	for _, name := range []string{"both", "late_hello"} {
		said := toolCall{name: name}.told(t, c)
		if !strings.Contains(said, `"code":"backend_unavailable"`) || !strings.Contains(said, "late_hello: backend late has not answered") {
			t.Errorf("why %s cannot be called: %s", name, said)
		}
	}
	if log := d.output.String(); !strings.Contains(log, "level=WARN") || !strings.Contains(log, "backend=late") {
		t.Errorf("the log does not tell of the backend:\n%s", log)
	}

	serveHello(t, address)
	until(t, "the tools of the backend that came up", func() bool { return slices.Contains(names(t, c), "late_hello") })
	sameJSON(t, "the result", toolCall{name: "both"}.must(t, c), `{"branch": "main"}`)

	first := backendPID(t, repository)
	perduretest.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	until(t, "the backend to be another process", func() bool { return backendPID(t, repository) != first })
	var result *mcp.CallToolResult
	until(t, "the backend to answer again", func() bool {
		result, err = toolCall{name: "both"}.by(t.Context(), c)
		return err == nil && !result.IsError
	})
	sameJSON(t, "the result", sent(t, result), `{"branch": "main"}`)
}

// backendPID is the process that the backend was last started as.
func backendPID(t *testing.T, repository string) int {
	t.Helper()
	text := perduretest.Read(t, filepath.Join(repository, ".perdure/pid"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text))) // half written: looked at again
	return pid
}

// serveHello serves a backend at an address where there was none.
func serveHello(t *testing.T, address string) {
	t.Helper()
	hello := mcpserver.NewMCPServer("late", "1", mcpserver.WithToolCapabilities(true))
	hello.AddTool(mcp.NewTool("hello", mcp.WithString("branch")), func(_ context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return structured(request.GetArguments()), nil
	})
	listener := perduretest.Must(net.Listen("tcp", address))(t)
	web := &http.Server{Handler: mcpserver.NewStreamableHTTPServer(hello), ReadHeaderTimeout: time.Second}
	go func() { _ = web.Serve(listener) }() // until it is closed
	t.Cleanup(func() { _ = web.Close() })
}
