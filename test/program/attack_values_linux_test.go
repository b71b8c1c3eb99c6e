package program_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/devserver"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
	"github.com/perdure/perdure/test/pgtest"
)

// TestAttackLargeValuesAtOnce: runs that hold large values, many at once, do not take the
// memory of their worker beyond that of its container, with the limit that perdure sets in it.
// It runs alone: beside other programs, a worker has too little time to collect garbage.
func TestAttackLargeValuesAtOnce(t *testing.T) {
	const container, limit, count = 240, 200, 16 // MiB, and Go's limit in it; runs of 5 MB values
	pg := pgtest.Start(t)
	execute(t, pg, "postgres", "create database perdure")
	data := t.TempDir()
	server, err := devserver.Start(t.Context(), devserver.Options{Dir: data, SearchAttributes: runs.SearchAttributes(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	temporal := &temporalServer{t: t, address: server.Address(), env: web.PairEnvironment(devserver.KeyFile(data))}
	r := prepareReplicas(t, temporal, "default", "--call-patience", "0s")
	row := `{"id":1,"name":"` + strings.Repeat("n", 80) + `"},`
	large := `{"rows":[` + strings.Repeat(row, 5<<20/len(row)) + `{}]}`
	backend := serveFakes(t, map[string]fakeTool{
		"be_read": structuredAnswer(large),
		"be_write": func(_ context.Context, arguments map[string]any) (*mcp.CallToolResult, error) {
			return structured(map[string]any{"written": len(fmt.Sprint(arguments["rows"]))}), nil
		},
	})
	write(t, r.dir+"/perdure.yaml", backend.configuration(`[{tool: "*read", class: read}, {tool: "*", class: unsafe}]`)+`compositeTools:
  - name: heavy
    description: Hands much on.
    parameters: {type: object, properties: {key: {type: string}}}
    steps:
      - {id: read, tool: be_read}
      - {id: write, tool: be_write, arguments: {rows: "{{.steps.read.output.rows}}"}, dependsOn: [read]}
    output: {properties: {written: {type: integer, description: d, value: "{{.steps.write.output.written}}"}}}
`)
	w, g := r.workers[0], r.gateways[0]
	w.env = append(w.env, fmt.Sprintf("GOMEMLIMIT=%dMiB", limit))
	for _, p := range []*process{w, g} {
		p.args = append(p.args, "--database", pg.URL("perdure"), "--large-values")
		p.start()
	}
	peak := watchMemory(t, w.serving.PID())
	var calls sync.WaitGroup
	began := time.Now()
	for i := range count {
		calls.Go(func() {
			if _, err := keyed("heavy", fmt.Sprint("key", i)).by(t.Context(), dial(t, "http://"+g.address+endpoint, legacy, nil)); err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		})
	}
	calls.Wait()
	until(t, "all runs to complete", func() bool {
		out, err := r.perdure(t, "runs", "list", "--tool", "heavy", "--status", "completed", "--limit", "100", "-o", "json")
		return err == nil && strings.Count(out, `"completed"`) == count
	})
	t.Logf("%d runs in %s", count, time.Since(began))
	got := peak()
	t.Logf("%d MiB", got)
	if got > container {
		t.Errorf("the worker took %d MiB, where its container has %d", got, container)
	}
}

var residentMemory = regexp.MustCompile(`RssAnon:\s+(\d+) kB`)

// watchMemory watches what a process occupies, besides its program; peak is the most, in MiB.
func watchMemory(t *testing.T, pid int) (peak func() int) {
	t.Helper()
	var most int
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			if found := residentMemory.FindSubmatch(status); err == nil && found != nil {
				kB, _ := strconv.Atoi(string(found[1]))
				most = max(most, kB>>10)
			}
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() int {
		close(done)
		<-stopped
		return most
	}
}
