package program_test

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/pgtest"
	"github.com/perdure/perdure/test/topology"
)

// TestRestore makes a backup of all databases while runs wait at their gates,
// and goes on with it elsewhere: another PostgreSQL, another Temporal, other
// gateways and workers.
func TestRestore(t *testing.T) {
	t.Parallel()
	before := pgtest.Start(t)
	execute(t, before, "postgres", "create database perdure")
	r := newDatabaseReplicas(t, before)
	b := r.balancer(t)
	ids := map[string]string{}
	for _, tool := range []string{"review", "stages", "pair"} {
		result := perduretest.Must(keyed(tool, tool).by(t.Context(), dial(t, b.url(), legacy, nil)))(t)
		ids[tool] = r.handle(t, result)
	}
	r.answer(t, ids["stages"], "first")
	until(t, "the step between the gates", func() bool {
		run, err := r.perdure(t, "runs", "show", ids["stages"], "-o", "json")
		return err == nil && openGate(t, run) == "second"
	})

	// The backup. What runs begin after it is not in it, so nothing may.
	after := r.restored(t, before)
	restored := newDatabaseReplicas(t, after)
	for tool, steps := range map[string][]string{"review": {"approval"}, "stages": {"second"}, "pair": {"left", "right"}} {
		for _, step := range steps {
			restored.answer(t, ids[tool], step)
		}
		c := dial(t, restored.balancer(t).url(), legacy, nil)
		result := toolCall{name: awaitTool, arguments: map[string]any{"runId": ids[tool], "waitSeconds": 30}}.must(t, c)
		switch tool {
		case "stages": // the first of its writes is where it was made
			sameJSON(t, "the result", result, `{"written": "stages:ok"}`)
			r.wrote(t, tool, "stages-between:ok")
			restored.wrote(t, tool, "stages:ok")
		default:
			restored.completed(t, tool, tool, result)
			r.wrote(t, tool)
		}
	}
	// New calls begin as well.
	restored.completed(t, "review", "new", keyed("review", "new").must(t, dial(t, restored.balancer(t).url(), modern, approves)))
}

// TestRestoreSealed makes a backup of a run that holds a large value, all of it
// sealed: nothing of it stands in any database, and the run goes on elsewhere
// with the same keys, to the same result.
func TestRestoreSealed(t *testing.T) {
	t.Parallel()
	before := pgtest.Start(t)
	execute(t, before, "postgres", "create database perdure")
	planted := plantedSecrets{}
	large := strings.Repeat(planted.plant("an argument", "argument-3f77c1d2-"), 20<<10) // 360 KB
	sealed := func(pg *topology.PostgreSQL) *replicas {
		r := prepareDatabaseReplicas(t, pg)
		putFile(t, filepath.Join(r.dir, "payload.keys"), "first:"+strings.Repeat("0a", 32)+"\n")
		putFile(t, filepath.Join(r.dir, "perdure.yaml"), r.backend.configuration(`[{tool: "*read", class: read}, {tool: "*", class: unsafe}]`)+`compositeTools:
  - name: heavy
    description: Reads much, asks and gives it.
    parameters: {type: object, properties: {key: {type: string}}}
    steps:
      - {id: first, tool: be_slow_write, arguments: {key: "{{.params.key}}"}}
      - {id: read, tool: be_read, arguments: {key: "{{.params.key}}"}, dependsOn: [first]}
      - {id: gate, type: elicitation, message: Go?, timeout: 24h, schema: {type: object, properties: {verdict: {type: string}}}, dependsOn: [read]}
      - {id: write, tool: be_write, arguments: {text: "{{.steps.read.output.read}}"}, dependsOn: [gate]}
    output: {properties: {read: {type: string, description: d, value: "{{.steps.read.output.read}}"}}}
`)
		for _, p := range append(r.gateways[:], r.workers[:]...) {
			p.args = append(p.args, "--payload-key-file", "payload.keys", "--large-values")
		}
		r.release()
		r.launch()
		return r
	}
	r := sealed(before)
	result, err := keyed("heavy", large).by(t.Context(), dial(t, r.balancer(t).url(), legacy, nil))
	if err != nil {
		t.Fatal(err)
	}
	id := r.handle(t, result)
	until(t, "the run to ask", func() bool {
		run, err := r.perdure(t, "runs", "show", id, "-o", "json", "--payload-key-file", "payload.keys", "--database", before.URL("perdure"))
		return err == nil && openGate(t, run) == "gate"
	})
	planted.absentFromDatabases(t, before, id, productionDatabases...)
	after := r.restored(t, before)
	restored := sealed(after)
	until(t, "the answer to be taken", func() bool {
		_, err := restored.perdure(t, "runs", "answer", id, "--accept", "--content", `{"verdict": "ok"}`, "--payload-key-file", "payload.keys", "--database", after.URL("perdure"))
		return err == nil
	})
	c := dial(t, restored.balancer(t).url(), legacy, nil)
	got := toolCall{name: awaitTool, arguments: map[string]any{"runId": id, "waitSeconds": 30}}.must(t, c)
	sameJSON(t, "the result", got, asJSON(t, map[string]string{"read": large}))
	if n := r.backend.count("be_slow_write", "") + restored.backend.count("be_slow_write", ""); n != 1 {
		t.Errorf("the first step was executed %d times", n)
	}
	if n := r.backend.count("be_write", "") + restored.backend.count("be_write", large); n != 1 {
		t.Errorf("the last step was executed %d times", n)
	}
	planted.absentFromDatabases(t, after, id, productionDatabases...)
}

// newDatabaseReplicas starts replicas on a Temporal that keeps everything in a
// PostgreSQL, in which they have a database of their own.
func newDatabaseReplicas(t *testing.T, pg *topology.PostgreSQL) *replicas {
	t.Helper()
	r := prepareDatabaseReplicas(t, pg)
	r.launch()
	return r
}

func prepareDatabaseReplicas(t *testing.T, pg *topology.PostgreSQL) *replicas {
	t.Helper()
	r := prepareReplicas(t, newTemporalOn(t, pg), "restore")
	for i := range r.gateways {
		for _, p := range []*process{r.gateways[i], r.workers[i]} {
			p.args = append(p.args, "--database", pg.URL("perdure"))
		}
	}
	return r
}

func openGate(t *testing.T, run string) string {
	t.Helper()
	var detail struct {
		Elicitations []struct{ StepID, State string }
	}
	perduretest.NoError(t, json.Unmarshal([]byte(run), &detail))
	for _, e := range detail.Elicitations {
		if e.State == "open" {
			return e.StepID
		}
	}
	return ""
}

func execute(t *testing.T, pg *topology.PostgreSQL, database, statement string) {
	t.Helper()
	c := perduretest.Must(pgx.Connect(t.Context(), pg.URL(database)))(t)
	defer c.Close(context.WithoutCancel(t.Context()))
	if _, err := c.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// TestProduction starts what make prod-local starts, calls through its proxy in
// each era, looks at the pages of the proxy and of the Web UI, and at what an operator
// sees of runs in trouble.
func TestProduction(t *testing.T) {
	t.Parallel()
	l := prepareLooks(t)
	l.start(t)
	p := l.production
	l.memory(t)
	for _, version := range []string{legacy, modern} {
		key := "production-" + version
		l.completed(t, "review", key, keyed("review", key).must(t, dial(t, p.URL+endpoint, version, approves)))
	}
	for _, page := range []string{p.URL + "/approvals", p.UIURL + "/namespaces/default/workflows", p.UIURL + "/api/v1/namespaces/default/workflows"} {
		response := perduretest.Must(http.Get(page))(t)
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", page, response.Status)
		}
	}
	for name, look := range map[string]func(*testing.T){
		"Retry-After": l.retryAfter, "endless": l.endless, "large": l.large, "ends": l.ends, "terminated": l.terminated, "continued": l.continued,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			look(t)
		})
	}
}

// startProduction starts all of production with the backend of the replicas.
func startProduction(t *testing.T, r *replicas, cfg topology.Config) *topology.Production {
	t.Helper()
	cfg.Perdure, cfg.ConfigFile = []string{"perdure"}, filepath.Join(r.dir, "perdure.yaml")
	cfg.Env = append(cfg.Env, testEnvironment...)
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	p, err := topology.Start(t.Context(), cfg)
	pgtest.Check(t, err)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// TestProductionKilled kills each process of production with kill -9 and starts
// it again, one after the other, with runs at their gates. No run is lost, none
// does anything twice, and where there are two of a part, calls go through
// meanwhile. What was planted as a secret is then in no history, no database and
// no log.
func TestProductionKilled(t *testing.T) {
	t.Parallel()
	r := prepareBackend(t)
	planted := plantedSecrets{}
	credential := planted.plant("the credential of a backend", "backend-secret-5d2e61c0")
	putFile(t, filepath.Join(r.dir, "perdure.yaml"), r.backend.configuration(`[{tool: "*read", class: read}, {tool: "*", class: unsafe}]`)+replicaDefinitions+
		"outgoingAuth: {source: inline, default: {type: header_injection, headerInjection: {headerName: Authorization, headerValueEnv: PERDURE_TEST_HEADER}}}\n")
	logs := t.TempDir()
	p := startProduction(t, r, topology.Config{
		Dir: logs, GatewayFlags: []string{"--call-patience", "0s"}, ServiceFlags: []string{"--log-level", "debug"},
		Env: []string{"PERDURE_TEST_HEADER=" + credential},
	})

	stream := newHesitant()
	c := newResumer(t, p.URL+endpoint, stream.answer)
	streamed := r.inBackground(func(ctx context.Context) (string, error) {
		raw, err := c.call(ctx, 1, "stages", `{"key":"streamed"}`)
		return structuredContent(raw), err
	})
	receive(t, stream.asked, "the question")
	for _, part := range slices.Concat(p.Gateways, p.Workers) {
		r.killed(t, p, part, part.Kill, true)
	}
	for _, part := range []*topology.Process{p.Proxy, &p.Temporal.Process, p.UI} {
		r.killed(t, p, part, part.Kill, false)
	}
	r.killed(t, p, &p.PostgreSQL.Process, p.PostgreSQL.KillAll, false)
	close(stream.back)
	r.completed(t, "stages", "streamed", receive(t, streamed, "the result of the stream"))

	if got := r.backend.authorized(); len(got) == 0 || slices.ContainsFunc(got, func(c string) bool { return c != credential }) {
		t.Errorf("the backend got the credentials %q", got)
	}
	// PostgreSQL compresses what is long and says the same again and again, which
	// its files do not show.
	clear := strings.Repeat("said again and again ", 1000)
	keyed("review", clear).must(t, dial(t, p.URL+endpoint, modern, approves))
	planted.absentFromTemporal(t, p.Temporal.Address, "default", nil)
	planted.absentFromDatabases(t, p.PostgreSQL, clear, "temporal", "temporal_visibility")
	p.PostgreSQL.End()
	planted.absentFromFiles(t, p.PostgreSQL.Dir)
	planted.absentFromFiles(t, logs)
}

// killed kills a part while a call waits for its client's answer, and starts it
// again before that comes.
func (r *replicas) killed(t *testing.T, p *topology.Production, part *topology.Process, kill func() error, replicated bool) {
	t.Helper()
	client := newHesitant()
	call := toolCall{name: "review", arguments: map[string]any{"key": part.Name}, key: part.Name}
	waiting := begin(t, dial(t, p.URL+endpoint, modern, answerer(client.answer)), call)
	receive(t, client.asked, "the question before "+part.Name+" is killed")
	perduretest.NoError(t, kill())
	if replicated {
		key := "without-" + part.Name
		r.completed(t, "review", key, keyed("review", key).must(t, dial(t, p.URL+endpoint, modern, approves)))
	}
	if err := part.StartReady(t.Context()); err != nil {
		t.Fatalf("%s is not back: %v", part.Name, err)
	}
	for _, other := range slices.Concat(p.Gateways, p.Workers) {
		if err := other.AwaitReady(t.Context()); err != nil {
			t.Fatalf("after %s was killed: %v", part.Name, err)
		}
	}
	close(client.back)
	r.completed(t, "review", part.Name, r.inTheEnd(t, p, waiting, call))
}

// inTheEnd is what comes of a call: its result or, where that broke, what the
// same call comes to, made again by its key as clients do.
func (r *replicas) inTheEnd(t *testing.T, p *topology.Production, waiting pending, call toolCall) string {
	t.Helper()
	select {
	case result := <-waiting.result:
		if !result.IsError {
			return sent(t, result)
		}
	case <-waiting.err:
	case <-time.After(patience):
		t.Fatalf("the call %s does not end", call.key)
	}
	c := dial(t, p.URL+endpoint, modern, approves)
	var last *mcp.CallToolResult
	until(t, "the call "+call.key+" to have a result", func() bool {
		result, err := call.by(t.Context(), c)
		last = result
		return err == nil && !result.IsError
	})
	return sent(t, last)
}

// A hesitant client tells when it is asked, and answers when it is let.
type hesitant struct{ asked, back chan struct{} }

func newHesitant() hesitant { return hesitant{make(chan struct{}, 9), make(chan struct{})} }

func (h hesitant) answer(ctx context.Context, _ string) (string, any, error) {
	h.asked <- struct{}{}
	select {
	case <-h.back:
		return "accept", map[string]any{"verdict": "ok"}, nil
	case <-ctx.Done():
		return "", nil, ctx.Err()
	}
}

// productionDatabases are all that a backup has to hold.
var productionDatabases = []string{"temporal", "temporal_visibility", "perdure"}

// restored backs a PostgreSQL up, kills all that is there, and restores the backup
// on another one.
func (r *replicas) restored(t *testing.T, before *topology.PostgreSQL) (after *topology.PostgreSQL) {
	t.Helper()
	dir := t.TempDir()
	for _, database := range productionDatabases {
		perduretest.NoError(t, before.Dump(t.Context(), database, filepath.Join(dir, database)))
	}
	for _, p := range append(r.gateways[:], r.workers[:]...) {
		p.kill()
	}
	r.temporal.kill()
	perduretest.NoError(t, before.Close())

	after = pgtest.Start(t)
	for _, database := range productionDatabases {
		perduretest.NoError(t, after.Restore(t.Context(), database, filepath.Join(dir, database)))
	}
	return after
}
