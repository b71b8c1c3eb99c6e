package program_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	colmetricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/web"
)

// A collector takes what is exported by OTLP over HTTP.
type collector struct {
	web *httptest.Server

	mu      sync.Mutex
	bodies  [][]byte
	spans   []*tracepb.Span
	metrics map[string]bool // names
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{metrics: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", func(w http.ResponseWriter, r *http.Request) {
		var sent coltracepb.ExportTraceServiceRequest
		c.take(t, r, &sent, func() {
			for _, rs := range sent.ResourceSpans {
				for _, ss := range rs.ScopeSpans {
					c.spans = append(c.spans, ss.Spans...)
				}
			}
		})
	})
	mux.HandleFunc("POST /v1/metrics", func(w http.ResponseWriter, r *http.Request) {
		var sent colmetricspb.ExportMetricsServiceRequest
		c.take(t, r, &sent, func() {
			for _, rm := range sent.ResourceMetrics {
				for _, sm := range rm.ScopeMetrics {
					for _, m := range sm.Metrics {
						c.metrics[m.Name] = true
					}
				}
			}
		})
	})
	c.web = httptest.NewServer(mux)
	t.Cleanup(c.web.Close)
	return c
}

func (c *collector) take(t *testing.T, r *http.Request, into proto.Message, keep func()) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = proto.Unmarshal(body, into)
	}
	if err != nil {
		t.Errorf("an export cannot be read: %v", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bodies = append(c.bodies, body)
	keep()
}

// count is how many spans of a name there are in a trace.
func (c *collector) count(trace, name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, s := range c.spans {
		if s.Name == name && fmt.Sprintf("%x", s.TraceId) == trace {
			n++
		}
	}
	return n
}

// configuration has everything exported to the collector, and metrics served
// beside /readyz.
func (c *collector) configuration() string {
	return fmt.Sprintf("telemetry: {endpoint: %q, tracingEnabled: true, metricsEnabled: true, enablePrometheusMetricsPath: true}\n", c.web.URL)
}

// exported is all that came.
func (c *collector) exported() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Join(c.bodies, nil)
}

// trace are the spans of a trace by name; a name that comes twice has the
// path of the step behind it.
func (c *collector) trace(id string) map[string]*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	spans := map[string]*tracepb.Span{}
	for _, s := range c.spans {
		if fmt.Sprintf("%x", s.TraceId) != id {
			continue
		}
		name := s.Name
		if path := attributeOf(s, "perdure.step.path"); path != "" {
			name += " " + path
		}
		spans[name] = s
	}
	return spans
}

func attributeOf(s *tracepb.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// The trace of the client whose calls the tests follow.
const (
	clientTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientSpan  = "00f067aa0ba902b7"
)

// TestTraceOfAResumption has what resumes a run be in the trace of its call, and what
// reads for that what the run has done not be another run of it.
func TestTraceOfAResumption(t *testing.T) {
	t.Parallel()
	fakes := serveFakes(t, map[string]fakeTool{"be_fail": failingAnswer("no room left")})
	c := startCollector(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "perdure.yaml"), c.configuration()+fakes.configuration("[{tool: '*', class: idempotent}]")+`compositeTools:
  - {name: fails, description: Fails., steps: [{id: fail, tool: be_fail}]}
`)
	d := startDev(t, dir, "--config", "perdure.yaml")
	var request mcp.CallToolRequest
	request.Params.Name = "fails"
	request.Params.Meta = &mcp.Meta{AdditionalFields: map[string]any{"traceparent": "00-" + clientTrace + "-" + clientSpan + "-01"}}
	if result, err := d.dial(t, modern, nil).CallTool(t.Context(), request); err != nil || !result.IsError {
		t.Fatalf("the call came to %v, %v", result, err)
	}
	id := d.onlyRun(t, "fails", "failed")
	d.interrupt(patience) // so that it has to be replayed
	d.start()
	d.run(t, "runs", "resume", id, "--dry-run")
	d.run(t, "runs", "resume", id, "--yes")
	until(t, "the spans of the run, and of what resumes it", func() bool {
		return c.count(clientTrace, "RunWorkflow:fails") >= 2 && c.count(clientTrace, "RunActivity:CallTool") == 2
	})
	d.interrupt(patience)
	if n := c.count(clientTrace, "RunWorkflow:fails"); n != 2 {
		t.Errorf("there are %d spans of the run and of its resumption", n)
	}
}

// TestTraceOfACall follows one call from the client to the backends: each span
// is the child of the one that caused it, in the trace that the client named in
// _meta, and the backends are told of it in _meta and by header. The metrics
// that the same call made are checked beside it.
func TestTraceOfACall(t *testing.T) {
	t.Parallel()
	fakes := serveFakes(t, map[string]fakeTool{
		"be_read": structuredAnswer(`{"text":"result-6b1f"}`), "be_write": structuredAnswer(`{"text":"written"}`), "be_fail": failingAnswer("words-8c2e"),
	})
	c := startCollector(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "perdure.yaml"), c.configuration()+fakes.configuration("[{tool: read, class: read}]")+`compositeTools:
  - name: both
    description: Reads and writes.
    parameters: {type: object, properties: {what: {type: string}}}
    steps:
      - {id: look, tool: be_read}
      - {id: write, tool: be_write, arguments: {what: "{{.params.what}}"}, dependsOn: [look]}
      - {id: fail, tool: be_fail, dependsOn: [write], onError: {action: continue}}
      - {id: done, tool: be_read, dependsOn: [fail]}
  - name: asks
    description: Asks.
    steps: [{id: gate, type: elicitation, message: Go?, schema: {type: object}, timeout: 1h}]
`)
	d := startDev(t, dir, "--config", "perdure.yaml", "--log-format", "json")
	client := d.dial(t, modern, nil)
	var request mcp.CallToolRequest
	request.Params.Name, request.Params.Arguments = "both", map[string]any{"what": "argument-1d7a"}
	request.Params.Meta = &mcp.Meta{AdditionalFields: map[string]any{"traceparent": "00-" + clientTrace + "-" + clientSpan + "-01"}}
	if result, err := client.CallTool(t.Context(), request); err != nil || result.IsError {
		t.Fatalf("the call came to %v, %v", result, err)
	}
	id := d.onlyRun(t, "both", "completed")

	var spans map[string]*tracepb.Span
	until(t, "the spans of the call", func() bool {
		spans = c.trace(clientTrace)
		return spans["tools/call both"] != nil && spans["RunWorkflow:both"] != nil && spans["RunActivity:CallTool write"] != nil
	})
	parents := map[string]string{ // by span; "" = that of the client
		"tools/call both":            "",
		"StartWorkflow:both":         "tools/call both",
		"RunWorkflow:both":           "StartWorkflow:both",
		"RunActivity:CallTool write": "StartActivity:CallTool",
		"tools/call write":           "RunActivity:CallTool write",
	}
	for name, parent := range parents {
		span := spans[name]
		if span == nil {
			t.Errorf("there is no span %q; there are %q", name, keysOf(spans))
			continue
		}
		want := clientSpan
		if p := spans[parent]; parent != "" && p != nil {
			want = fmt.Sprintf("%x", p.SpanId)
		}
		if name == "RunActivity:CallTool write" { // there is one StartActivity for each
			want = fmt.Sprintf("%x", span.ParentSpanId)
		}
		if got := fmt.Sprintf("%x", span.ParentSpanId); got != want {
			t.Errorf("the parent of %q is %s, want %s, %s", name, got, want, parent)
		}
	}
	for key, want := range map[string]string{
		"mcp.method.name": "tools/call", "gen_ai.tool.name": "both", "gen_ai.operation.name": "execute_tool",
		"mcp.protocol.version": modern, "perdure.run.id": id, "network.transport": "tcp", "network.protocol.name": "http",
	} {
		if got := attributeOf(spans["tools/call both"], key); got != want {
			t.Errorf("the span of the call says %s = %q, want %q", key, got, want)
		}
	}
	if attributeOf(spans["tools/call both"], "jsonrpc.request.id") == "" {
		t.Error("the span of the call does not name the request")
	}
	for key, want := range map[string]string{
		"mcp.method.name": "tools/call", "gen_ai.tool.name": "write", "gen_ai.operation.name": "execute_tool", "perdure.backend": "be",
		"network.transport": "tcp", "server.address": "127.0.0.1",
	} {
		if got := attributeOf(spans["tools/call write"], key); got != want {
			t.Errorf("the span of the backend's call says %s = %q, want %q", key, got, want)
		}
	}
	if !strings.HasPrefix(attributeOf(spans["tools/call write"], "mcp.protocol.version"), "20") {
		t.Errorf("the span of the backend's call is %v", spans["tools/call write"].Attributes)
	}
	if s := spans["tools/call fail"]; s == nil || attributeOf(s, "error.type") != "tool_error" || s.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR {
		t.Errorf("the span of the call that failed is %v", s)
	}
	for _, call := range fakes.seen() {
		tool := strings.TrimPrefix(call.Tool, "be_")
		if call.Traceparent == "" || call.Traceparent != call.TraceHeader {
			t.Errorf("%s was told of %q in _meta and of %q by header", tool, call.Traceparent, call.TraceHeader)
		}
		if s := spans["tools/call "+tool]; tool != "read" && s != nil && call.Traceparent != fmt.Sprintf("00-%s-%x-01", clientTrace, s.SpanId) {
			t.Errorf("%s was told of %q, its span is %x", tool, call.Traceparent, s.SpanId)
		}
	}

	go func() { _, _ = toolCall{name: "asks"}.by(t.Context(), client) }() // waits until the test ends
	d.onlyRun(t, "asks", "waiting")
	var page string
	until(t, "the metrics to tell of the run that waits", func() bool {
		page = metricsPage(t, d.address)
		return strings.Contains(page, `perdure_runs_waiting{perdure_waiting="approval"} 1`)
	})
	for _, line := range []string{
		`perdure_runs_started_total{perdure_tool="both"} 1`,
		`perdure_runs_ended_total{perdure_status="completed",perdure_tool="both"} 1`,
		`perdure_runs{perdure_status="waiting"} 1`,
		`perdure_gates_open{perdure_kind="approval"} 1`,
		`perdure_gates_oldest_age_seconds{perdure_kind="approval"} `,
		`perdure_runs_waiting{perdure_waiting="reconciliation"} 0`,
		`perdure_backend_up{perdure_backend="be"} 1`,
		`perdure_need_up{perdure_need="Temporal"} 1`,
		`perdure_queue_backlog{perdure_queue="activity"} 0`,
		`perdure_queue_lag_seconds{perdure_queue="workflow"} `,
		`mcp_server_operation_duration_seconds_count{gen_ai_tool_name="both",mcp_method_name="tools/call"} 1`,
		`mcp_client_operation_duration_seconds_count{error_type="tool_error",gen_ai_tool_name="fail",mcp_method_name="tools/call",perdure_backend="be"} 1`,
		`perdure_step_duration_seconds_count{gen_ai_tool_name="be_write",perdure_backend="be",perdure_status="completed",perdure_tool="both"} 1`,
		`temporal_workflow_task_schedule_to_start_latency_seconds_count{`,
	} {
		if !strings.Contains(page, line) {
			t.Errorf("the metrics do not say %s", line)
		}
	}
	session := d.dial(t, legacy, nil)
	if _, err := (toolCall{name: "nothing_of_the_kind"}).by(t.Context(), session); err == nil {
		t.Error("a tool that does not exist was called")
	}
	log := d.interrupt(patience)
	var refused *tracepb.Span
	for _, s := range c.of("") {
		if s.Name == "tools/call" && attributeOf(s, "rpc.response.status_code") != "" {
			refused = s
		}
	}
	if refused == nil || attributeOf(refused, "rpc.response.status_code") != "-32602" || attributeOf(refused, "error.type") != "-32602" || attributeOf(refused, "mcp.session.id") == "" {
		t.Errorf("the span of the call of a tool that does not exist is %v", refused)
	}
	if !regexp.MustCompile(`"msg":"tool call failed","run":"` + id + `".*"trace_id":"` + clientTrace + `"`).MatchString(log) {
		t.Errorf("the log does not name run and trace of the call that failed: %s", log)
	}
	if !c.metrics["mcp.server.operation.duration"] || !c.metrics["perdure.runs.waiting"] {
		t.Errorf("exported are the metrics %v", c.metrics)
	}
	for _, private := range []string{"argument-1d7a", "result-6b1f", "words-8c2e"} {
		if bytes.Contains(c.exported(), []byte(private)) || strings.Contains(page, private) {
			t.Errorf("%s was exported", private)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
}

func keysOf(spans map[string]*tracepb.Span) []string {
	var names []string
	for name := range spans {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func metricsPage(t *testing.T, address string) string {
	t.Helper()
	response := perduretest.Must(http.Get("http://" + address + "/metrics"))(t)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("the metrics are answered with %s, %v", response.Status, err)
	}
	return string(body)
}

// way are the names of a span and of those above it, up to that of the client.
func (c *collector) way(s *tracepb.Span) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	above := map[string]*tracepb.Span{}
	for _, s := range c.spans {
		above[string(s.SpanId)] = s
	}
	var names []string
	for ; s != nil; s = above[string(s.ParentSpanId)] {
		names = append([]string{s.Name}, names...)
		if fmt.Sprintf("%x", s.ParentSpanId) == clientSpan {
			return "client < " + strings.Join(names, " < ")
		}
	}
	return strings.Join(names, " < ")
}

// TestEachMetricMoves makes happen what the metrics are there for, each by a call:
// a retry, an unknown outcome, what waits for an operator, a backend that
// is down, one with limits whose breaker opens, and tasks that no worker takes up.
// The same is exported by OTLP.
func TestEachMetricMoves(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	fakes := serveFakes(t, map[string]fakeTool{
		"be_flaky": func(context.Context, map[string]any) (*mcp.CallToolResult, error) {
			if calls.Add(1) == 1 {
				return mcp.NewToolResultError("not today"), nil
			}
			return mcp.NewToolResultText("mended"), nil
		},
		"be_slow": func(ctx context.Context, _ map[string]any) (*mcp.CallToolResult, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	c := startCollector(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "perdure.yaml"), c.configuration()+fakes.configuration("[]")+`  - {name: away, transport: streamable-http, url: "http://127.0.0.1:1/mcp"}
compositeTools:
  - name: retried
    description: Fails at first.
    steps: [{id: flaky, tool: be_flaky, onError: {action: retry, retryCount: 2, retryDelay: 10ms}}]
  - name: lost
    description: Gives no answer in time.
    timeout: 1h
    steps: [{id: slow, tool: be_slow, timeout: 1s, onUnknown: ask}]
  - name: unavailable
    description: Calls a tool that is gone.
    steps: [{id: gone, tool: be_gone}]
`)
	write(t, filepath.Join(dir, "key"), strings.Repeat("0a", 32)+"\n")
	d := startDev(t, dir, "--config", "perdure.yaml")
	d.run(t, "call", "retried")
	_, _, _ = d.try(t, "call", "lost", "--timeout", "2s")
	d.onlyRun(t, "lost", "waiting")
	says := func(address string, lines ...string) {
		t.Helper()
		for _, line := range lines {
			pattern := regexp.MustCompile("(?m)^" + line)
			until(t, "the metrics to say "+line, func() bool { return pattern.MatchString(metricsPage(t, address)) })
		}
	}
	says(d.address,
		`perdure_step_retries_total\{gen_ai_tool_name="be_flaky",perdure_backend="be",perdure_tool="retried"\} 1`,
		`perdure_step_duration_seconds_count\{gen_ai_tool_name="be_flaky",perdure_backend="be",perdure_status="tool",perdure_tool="retried"\} 1`,
		`perdure_step_unknown_outcomes_total\{gen_ai_tool_name="be_slow",perdure_backend="be",perdure_effect="unsafe",perdure_tool="lost"\} 1`,
		`mcp_client_operation_duration_seconds_count\{error_type="unknown",gen_ai_tool_name="slow",mcp_method_name="tools/call",perdure_backend="be"\} 1`,
		`perdure_runs_waiting\{perdure_waiting="reconciliation"\} 1`,
		`perdure_gates_open\{perdure_kind="reconciliation"\} 1`,
		`perdure_gates_oldest_age_seconds\{perdure_kind="reconciliation"\} [1-9.]`,
		`perdure_backend_up\{perdure_backend="away"\} 0`,
		`perdure_tool_up\{perdure_tool="retried"\} 1`,
		`perdure_tool_up\{perdure_tool="unavailable"\} 0`,
	)

	// A gateway in a namespace of its own, for which nobody works.
	dev, err := readDevFile(filepath.Join(dir, ".perdure"))
	if err != nil || dev == nil {
		t.Fatalf("no dev: %v", err)
	}
	gateway := &process{t: t, dir: dir, address: freeAddress(t), env: web.PairEnvironment(temporalKey(".perdure"))}
	gateway.args = []string{"gateway", "--config", "perdure.yaml", "--listen", gateway.address, "--key-file", "key",
		"--address", dev.Temporal, "--namespace", "idle", "--create-namespace", "--call-patience", "500ms"}
	gateway.start()
	if _, err := (toolCall{name: "retried"}).by(t.Context(), dial(t, "http://"+gateway.address+endpoint, modern, nil)); err != nil {
		t.Fatal(err)
	}
	says(gateway.address,
		`perdure_runs_started_total\{perdure_tool="retried"\} 1`,
		`perdure_runs\{perdure_status="running"\} 1`,
		`perdure_queue_backlog\{perdure_queue="workflow"\} 1`,
		`perdure_queue_lag_seconds\{perdure_queue="workflow"\} [1-9.]*[1-9]`,
	)
	d.interrupt(patience)
	for _, name := range []string{
		"mcp.server.operation.duration", "mcp.client.operation.duration", "perdure.backend.up", "perdure.runs.started", "perdure.runs.ended", "perdure.runs",
		"perdure.runs.waiting", "perdure.gates.open", "perdure.gates.oldest.age", "perdure.step.duration", "perdure.step.retries", "perdure.step.unknown_outcomes",
		"perdure.queue.backlog", "perdure.queue.lag",
	} {
		if !c.metrics[name] {
			t.Errorf("%s was not exported; there are %v", name, c.metrics)
		}
	}
}

// TestTraceOfEachKindOfCall follows calls of the other kinds: a composite tool that
// calls another, a script, a tool of a backend as it is, and a run that is resumed.
func TestTraceOfEachKindOfCall(t *testing.T) {
	t.Parallel()
	var mended atomic.Bool
	fakes := serveFakes(t, map[string]fakeTool{
		"be_read": structuredAnswer(`{"text":"read"}`), "be_write": structuredAnswer(`{"text":"written"}`),
		"be_flaky": func(context.Context, map[string]any) (*mcp.CallToolResult, error) {
			if mended.Load() {
				return mcp.NewToolResultText("mended"), nil
			}
			return mcp.NewToolResultError("not today"), nil
		},
	})
	c := startCollector(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "perdure.yaml"), c.configuration()+fakes.configuration("[{tool: read, class: read}]")+`compositeTools:
  - name: above
    description: Calls another.
    steps: [{id: called, type: workflow, workflow: below}]
  - name: below
    description: Writes.
    steps: [{id: write, tool: be_write}]
  - name: scripted
    description: A script.
    tools: [be_read, be_write]
    script: |
      be_read()
      return be_write()
  - name: flaky
    description: Fails at first.
    steps: [{id: flaky, tool: be_flaky}]
`)
	d := startDev(t, dir, "--config", "perdure.yaml")
	client := d.dial(t, modern, nil)
	traces := map[string]string{}
	for i, tool := range []string{"above", "scripted", "be_write", "flaky"} {
		traces[tool] = fmt.Sprintf("%032x", i+1)
		var request mcp.CallToolRequest
		request.Params.Name = tool
		request.Params.Meta = &mcp.Meta{AdditionalFields: map[string]any{"traceparent": "00-" + traces[tool] + "-" + clientSpan + "-01"}}
		if result, err := client.CallTool(t.Context(), request); err != nil || result.IsError != (tool == "flaky") {
			t.Fatalf("%s came to %v, %v", tool, err, asJSON(t, result))
		}
	}
	mended.Store(true)
	d.run(t, "runs", "resume", d.onlyRun(t, "flaky", "failed"))
	d.onlyRun(t, "flaky", "completed")
	t.Cleanup(func() {
		for _, s := range c.of("") {
			if t.Failed() {
				t.Logf("%x: %s", s.TraceId[12:], c.way(s))
			}
		}
	})
	for _, tc := range []struct{ tool, span, way string }{
		{"above", "tools/call write", "client < tools/call above < StartWorkflow:above < RunWorkflow:above < StartChildWorkflow:below < RunWorkflow:below < StartActivity:CallTool < RunActivity:CallTool < tools/call write"},
		{"scripted", "tools/call read", "client < tools/call scripted < StartWorkflow:scripted < RunWorkflow:scripted < StartActivity:CallTool < RunActivity:CallTool < tools/call read"},
		{"scripted", "tools/call write", "client < tools/call scripted < StartWorkflow:scripted < RunWorkflow:scripted < StartActivity:CallTool < RunActivity:CallTool < tools/call write"},
		{"be_write", "tools/call write", "client < tools/call be_write < tools/call write"},
		{"flaky", "tools/call flaky", "client < tools/call flaky < StartWorkflow:flaky < RunWorkflow:flaky < StartActivity:CallTool < RunActivity:CallTool < tools/call flaky"},
	} {
		var ways []string
		until(t, "the span "+tc.span+" of "+tc.tool, func() bool {
			ways = nil
			for _, s := range c.of(traces[tc.tool]) {
				if s.Name == tc.span {
					ways = append(ways, c.way(s))
				}
			}
			return slices.Contains(ways, tc.way)
		})
	}
	until(t, "the call of the resumed run", func() bool {
		calls := 0
		for _, s := range c.of("") {
			if s.Name == "tools/call flaky" && strings.Contains(c.way(s), "RunWorkflow:flaky < StartActivity:CallTool < RunActivity:CallTool") {
				calls++
			}
		}
		return calls == 2
	})
}

// of are the spans of a trace; "" = of all.
func (c *collector) of(trace string) []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.spans), func(s *tracepb.Span) bool {
		return trace != "" && fmt.Sprintf("%x", s.TraceId) != trace
	})
}
