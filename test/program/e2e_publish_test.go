package program_test

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/devserver"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
	"github.com/perdure/perdure/test/pgtest"
)

// Of two gateways, what is published at one is called at the other, whose
// clients are told of it; a run that waits ends on the version it started with.
func TestPublishAtReplicas(t *testing.T) {
	t.Parallel()
	p := newPublishers(t)
	here, there := p.gateways[0], p.gateways[1]
	listeners := []*listening{listenAt(t, "http://"+there.address+endpoint, legacy), listenAt(t, "http://"+there.address+endpoint, modern)}

	p.publish(t, here, "gate", "1.0.0", "the first")
	for _, l := range listeners {
		l.hears(t, "gate")
	}
	c := dial(t, "http://"+there.address+endpoint, modern, nil)
	waiting := toolCall{name: "gate", key: "one"}.told(t, c)
	if !strings.Contains(waiting, "waiting_for_approval") {
		t.Fatalf("the call gave %s", waiting)
	}

	began := time.Now()
	p.publish(t, here, "gate", "1.1.0", "the second")
	until(t, "the other gateway to have the version", func() bool {
		return strings.Contains(p.perdure(t, there, "definitions"), "1.1.0")
	})
	t.Logf("the other gateway had the publication %s after it was begun", time.Since(began))
	for key, version := range map[string]string{"two": "", "three": "1.0.0", "four": "^1.0", "five": "~1.0"} {
		toolCall{name: "gate", key: key, version: version}.told(t, c)
	}
	toolCall{name: "gate_v1_0", key: "six"}.told(t, c)
	p.perdure(t, there, "definitions", "deprecate", "gate@1.0.0") // nor does this change what has started
	until(t, "the gateway here to know", func() bool {
		return strings.Contains(p.perdure(t, here, "definitions", "list", "--versions"), "deprecated")
	})
	for _, id := range p.waiting(t) {
		p.perdure(t, here, "runs", "answer", id, "--accept", "--address", p.temporal, "--key-file", "key")
	}
	for key, want := range map[string]string{
		"one": "the first", "two": "the second", "three": "the first", "four": "the second", "five": "the first",
	} {
		said := toolCall{name: "gate", key: key}.told(t, c)
		for strings.Contains(said, "runId") { // a busy machine
			said = toolCall{name: "gate", key: key}.told(t, c)
		}
		if !strings.Contains(said, want) {
			t.Errorf("%s gave %s, want %s", key, said, want)
		}
	}
	said := toolCall{name: "gate_v1_0", key: "six"}.told(t, c)
	for strings.Contains(said, "runId") {
		said = toolCall{name: "gate_v1_0", key: "six"}.told(t, c)
	}
	if !strings.Contains(said, "the first") {
		t.Errorf("the version that is a tool of its own gave %s", said)
	}
}

// Publishers are two gateways and a worker on one PostgreSQL.
type publishers struct {
	dir, temporal string
	env           []string // by which commands reach Temporal
	gateways      [2]*process
}

func newPublishers(t *testing.T) *publishers {
	t.Helper()
	database := pgtest.Start(t).URL("postgres")
	runsDir := t.TempDir()
	temporal, err := devserver.Start(t.Context(), devserver.Options{
		Dir: runsDir, SearchAttributes: runs.SearchAttributes(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { temporal.Stop() })
	p := &publishers{dir: t.TempDir(), temporal: temporal.Address(), env: web.PairEnvironment(devserver.KeyFile(runsDir))}
	putFile(t, filepath.Join(p.dir, "perdure.yaml"), `
backends: []
authorization: {rules: [{tools: ["*"], groups: ["*"]}], operators: [{tools: ["*"], groups: ["*"]}], publishers: [{tools: ["gate*"], groups: ["*"]}]}
publishing: {versions: [{tool: gate, version: "1.0", as: gate_v1_0}]}
`)
	putFile(t, filepath.Join(p.dir, "key"), strings.Repeat("0123456789abcdef", 4)+"\n")
	part := func(command, listen string, flags ...string) *process {
		address := perduretest.Must(pgtest.FreeAddress())(t)
		args := append([]string{command, "--config", "perdure.yaml", "--address", temporal.Address(), listen, address}, flags...)
		started := &process{t: t, dir: p.dir, address: address, args: args, env: append(p.env, "PERDURE_DATABASE_URL="+database)}
		started.launch()
		return started
	}
	for i := range p.gateways {
		p.gateways[i] = part("gateway", "--listen", "--key-file", "key")
	}
	worker := part("worker", "--health-listen", "--key-file", "key")
	for _, started := range []*process{p.gateways[0], p.gateways[1], worker} {
		started.awaitReady()
	}
	return p
}

// perdure runs a command against one of the gateways.
func (p *publishers) perdure(t *testing.T, at *process, args ...string) string {
	t.Helper()
	if args[0] != "runs" {
		args = append(args, "--url", "http://"+at.address+endpoint)
	}
	cmd := program(t, p.dir, args...)
	cmd.Env = append(cmd.Env, p.env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("perdure %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (p *publishers) publish(t *testing.T, at *process, name, version, says string) {
	t.Helper()
	file := filepath.Join(p.dir, name+".yaml")
	putFile(t, file, `
name: `+name+`
description: Waits.
steps: [{id: approval, type: elicitation, message: Go on?, timeout: 24h}]
output: {properties: {said: {type: string, description: What is said., value: "`+says+`"}}}
`)
	p.perdure(t, at, "publish", file, "--version", version)
}

// waiting are the IDs of runs that wait.
func (p *publishers) waiting(t *testing.T) (ids []string) {
	t.Helper()
	until(t, "six runs to wait", func() bool {
		list := p.perdure(t, nil, "runs", "list", "--waiting", "--address", p.temporal)
		ids = nil
		for line := range strings.Lines(list) {
			ids = append(ids, strings.Fields(line)[0])
		}
		ids = slices.DeleteFunc(ids, func(id string) bool { return !strings.Contains(id, "/") })
		return len(ids) == 6
	})
	return ids
}

// A dev that is told nothing lets whoever reaches it publish.
func TestPublishWithoutConfiguration(t *testing.T) {
	t.Parallel()
	repository := newRepository(t)
	putFile(t, filepath.Join(repository, "state.yaml"), "name: state\nversion: 1.0.0\ndescription: Says the branch.\nsteps: [{id: info, tool: repo_info}]\n")
	d := startDev(t, repository)
	d.run(t, "publish", "state.yaml")
	if out := d.run(t, "call", "state@1.0.0"); !strings.Contains(out, "branch") {
		t.Errorf("the call gave %s", out)
	}
}

// A run does not start whose tools have changed since it was published, where the
// configuration says so.
func TestDriftKeepsARunFromStarting(t *testing.T) {
	t.Parallel()
	backend := serveFakes(t, map[string]fakeTool{"be_write": structuredAnswer(`{"written": "it"}`)})
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), backend.configuration("[]")+"publishing: {drift: fail}\n")
	putFile(t, filepath.Join(dir, "note.yaml"), `
name: note
version: 1.0.0
description: Writes.
steps: [{id: write, tool: be.write}]
`)
	d := startDev(t, dir, "--config", "perdure.yaml")
	d.run(t, "publish", "note.yaml")
	c := d.dial(t, modern, nil)
	until(t, "the tool to be there", func() bool { return slices.Contains(names(t, c), "note") })
	if said := (toolCall{name: "note", key: "one"}).told(t, c); !strings.Contains(said, "written") {
		t.Fatalf("the call gave %s", said)
	}

	backend.redefine("be_write", `{"type":"object","properties":{"pullNumber":{"type":"number"},"where":{"type":"string"}},"required":["where"]}`)
	until(t, "the drift to be seen", func() bool {
		out, _, err := d.try(t, "definitions", "drift")
		return err != nil && strings.Contains(out, "note 1.0.0: calls of be.write may fail: argument where is required now")
	})
	said := toolCall{name: "note", key: "two"}.told(t, c)
	if !strings.Contains(said, "tool_drift") || !strings.Contains(said, "where is required now") {
		t.Errorf("the call gave %s", said)
	}
	if n := backend.count("be_write", ""); n != 1 {
		t.Errorf("the tool was called %d times, want 1", n)
	}
}
