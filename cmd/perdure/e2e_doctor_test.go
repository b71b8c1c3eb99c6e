package main

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/pgtest"
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
	putFile(t, filepath.Join(dir, "perdure.yaml"), working)
	putFile(t, filepath.Join(dir, "away.yaml"), working+"  - {name: away, transport: streamable-http, url: 'http://127.0.0.1:1/mcp'}\n")
	putFile(t, filepath.Join(dir, "wrong.yaml"), working+"    nonsense: true\n")
	putFile(t, filepath.Join(dir, "short.key"), "abc\n")
	d := startDev(t, dir, "--config", "perdure.yaml")
	database := pgtest.Start(t).URL("postgres")

	examine := func(args ...string) (map[string]check, error) {
		t.Helper()
		out, told, err := d.try(t, append([]string{"doctor", "-o", "json"}, args...)...)
		var list []check
		if json.Unmarshal([]byte(out), &list) != nil {
			t.Fatalf("doctor %v: %s%s", args, out, told)
		}
		found := map[string]check{}
		for _, k := range list {
			found[k.Name] = k
		}
		return found, err
	}
	all, err := examine("--config", "perdure.yaml", "--database", database)
	if err == nil || all["database"].Status != checkFailed || all["database"].Fix != "perdure migrate" {
		t.Errorf("before the tables were made: %v, %+v", err, all["database"])
	}
	d.run(t, "migrate", "--database", database)
	all, err = examine("--config", "perdure.yaml", "--database", database)
	if err != nil {
		t.Errorf("what works: %v, %+v", err, all)
	}
	for _, name := range []string{"configuration", "signing key", "temporal", "namespace", "search attributes", "workers", "database", "backend be", "clock"} {
		if all[name].Status != checkOK {
			t.Errorf("%s: %+v of %v", name, all[name], slices.Sorted(maps.Keys(all)))
		}
	}
	if k := all["backend be"]; !strings.Contains(k.Found, "1 tools, MCP 20") {
		t.Errorf("the backend: %+v", k)
	}
	for _, tc := range []struct {
		name, fix string
		args      []string
	}{
		{"configuration", "perdure validate", []string{"--config", "wrong.yaml"}},
		{"signing key", "openssl rand -hex 32", []string{"--key-file", "short.key"}},
		{"payload keys", "ID:KEY", []string{"--payload-key-file", "short.key"}},
		{"temporal", "--address", []string{"--address", "127.0.0.1:1"}},
		{"temporal", "perdure dev", []string{"--data", "nothing"}},
		{"namespace", "temporal operator namespace create --namespace ghosts", []string{"--namespace", "ghosts"}},
		{"database", "look at the URL", []string{"--database", "postgres://nobody@127.0.0.1:1/x"}},
		{"backend away", "in the configuration", []string{"--config", "away.yaml"}},
	} {
		found, err := examine(tc.args...)
		if k := found[tc.name]; err == nil || k.Status != checkFailed || !strings.Contains(k.Fix, tc.fix) || k.Found == "" {
			t.Errorf("%v: %v, %+v", tc.args, err, k)
		}
	}
	if err := os.Chmod(filepath.Join(dir, ".perdure", "key"), 0o644); err != nil {
		t.Fatal(err)
	}
	text := d.run(t, "doctor")
	if !strings.Contains(text, "warning  signing key") || !strings.Contains(text, "to mend it: chmod 600 .perdure/key") {
		t.Errorf("the text:\n%s", text)
	}
}

// The clock that is furthest from ours counts.
func TestDoctorClock(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		clocks []remote
		status string
	}{
		{nil, checkSkipped},
		{[]remote{{"a", -clockWarning / 2}, {"b", 0}}, checkOK},
		{[]remote{{"a", 0}, {"b", -clockWarning}}, checkWarning},
		{[]remote{{"a", clockFailure}, {"b", clockWarning}}, checkFailed},
	} {
		x := &examination{clocks: tc.clocks}
		x.clock(t.Context())
		if got := x.checks[0]; got.Status != tc.status || tc.status == checkFailed && !strings.Contains(got.Found, "a") {
			t.Errorf("%v: %+v", tc.clocks, got)
		}
	}
}
