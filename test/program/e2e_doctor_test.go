package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/store"
	"github.com/perdure/perdure/test/pgtest"
)

// TestDoctor looks at an installation that works, and at what is wrong with ones
// that do not, each with what to do.
func TestDoctor(t *testing.T) {
	t.Parallel()
	backend := serveFakes(t, map[string]fakeTool{"be_read": func(context.Context, map[string]any) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("ok"), nil
	}})
	dir := t.TempDir()
	working := backend.configuration(`[{tool: "*", class: read}]`)
	putFile(t, filepath.Join(dir, "away.yaml"), working+"  - {name: away, transport: streamable-http, url: 'http://127.0.0.1:1/mcp'}\n")
	putFile(t, filepath.Join(dir, "program.yaml"), working+"  - {name: program, transport: stdio, command: no-such-program}\n")
	putFile(t, filepath.Join(dir, "perdure.yaml"), working+"compositeTools: [{name: one, description: d, steps: [{id: read, tool: be_read}]}]\n")
	putFile(t, filepath.Join(dir, "gone.yaml"), working+"compositeTools: [{name: one, description: d, steps: [{id: read, tool: be_gone}]}]\n")
	putFile(t, filepath.Join(dir, "wrong.yaml"), working+"    nonsense: true\n")
	putFile(t, filepath.Join(dir, "unset.yaml"), working+"outgoingAuth: {source: inline, default: {type: header_injection, headerInjection: {headerName: X, headerValueEnv: PERDURE_TEST_NEVER_SET}}}\n")
	putFile(t, filepath.Join(dir, "short.key"), "abc\n")
	d := startDev(t, dir, "--config", "perdure.yaml")
	database := pgtest.Start(t).URL("postgres")

	examine := func(args ...string) (map[string]examined, error) {
		t.Helper()
		out, told, err := d.try(t, append([]string{"doctor", "-o", "json"}, args...)...)
		var list []examined
		if json.Unmarshal([]byte(out), &list) != nil {
			t.Fatalf("doctor %v: %s%s", args, out, told)
		}
		found := map[string]examined{}
		for _, k := range list {
			found[k.Name] = k
		}
		return found, err
	}
	all, err := examine("--config", "perdure.yaml", "--database", database)
	if err == nil || all["database"].Status != "failed" || all["database"].Fix != "run perdure migrate" {
		t.Errorf("before the tables were made: %v, %+v", err, all["database"])
	}
	d.run(t, "migrate", "--database", database)
	all, err = examine("--config", "perdure.yaml", "--database", database)
	if err != nil {
		t.Errorf("what works: %v, %+v", err, all)
	}
	for _, name := range []string{"configuration", "signing key", "temporal", "namespace", "search attributes", "workers", "database", "backend be", "tools", "clock"} {
		if all[name].Status != "ok" {
			t.Errorf("%s: %+v of %v", name, all[name], slices.Sorted(maps.Keys(all)))
		}
	}
	if k := all["backend be"]; !strings.Contains(k.Found, "1 tool, MCP 20") {
		t.Errorf("the backend: %+v", k)
	}
	all, err = examine("--database", database, "--large-values")
	if err != nil || all["large values"].Status != "ok" || !strings.Contains(all["large values"].Found, "0 kept") {
		t.Errorf("large values that work: %v, %+v", err, all["large values"])
	}
	db, err := store.OpenPostgres(t.Context(), database, nil, slog.New(slog.DiscardHandler))
	if err == nil {
		t.Cleanup(db.Close)
		err = db.Values().Put(t.Context(), "id", "tool/1", []byte("value"))
	}
	if err != nil {
		t.Fatal(err)
	}
	registerBare(t, d)
	for _, tc := range []struct {
		name, fix string
		args      []string
	}{
		{"configuration", "perdure validate", []string{"--config", "wrong.yaml"}},
		{"signing key", "--key-file", []string{"--key-file", "short.key"}},
		{"payload keys", "ID:KEY", []string{"--payload-key-file", "short.key"}},
		{"temporal", "--address", []string{"--address", "127.0.0.1:1"}},
		{"temporal", "perdure dev", []string{"--data", "nothing"}},
		{"temporal", "--address", []string{"--address", "not an address"}},
		{"namespace", "temporal operator namespace create --namespace ghosts", []string{"--namespace", "ghosts"}},
		{"search attributes", "temporal operator search-attribute create --namespace bare --type Keyword --name Perdure", []string{"--namespace", "bare"}},
		{"workers", "perdure worker", []string{"--namespace", "bare"}},
		{"configuration", "perdure validate", []string{"--config", "unset.yaml"}},
		{"large values", "--database", []string{"--large-values"}},
		{"large values", "see database", []string{"--large-values", "--database", "postgres://nobody@127.0.0.1:1/x"}},
		{"large values", "set --large-values or PERDURE_LARGE_VALUES=true", []string{"--database", database}},
		{"database", "check the URL", []string{"--database", "postgres://nobody@127.0.0.1:1/x"}},
		{"backend away", "in the configuration", []string{"--config", "away.yaml"}},
		{"backend program", "in PATH", []string{"--config", "program.yaml"}},
		{"tools", "1 composite tool cannot be called", []string{"--config", "gone.yaml"}},
	} {
		found, err := examine(tc.args...)
		wants := "failed"
		if tc.name == "workers" {
			wants = "warning"
		}
		if k := found[tc.name]; err == nil || k.Status != wants || !strings.Contains(k.Fix, tc.fix) || k.Found == "" {
			t.Errorf("%v: %v, %+v", tc.args, err, k)
		}
	}
	perduretest.NoError(t, os.Chmod(filepath.Join(dir, ".perdure", "key"), 0o644))
	text := d.run(t, "doctor")
	if !strings.Contains(text, "warning  signing key") || !strings.Contains(text, "to fix it: chmod 600 .perdure/key") {
		t.Errorf("the text:\n%s", text)
	}
}

// examined is a check of doctor -o json.
type examined struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Found  string `json:"found"`
	Fix    string `json:"fix"`
}

// registerBare makes a namespace that no gateway or worker has prepared.
func registerBare(t *testing.T, d *devProcess) {
	t.Helper()
	_, err := d.temporal(t).WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: "bare", WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the namespace to be known", func() bool {
		out, _, _ := d.try(t, "doctor", "-o", "json", "--namespace", "bare")
		return strings.Contains(out, "search attributes")
	})
}

// A key that is missing is found by doctor, and said by what shows the run, which
// waits until its worker has the key.
func TestMissingPayloadKey(t *testing.T) {
	t.Parallel()
	fakes := serveFakes(t, map[string]fakeTool{"be_write": structuredAnswer(`{"text":"written"}`)})
	dir := t.TempDir()
	first, second := "first:"+strings.Repeat("0a", 32)+"\n", "second:"+strings.Repeat("0b", 32)+"\n"
	write(t, filepath.Join(dir, "both.keys"), second+first)
	write(t, filepath.Join(dir, "first.keys"), first)
	write(t, filepath.Join(dir, "second.keys"), second)
	write(t, filepath.Join(dir, "dev.keys"), first)
	write(t, filepath.Join(dir, "perdure.yaml"), fakes.configuration("[]")+`compositeTools:
  - name: gated
    description: Asks and writes.
    timeout: 24h
    steps:
      - {id: gate, type: elicitation, message: Go?, schema: {type: object}, timeout: 12h}
      - {id: write, tool: be_write, dependsOn: [gate]}
`)
	d := startDev(t, dir, "--config", "perdure.yaml", "--payload-key-file", "dev.keys")
	_, _, _ = d.try(t, "call", "gated", "--timeout", "1s")
	var id string
	until(t, "the run to wait", func() bool {
		id = runIn(d.run(t, "runs", "list", "--waiting", "--payload-key-file", "both.keys"), "gated/")
		return id != ""
	})
	examine := func(args ...string) string {
		out, _, _ := d.try(t, append([]string{"doctor"}, args...)...)
		for line := range strings.Lines(out) {
			if strings.Contains(line, "payload keys") {
				return line
			}
		}
		return out
	}
	for keys, want := range map[string]string{"first.keys": "the keys open the 1 runs", "both.keys": "the keys open the 1 runs"} {
		if got := examine("--payload-key-file", keys); !strings.HasPrefix(got, "ok") || !strings.Contains(got, want) {
			t.Errorf("with %s doctor says %s", keys, got)
		}
	}
	for _, args := range [][]string{{}, {"--payload-key-file", "second.keys"}} {
		if got := examine(args...); !strings.HasPrefix(got, "failed") || !strings.Contains(got, `key "first"`) || !strings.Contains(got, "--payload-key-file") {
			t.Errorf("with %v doctor says %s", args, got)
		}
	}
	for _, command := range [][]string{{"show", id}, {"logs", id}, {"answer", id, "--accept"}} {
		if out, said, err := d.try(t, append(append([]string{"runs"}, command...), "--payload-key-file", "second.keys")...); err == nil || !strings.Contains(out+said, `key "first"`) {
			t.Errorf("without the key %s says %s%s, %v", command[0], out, said, err)
		}
	}
	if list := d.run(t, "runs", "list", "--payload-key-file", "second.keys"); !strings.Contains(list, "(unreadable)") {
		t.Errorf("without the key the list is\n%s", list)
	}

	// The key is retired while the run waits, one process too early.
	d.interrupt(patience)
	write(t, filepath.Join(dir, "dev.keys"), second)
	d.start()
	answered := make(chan string, 1)
	go func() {
		out, said, err := d.try(t, "runs", "answer", id, "--accept", "--content", "{}", "--payload-key-file", "both.keys")
		answered <- fmt.Sprint(out, said, err)
	}()
	until(t, "the worker to miss the key", func() bool {
		describe, err := d.temporal(t).DescribeWorkflowExecution(t.Context(), id, "")
		return err == nil && describe.PendingWorkflowTask.GetAttempt() > 1
	})
	write(t, filepath.Join(dir, "dev.keys"), second+first)
	if got := receive(t, answered, "the answer to be taken"); !strings.Contains(got, "<nil>") {
		t.Errorf("the answer: %s", got)
	}
	until(t, "the run to end", func() bool {
		out, _, err := d.try(t, "runs", "result", id, "--payload-key-file", "both.keys")
		return err == nil && strings.Contains(out, "written")
	})
	if n := fakes.count("be_write", ""); n != 1 {
		t.Errorf("written %d times", n)
	}
}
