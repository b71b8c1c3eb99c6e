package program_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/pgtest"
	"github.com/perdure/perdure/test/topology"
	"github.com/perdure/perdure/test/topology/clients"
)

// plainDefinitions write at once.
const plainDefinitions = `
  - name: put
    description: Writes.
    parameters: &key2 {type: object, properties: {key: {type: string}}, required: [key]}
    steps:
      - {id: write, tool: be_write, arguments: {text: "{{.params.key}}:ok"}}
    output: &written2
      properties:
        written: {type: string, description: What was written, value: "{{.steps.write.output.written}}"}
  - name: put_twice
    description: Writes, with two attempts.
    parameters: *key2
    steps:
      - {id: write, tool: be_write, arguments: {text: "{{.params.key}}:ok"}, onError: {action: retry, retryCount: 1, retryDelay: 100ms}}
    output: *written2
`

// TestBlipOfABackend has a backend refuse connections for longer than any fixed
// number of attempts took: a run waits, says what for, and writes once. Where the
// author gives a number of attempts, these are all there are.
func TestBlipOfABackend(t *testing.T) {
	t.Parallel()
	r := prepareReplicas(t, newTemporal(t), "blip")
	link := r.linkBackend(t)
	r.launch()
	c := dial(t, r.balancer(t).url(), legacy, nil)
	r.wroteOnce(t, keyed("put", "before").must(t, c), "before")

	link.Refuse()
	link.Cut()
	type answer struct {
		result *mcp.CallToolResult
		err    error
	}
	ended := make(chan answer, 1)
	go func() {
		result, err := keyed("put", "blip").by(t.Context(), c)
		ended <- answer{result, err}
	}()
	bounded, err := keyed("put_twice", "bounded").by(t.Context(), c)
	if err != nil || !bounded.IsError || !strings.Contains(asJSON(t, bounded), "backend_unavailable") {
		t.Errorf("with two attempts: %v, %s", err, asJSON(t, bounded))
	}
	r.wrote(t, "bounded")
	var id string
	until(t, "the run", func() bool {
		out, err := r.perdure(t, "runs", "list", "-o", "json")
		id = between(out, `"id": "put/`, `"`)
		return err == nil && id != ""
	})
	until(t, "the run to say what it waits for", func() bool {
		out, err := r.perdure(t, "runs", "show", "put/"+id)
		return err == nil && strings.Contains(out, "waits for attempt") && strings.Contains(out, "backend be cannot be reached")
	})
	for _, says := range []struct{ what, in string }{{"runs list --waiting backend", "put/" + id}, {"runs show put/" + id, "waits for attempt"}} {
		until(t, says.what+" to say it", func() bool {
			out, err := r.perdure(t, strings.Fields(says.what)...)
			return err == nil && strings.Contains(out, says.in)
		})
	}
	perduretest.NoError(t, link.Accept())
	got := <-ended
	if got.err != nil || got.result.IsError {
		t.Fatalf("%v, %s", got.err, asJSON(t, got.result))
	}
	r.wrote(t, "blip", "blip:ok")
}

// linkBackend has all processes reach the backend by a link, and adds
// plainDefinitions.
func (r *replicas) linkBackend(t *testing.T) *topology.Link {
	t.Helper()
	address := perduretest.Must(pgtest.FreeAddress())(t)
	link, err := topology.NewLink("processes to backend", address, r.backend.web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(link.Close)
	file := filepath.Join(r.dir, "perdure.yaml")
	text := perduretest.Read(t, file)
	putFile(t, file, strings.ReplaceAll(string(text), r.backend.web.URL, "http://"+address)+plainDefinitions)
	return link
}

func (r *replicas) wroteOnce(t *testing.T, result, key string) {
	t.Helper()
	sameJSON(t, "the result", result, asJSON(t, map[string]any{"written": key + ":ok"}))
	r.wrote(t, key, key+":ok")
}

// between is what stands in a text between two others; "" = they do not.
func between(text, before, after string) string {
	_, rest, ok := strings.Cut(text, before)
	if !ok {
		return ""
	}
	found, _, _ := strings.Cut(rest, after)
	return found
}

// launchMeasured starts gateways and workers with a database that have metrics.
func launchMeasured(t *testing.T) (*topology.PostgreSQL, *replicas) {
	t.Helper()
	pg := pgtest.Start(t)
	execute(t, pg, "postgres", "create database perdure")
	r := prepareDatabaseReplicas(t, pg)
	file := filepath.Join(r.dir, "perdure.yaml")
	text := perduretest.Read(t, file)
	putFile(t, file, string(text)+plainDefinitions+"telemetry: {metricsEnabled: true, enablePrometheusMetricsPath: true}\n")
	r.launch()
	return pg, r
}

// TestPostgreSQLGoesAndComesBack has the PostgreSQL behind everything hang: no
// process is ready, each says so once, the gateways stay reachable and answer that
// a call is to be made again, and doctor says where to look. When it is back all is
// well without a restart.
func TestPostgreSQLGoesAndComesBack(t *testing.T) {
	t.Parallel()
	pg, r := launchMeasured(t)
	c := dial(t, r.balancer(t).url(), legacy, nil)
	r.wroteOnce(t, keyed("put", "before").must(t, c), "before")
	all := slices.Concat(r.gateways[:], r.workers[:])

	pg.SignalAll(syscall.SIGSTOP)
	t.Cleanup(func() { pg.SignalAll(syscall.SIGCONT) })
	for _, p := range all {
		until(t, p.args[0]+" not to be ready", func() bool { return !ready(p.address) })
		if !topology.Answers("http://" + p.address + "/reachable")(t.Context()) {
			t.Errorf("%s cannot be reached", p.args[0])
		}
		until(t, "the metrics of "+p.args[0]+" to say it", func() bool {
			page := get(t, "http://"+p.address+"/metrics")
			return strings.Contains(page, `perdure_need_up{perdure_need="Temporal"} 0`) && strings.Contains(page, `perdure_need_up{perdure_need="database"} 0`)
		})
	}
	url := "http://" + r.gateways[0].address
	if out, err := program(t, r.dir, "ready", "--url", url).CombinedOutput(); err == nil || !strings.Contains(string(out), "Temporal is away") {
		t.Errorf("perdure ready: %v, %s", err, out)
	}
	if out, err := program(t, r.dir, "ready", "--reachable", "--url", url).CombinedOutput(); err != nil {
		t.Errorf("perdure ready --reachable: %v, %s", err, out)
	}
	if out, err := r.perdure(t, "doctor"); err == nil || !strings.Contains(out, "the database behind it") || strings.Contains(out, "permitted") {
		t.Errorf("doctor: %v, %s", err, out)
	}
	result, err := keyed("put", "meanwhile").by(t.Context(), c)
	if err == nil && !strings.Contains(asJSON(t, result), `"unavailable"`) {
		t.Errorf("a call meanwhile: %s", asJSON(t, result))
	}

	pg.SignalAll(syscall.SIGCONT)
	for _, p := range all {
		until(t, p.args[0]+" to be ready", func() bool { return ready(p.address) })
	}
	r.wroteOnce(t, keyed("put", "after").must(t, dial(t, r.balancer(t).url(), legacy, nil)), "after")
	for _, p := range all {
		log := p.output.String()
		if strings.Contains(log, "the index is away") {
			t.Errorf("%s says that the index is away, which Temporal was", p.args[0])
		}
		for _, what := range []string{"Temporal is away", "Temporal is back", "the database is away", "the database is back"} {
			if n := strings.Count(log, what); n != 1 {
				t.Errorf("%s says %d times that %s", p.args[0], n, what)
			}
		}
	}
}

// TestIndexGoesAndComesBack has Temporal's index of runs refuse connections: calls and
// runs continue, gateways stay ready and say once what is away, and doctor where to look.
func TestIndexGoesAndComesBack(t *testing.T) {
	t.Parallel()
	pg, r := launchMeasured(t)
	c := dial(t, r.balancer(t).url(), legacy, nil)
	execute(t, pg, "postgres", "alter database temporal_visibility allow_connections false")
	execute(t, pg, "postgres", "select pg_terminate_backend(pid) from pg_stat_activity where datname = 'temporal_visibility'")
	up := func(p *process, is string) {
		until(t, p.args[0]+" to find the index "+is, func() bool {
			return strings.Contains(get(t, "http://"+p.address+"/metrics"), `perdure_need_up{perdure_need="index"} `+is)
		})
	}
	for _, g := range r.gateways {
		up(g, "0")
		if !ready(g.address) {
			t.Errorf("%s is not ready", g.address)
		}
	}
	r.wroteOnce(t, keyed("put", "meanwhile").must(t, c), "meanwhile")
	if out, err := r.perdure(t, "doctor"); err == nil || !strings.Contains(out, "visibility database") {
		t.Errorf("doctor: %v, %s", err, out)
	}
	execute(t, pg, "postgres", "alter database temporal_visibility allow_connections true")
	for _, g := range r.gateways {
		up(g, "1")
		if log := g.output.String(); strings.Count(log, "the index is away") != 1 || strings.Count(log, "the index is back") != 1 || strings.Contains(log, "Temporal is away") {
			t.Errorf("the log of %s has %s", g.address, log)
		}
	}
}

// TestManyWhoLook asks for pages, lists and metrics at once where Temporal's index
// has its default limit of ten questions a second.
func TestManyWhoLook(t *testing.T) {
	t.Parallel()
	const waiting, pages, lists = 20, 30, 12
	r := prepareReplicas(t, newTemporal(t), "many", "--call-patience", "100ms")
	var metrics [2]string
	for i, p := range r.gateways {
		address := perduretest.Must(pgtest.FreeAddress())(t)
		metrics[i] = "http://" + address + "/metrics"
		p.args = append(p.args, "--metrics-listen", address)
	}
	r.launch()
	b := r.balancer(t)
	c := dial(t, b.url(), legacy, nil)
	for i := range waiting {
		if _, err := keyed("review", fmt.Sprint("many", i)).by(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	approver := perduretest.Must(clients.SignInByToken(t.Context(), b.web.URL, clients.ApproverToken))(t)
	var group sync.WaitGroup
	for range pages {
		group.Go(func() {
			text, err := approver.Page(t.Context(), b.web.URL+"/approvals")
			if err != nil || !strings.Contains(text, "many1?") {
				t.Errorf("a page: %v", err)
			}
		})
	}
	for range lists {
		group.Go(func() {
			if out, err := r.command(t, "runs", "list", "--waiting", "-o", "json").CombinedOutput(); err != nil || !strings.Contains(string(out), "many1?") {
				t.Errorf("a list: %v\n%s", err, out)
			}
		})
	}
	for _, at := range metrics {
		group.Go(func() {
			until(t, "metrics of runs", func() bool { return strings.Contains(get(t, at), `perdure_runs{perdure_status="waiting"} 20`) })
			for range 10 {
				if text := get(t, at); !strings.Contains(text, "perdure_gates_open{") || !strings.Contains(text, "perdure_queue_backlog{") {
					t.Errorf("metrics of runs are missing in\n%s", text)
				}
				time.Sleep(500 * time.Millisecond)
			}
		})
	}
	group.Wait()
}

func get(t *testing.T, url string) string {
	response, err := http.Get(url)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// TestLargeResultsAtOnce has thirty calls at a time give results of 1.8 MB: the run
// fails with what it is instead of being ended by Temporal, and undoes its first
// step. Their workflow tasks take seconds of a processor, so other tests wait.
func TestLargeResultsAtOnce(t *testing.T) {
	large := strings.Repeat("x", 1800<<10)
	f := serveFakes(t, map[string]fakeTool{
		"be_create": structuredAnswer(`{}`), "be_remove": structuredAnswer(`{}`), "be_large": structuredAnswer(`{"text":"` + large + `"}`),
	})
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), f.configuration(`[{tool: "*", class: unsafe}]`)+`compositeTools:
  - name: heavy
    description: Reads too much.
    parameters: {type: object, properties: {items: {type: array}, parallel: {type: integer}}}
    steps:
      - {id: first, tool: be_create, compensate: {tool: be_remove}}
      - {id: ten, type: forEach, collection: "{{json .params.items}}", maxParallel: 10, dependsOn: [first], step: {type: tool, tool: be_large}}
  - name: heavier
    description: Reads too much at once.
    parameters: {type: object, properties: {items: {type: array}}}
    steps:
      - {id: first, tool: be_create, compensate: {tool: be_remove}}
      - {id: thirty, type: forEach, collection: "{{json .params.items}}", maxParallel: 30, dependsOn: [first], step: {type: tool, tool: be_large}}
`)
	d := startDev(t, dir, "--config", "perdure.yaml")
	c := dial(t, d.url(), legacy, nil)
	for undone, tool := range []string{"heavy", "heavier"} {
		result, err := toolCall{name: tool, arguments: map[string]any{"items": make([]int, 40)}}.by(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if text := asJSON(t, result); !result.IsError || !strings.Contains(text, `"run_too_long"`) && !strings.Contains(text, `"output_too_large"`) || strings.Contains(text, "cancelled\"") {
			t.Errorf("%s: %.2000s", tool, text)
		}
		if n := f.count("be_remove", ""); n != undone+1 {
			t.Errorf("%s: the first step was undone %d times", tool, n)
		}
	}
}

// TestGatewayStartsWhileABackendIsAway starts all gateways anew while the only
// backend refuses connections: composite tools are listed and say what is away, a
// completed call is repeated with its key, an open question is answered, and its run
// goes on when the backend is back.
func TestGatewayStartsWhileABackendIsAway(t *testing.T) {
	t.Parallel()
	r := prepareReplicas(t, newTemporal(t), "away", "--call-patience", "500ms")
	link := r.linkBackend(t)
	r.launch()
	c := dial(t, r.balancer(t).url(), legacy, nil)
	done := toolCall{name: "put", arguments: map[string]any{"key": "done"}, key: "done"}
	first := perduretest.Must(done.by(t.Context(), c))(t)
	until(t, "the write", func() bool { return r.backend.count("be_write", "done:ok") == 1 })
	asked := perduretest.Must(keyed("review", "asked").by(t.Context(), c))(t)
	id := r.handle(t, asked)
	r.gates(t, "asked", 1)

	link.Refuse()
	link.Cut()
	for _, g := range r.gateways {
		g.kill()
	}
	for _, g := range r.gateways {
		g.launch()
	}
	for _, g := range r.gateways {
		g.awaitReady()
	}
	b := r.balancer(t)
	c = dial(t, b.url(), legacy, nil)
	tools, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
	if err != nil || !slices.ContainsFunc(tools.Tools, func(tool mcp.Tool) bool { return tool.Name == "put" }) {
		t.Errorf("listed: %v, %s", err, asJSON(t, tools))
	}
	refused, err := keyed("put", "new").by(t.Context(), c)
	if err != nil || !strings.Contains(asJSON(t, refused), "backend_unavailable") {
		t.Errorf("a new call: %v, %s", err, asJSON(t, refused))
	}
	again, err := done.by(t.Context(), c)
	if err != nil || again.IsError && !strings.Contains(asJSON(t, again), "goes on") {
		t.Errorf("the same call, which gave %s before: %v, %s", asJSON(t, first), err, asJSON(t, again))
	}
	approver := perduretest.Must(clients.SignInByToken(t.Context(), b.web.URL, clients.ApproverToken))(t)
	if err := approver.Answer(t.Context(), b.web.URL+"/approvals/"+id, "", "accept", map[string]string{"verdict": "ok"}); err != nil {
		t.Errorf("answering: %v", err)
	}
	perduretest.NoError(t, link.Accept())
	r.completed(t, "review", "asked", toolCall{name: awaitTool, arguments: map[string]any{"runId": id, "waitSeconds": 30}}.must(t, c))
	r.wrote(t, "done", "done:ok")
	r.wrote(t, "new")
}

// TestToolsOutliveTheirProcess starts all gateways and workers anew, with a database,
// while the only backend refuses connections: its tools are listed, a direct call says
// what is away, and a new run waits and goes on when the backend is back.
func TestToolsOutliveTheirProcess(t *testing.T) {
	t.Parallel()
	pg := pgtest.Start(t)
	execute(t, pg, "postgres", "create database perdure")
	r := prepareDatabaseReplicas(t, pg)
	link := r.linkBackend(t)
	r.launch()
	r.wroteOnce(t, keyed("put", "before").must(t, dial(t, r.balancer(t).url(), legacy, nil)), "before")
	until(t, "the list of the backend to be kept", func() bool {
		return queried(t, pg, "perdure", "select count(*) from perdure.grants where backend = 'perdure/tools/be' and sealed is not null") == 1
	})

	link.Refuse()
	link.Cut()
	for _, p := range slices.Concat(r.gateways[:], r.workers[:]) {
		p.kill()
	}
	r.launch()
	c := dial(t, r.balancer(t).url(), legacy, nil)
	tools, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
	for _, name := range []string{"put", "be_write"} {
		if err != nil || !slices.ContainsFunc(tools.Tools, func(tool mcp.Tool) bool { return tool.Name == name }) {
			t.Errorf("%s is not listed: %v, %s", name, err, asJSON(t, tools))
		}
	}
	direct, err := toolCall{name: "be_write", arguments: map[string]any{"text": "direct"}}.by(t.Context(), c)
	if err != nil || !strings.Contains(asJSON(t, direct), "backend is down") {
		t.Errorf("a direct call: %v, %s", err, asJSON(t, direct))
	}
	waiting := perduretest.Must(keyed("put", "new").by(t.Context(), c))(t)
	id := r.handle(t, waiting)
	until(t, "the run to wait for the backend", func() bool {
		out, err := r.perdure(t, "runs", "list", "--waiting", "backend")
		return err == nil && strings.Contains(out, id)
	})
	perduretest.NoError(t, link.Accept())
	r.wroteOnce(t, toolCall{name: awaitTool, arguments: map[string]any{"runId": id, "waitSeconds": 30}}.must(t, c), "new")
	r.wrote(t, "direct")
}

// queried is the number that a query gives.
func queried(t *testing.T, pg *topology.PostgreSQL, database, query string) (n int) {
	t.Helper()
	c := perduretest.Must(pgx.Connect(t.Context(), pg.URL(database)))(t)
	defer c.Close(context.WithoutCancel(t.Context()))
	perduretest.NoError(t, c.QueryRow(t.Context(), query).Scan(&n))
	return n
}

// TestQueriesOfTheManual pastes the queries of docs/operations.md into the filter of a
// list of runs.
func TestQueriesOfTheManual(t *testing.T) {
	t.Parallel()
	page := perduretest.Read(t, "../../docs/operations.md")
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), `compositeTools:
  - {name: asks, description: Asks., steps: [{id: ask, type: elicitation, message: "Go on?", timeout: 1h, schema: {type: object, properties: {}}}]}
  - {name: fails, description: Fails., script: 'fail("no")'}
`)
	d := startDev(t, dir, "--config", "perdure.yaml", "--call-patience", "500ms")
	c := d.dial(t, legacy, nil)
	for _, tool := range []string{"asks", "fails"} {
		if _, err := (toolCall{name: tool}).by(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		d.onlyRun(t, tool, map[string]string{"asks": "waiting", "fails": "failed"}[tool])
	}
	_, views, _ := strings.Cut(string(page), "| view | query |")
	views, _, _ = strings.Cut(views, "\n\n")
	wants := map[string][]string{"all runs, without `perdure-probe`, by which processes probe Temporal": {"asks/", "fails/"}, "waits for a person": {"asks/"}, "failed since a day": {"fails/"}, "unknown outcome": {}}
	for line := range strings.Lines(views) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || !strings.Contains(cells[2], "`") {
			continue
		}
		view, query := strings.TrimSpace(cells[1]), strings.Trim(cells[2], " `")
		query = strings.ReplaceAll(query, "2026-11-24", time.Now().AddDate(0, 0, -1).Format(time.DateOnly))
		out := d.run(t, "runs", "list", "--query", query, "-o", "json")
		for _, run := range []string{"asks/", "fails/"} {
			if has, want := strings.Contains(out, run), slices.Contains(wants[view], run); has != want {
				t.Errorf("%s (%s): %s is listed: %t, want %t", view, query, run, has, want)
			}
		}
		delete(wants, view)
	}
	if len(wants) > 0 {
		t.Errorf("no query is there for %v", wants)
	}
}
