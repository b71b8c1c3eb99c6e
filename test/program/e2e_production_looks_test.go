package program_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/topology"
	"github.com/perdure/perdure/test/topology/clients"
)

// manyDefinitions is how many definitions the file of looks has besides its own.
const manyDefinitions = 500

// lookDefinitions are of runs in situations that an operator meets.
const lookDefinitions = `
  - name: busy
    description: Calls a backend that turns calls down at first.
    parameters: *key
    steps: [{id: busy, tool: be_busy, arguments: {key: "{{.params.key}}"}}]
  - name: endless
    description: Calls a backend whose answer has no end.
    steps: [{id: endless, tool: be_endless, timeout: 2m}]
  - name: heavy
    description: Reads too much at a time.
    parameters: {type: object, properties: {items: {type: array}}, required: [items]}
    steps:
      - {id: first, tool: be_create, compensate: {tool: be_remove}}
      - {id: each, type: forEach, collection: "{{json .params.items}}", maxParallel: 10, dependsOn: [first], step: {type: tool, tool: be_large}}
  - name: each
    description: Asks about each.
    timeout: 200h
    steps: [{id: each, type: forEach, collection: '["a"]', step: {type: elicitation, message: "Each {{.forEach.item}}?", timeout: 100h, schema: *verdict}}]
  - name: each_soon
    description: Asks about each, and not for long.
    timeout: 200h
    steps: [{id: each, type: forEach, collection: '["a"]', timeout: 1h, step: {type: elicitation, message: "Each {{.forEach.item}}?", timeout: 100h, schema: *verdict}}]
  - name: continued
    description: Has a long history.
    timeout: 200h
    parameters: {type: object, properties: {text: {type: string}}, required: [text]}
    steps:
      - {id: each, type: forEach, collection: "[1, 2, 3, 4]", maxParallel: 1, step: {type: tool, tool: be_create, arguments: {text: "{{.params.text}}"}}}
      - {id: asked, type: elicitation, message: "Continue?", timeout: 100h, schema: *verdict, dependsOn: [each]}
`

// looks are what an operator sees of a production.
type looks struct {
	*replicas
	production *topology.Production

	mu    sync.Mutex
	tries []time.Time // of the call that is turned down at first
	sent  int         // bytes of the stream without an end
}

// turnAway is for how long a backend turns calls down.
const turnAway = 4 * time.Second

// prepareLooks is prepareBackend with a backend that misbehaves, and a long file.
func prepareLooks(t *testing.T) *looks {
	t.Helper()
	l := &looks{replicas: prepareBackend(t)}
	nothing, large := structuredAnswer(`{}`), structuredAnswer(`{"text":"`+strings.Repeat("x", 1800<<10)+`"}`)
	for name, answer := range map[string]fakeTool{"be_busy": nothing, "be_endless": nothing, "be_create": nothing, "be_remove": nothing, "be_large": large} {
		l.backend.answers[name] = answer
		l.backend.redefine(name, fakeSchema)
	}
	l.backend.web.Config.Handler = l.misbehave(l.backend.web.Config.Handler)
	file := filepath.Join(l.dir, "perdure.yaml")
	var text strings.Builder
	text.Write(perduretest.Read(t, file))
	text.WriteString(lookDefinitions)
	for i := range manyDefinitions {
		fmt.Fprintf(&text, "  - name: tool_%d\n    description: Calls be.\n    steps:\n", i)
		for step := range 10 {
			fmt.Fprintf(&text, "      - {id: s%d, tool: be_write, arguments: {text: hello}}\n", step)
		}
	}
	text.WriteString("telemetry: {metricsEnabled: true, enablePrometheusMetricsPath: true}\n")
	putFile(t, file, text.String())
	return l
}

// misbehave turns calls of be_busy down for a while, and answers those of be_endless with
// a stream that has no end.
func (l *looks) misbehave(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		switch {
		case bytes.Contains(body, []byte(`"name":"busy"`)) && l.isTurnedAway():
			w.Header().Set("Retry-After", strconv.Itoa(int(turnAway.Seconds())))
			w.WriteHeader(http.StatusTooManyRequests)
		case bytes.Contains(body, []byte(`"name":"endless"`)):
			l.stream(r.Context(), w)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (l *looks) isTurnedAway() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tries = append(l.tries, time.Now())
	return len(l.tries) == 1
}

func (l *looks) stream(ctx context.Context, w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := []byte(strings.Repeat(": hello\n", 8<<10))
	for ctx.Err() == nil {
		n, err := w.Write(chunk)
		l.mu.Lock()
		l.sent += n
		l.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// start starts the production, and has the commands about runs look at it.
func (l *looks) start(t *testing.T) {
	t.Helper()
	l.production = startProduction(t, l.replicas, topology.Config{})
	l.temporal, l.namespace = &temporalServer{t: t, address: l.production.Temporal.Address}, "default"
	perduretest.NoError(t, os.Link(l.production.KeyFile(), filepath.Join(l.dir, "key0")))
}

func (l *looks) url() string { return l.production.URL + endpoint }

// must is the output of a command about runs.
func (l *looks) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := l.command(t, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("perdure %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// memory: many definitions in one file take little of each process.
func (l *looks) memory(t *testing.T) {
	const most = 120 << 20
	heap := regexp.MustCompile(`(?m)^go_memstats_heap_inuse_bytes ([0-9.e+]+)$`)
	for _, p := range slices.Concat(l.production.Gateways, l.production.Workers) {
		found := heap.FindStringSubmatch(get(t, "http://"+p.Address+"/metrics"))
		if found == nil {
			t.Fatalf("%s has no metric of its heap", p.Name)
		}
		bytes := perduretest.Must(strconv.ParseFloat(found[1], 64))(t)
		t.Logf("%s: %.0f MB of heap", p.Name, bytes/(1<<20))
		if bytes > most {
			t.Errorf("%s has %.0f MB of heap with %d definitions", p.Name, bytes/(1<<20), manyDefinitions)
		}
	}
}

// retryAfter: a backend that turns calls down is left alone as long as it says, and the
// run shows what it waits for.
func (l *looks) retryAfter(t *testing.T) {
	call := begin(t, dial(t, l.url(), legacy, nil), keyed("busy", "busy"))
	until(t, "the run to be listed as waiting for its backend", func() bool {
		out, err := l.perdure(t, "runs", "list", "--waiting", "backend")
		return err == nil && strings.Contains(out, "busy/")
	})
	if result := receive(t, call.result, "the result"); result.IsError {
		t.Errorf("the call fails: %s", asJSON(t, result))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.tries) != 2 || l.tries[1].Sub(l.tries[0]) < turnAway {
		t.Errorf("the backend was called at %v, which asked for %s", l.tries, turnAway)
	}
}

// endless: a stream without an end is cut off long before the step's time is up.
func (l *looks) endless(t *testing.T) {
	began := time.Now()
	result, err := (toolCall{name: "endless"}).by(t.Context(), dial(t, l.url(), legacy, nil))
	if err != nil || !result.IsError || time.Since(began) > time.Minute {
		t.Errorf("after %s: %v, %s", time.Since(began), err, asJSON(t, result))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sent > 64<<20 {
		t.Errorf("%d MB were read", l.sent>>20)
	}
}

// large: results that are too large together fail the run with the cause, and undo what
// was done.
func (l *looks) large(t *testing.T) {
	result, err := toolCall{name: "heavy", arguments: map[string]any{"items": make([]int, 40)}}.by(t.Context(), dial(t, l.url(), legacy, nil))
	if err != nil {
		t.Fatal(err)
	}
	if text := asJSON(t, result); !result.IsError || !strings.Contains(text, `"run_too_long"`) && !strings.Contains(text, `"output_too_large"`) {
		t.Errorf("%.2000s", text)
	}
	if n := l.backend.count("be_remove", ""); n != 1 {
		t.Errorf("the first step was undone %d times", n)
	}
	until(t, "the run to be listed as failed, with the cause", func() bool {
		return regexp.MustCompile(`heavy/.* failed .*limit`).MatchString(l.must(t, "runs", "list", "--status", "failed"))
	})
	if out := l.must(t, "runs", "list", "--status", "terminated"); strings.Contains(out, "heavy/") {
		t.Errorf("it is listed as terminated:\n%s", out)
	}
}

// ends: what is shown of a question in a forEach is when it really ends.
func (l *looks) ends(t *testing.T) {
	for tool, want := range map[string]time.Duration{"each": 100 * time.Hour, "each_soon": time.Hour} {
		result := perduretest.Must(toolCall{name: tool}.by(t.Context(), dial(t, l.url(), legacy, nil)))(t)
		id := l.handle(t, result)
		until(t, tool+" to be listed with its question", func() bool {
			out, err := l.perdure(t, "runs", "list", "--waiting", "-o", "json")
			return err == nil && strings.Contains(out, id)
		})
		var shown struct {
			Elicitations []struct{ Opened, Expires time.Time }
		}
		perduretest.NoError(t, json.Unmarshal([]byte(l.must(t, "runs", "show", id, "-o", "json")), &shown))
		if len(shown.Elicitations) != 1 || shown.Elicitations[0].Expires.Sub(time.Now().Add(want)).Abs() > time.Minute {
			t.Errorf("%s ends at %+v, want after %s", tool, shown.Elicitations, want)
		}
		l.must(t, "runs", "cancel", id)
	}
}

// terminated: a run that Temporal has terminated at a limit is called so in each place.
func (l *looks) terminated(t *testing.T) {
	const cause = "Workflow history size exceeds limit."
	l.handle(t, perduretest.Must(keyed("review", "terminated").by(t.Context(), dial(t, l.url(), legacy, nil)))(t))
	id := l.gates(t, "terminated", 1)
	temporal := perduretest.Must(client.Dial(client.Options{HostPort: l.production.Temporal.Address}))(t)
	defer temporal.Close()
	perduretest.NoError(t, temporal.TerminateWorkflow(t.Context(), id, "", cause))
	c := dial(t, l.url(), legacy, nil)
	awaited := perduretest.Must(toolCall{name: awaitTool, arguments: map[string]any{"runId": id}}.by(t.Context(), c))(t)
	until(t, "it to be listed as terminated", func() bool { return strings.Contains(l.must(t, "runs", "list", "--status", "terminated"), id) })
	approver := perduretest.Must(clients.SignInByToken(t.Context(), l.production.URL, clients.ApproverToken))(t)
	for where, text := range map[string]string{
		"perdure_run_await": asJSON(t, awaited), "runs list": l.must(t, "runs", "list", "--status", "terminated"), "runs show": l.must(t, "runs", "show", id),
		"runs logs": l.must(t, "runs", "logs", id), "the page": perduretest.Must(approver.Page(t.Context(), l.production.URL+"/approvals/"+id))(t),
	} {
		if !strings.Contains(text, "terminated") || !strings.Contains(text, cause) || strings.Contains(text, "cancelled") {
			t.Errorf("%s says\n%s", where, text)
		}
	}
	gateway := l.production.Gateways[0]
	until(t, "the metrics to count it", func() bool {
		return regexp.MustCompile(`(?m)^perdure_runs\{perdure_status="terminated"\} [1-9]`).MatchString(get(t, "http://"+gateway.Address+"/metrics"))
	})
}

// continued: a run that continues as new is shown with its first start and its whole time.
func (l *looks) continued(t *testing.T) {
	began := time.Now()
	result := perduretest.Must(toolCall{name: "continued", arguments: map[string]any{"text": strings.Repeat("x", 1400<<10)}}.by(t.Context(), dial(t, l.url(), legacy, nil)))(t)
	id := l.handle(t, result)
	temporal := perduretest.Must(client.Dial(client.Options{HostPort: l.production.Temporal.Address}))(t)
	defer temporal.Close()
	var again time.Time // when the second execution began
	until(t, "the run to continue as new", func() bool {
		d, err := temporal.DescribeWorkflowExecution(t.Context(), id, "")
		if err != nil {
			return false
		}
		again = d.WorkflowExecutionInfo.StartTime.AsTime()
		return d.WorkflowExecutionInfo.FirstRunId != d.WorkflowExecutionInfo.Execution.RunId
	})
	l.answer(t, id, "asked")
	until(t, "it to complete", func() bool { return strings.Contains(l.must(t, "runs", "list", "--status", "completed"), id) })
	for _, command := range [][]string{{"runs", "show", id, "-o", "json"}, {"runs", "list", "--status", "completed", "--query", "WorkflowId = '" + id + "'", "-o", "json"}} {
		var shown struct{ Started, Closed time.Time }
		text := strings.Trim(strings.TrimSpace(l.must(t, command...)), "[]")
		perduretest.NoError(t, json.Unmarshal([]byte(text), &shown))
		if !shown.Started.Before(again) || shown.Started.Before(began.Add(-time.Second)) || !shown.Closed.After(again) {
			t.Errorf("%v: from %s to %s, of which the second execution began at %s", command, shown.Started, shown.Closed, again)
		}
	}
}
