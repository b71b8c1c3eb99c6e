package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.temporal.io/sdk/client"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/telemetry"
)

func environment(variables map[string]string) func(string) string {
	return func(name string) string { return variables[name] }
}

// TestOff shows that nothing is begun where nobody asks for it, and that a
// Telemetry that is off can be used like any other.
func TestOff(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]telemetry.Options{
		"nothing":           {},
		"only an endpoint":  {Endpoint: "127.0.0.1:1"},
		"disabled":          {Prometheus: true, Getenv: environment(map[string]string{"OTEL_SDK_DISABLED": "true"})},
		"exporters of none": {Getenv: environment(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"})},
	} {
		if o.Getenv == nil {
			o.Getenv = environment(nil)
		}
		told, err := telemetry.Start(t.Context(), o)
		if told != nil || err != nil {
			t.Errorf("%s: started %v, %v", name, told, err)
		}
	}
	var off *telemetry.Telemetry
	ctx, end := off.Serve(t.Context(), telemetry.Operation{Method: "tools/call"})
	end("")
	_, carrier, end := off.Call(ctx, telemetry.Operation{})
	end("")
	off.RunStarted(ctx, "t", "t/1")
	off.StepEnded(ctx, telemetry.Step{})
	var options client.Options
	next := http.NewServeMux()
	if err := errors.Join(off.Temporal(&options), off.WatchRuns(nil), off.WatchUp(telemetry.Backends, nil), off.WatchClock(nil), off.Stop(ctx)); err != nil ||
		carrier != nil || ctx != t.Context() || len(options.Interceptors) > 0 || options.MetricsHandler != nil || off.Handler() != nil || off.HTTP(next) != http.Handler(next) {
		t.Errorf("telemetry that is off does something: %v", err)
	}
}

// TestOffCostsNothing shows that a call goes through telemetry that is off
// without one allocation.
func TestOffCostsNothing(t *testing.T) {
	var off *telemetry.Telemetry
	ctx := t.Context()
	operation := telemetry.Operation{Method: "tools/call", Tool: "t", Backend: "be", Version: "2025-11-25", Transport: "tcp"}
	if n := testing.AllocsPerRun(1000, func() {
		served, end := off.Serve(ctx, operation)
		off.RunStarted(served, "t", "t/1")
		off.SetRun(served, "t/1")
		off.SetStep(served, "t/1", "a", "be_t")
		called, _, ended := off.Call(served, operation)
		ended("tool_error")
		off.StepEnded(called, telemetry.Step{Composite: "t", Tool: "be_t"})
		off.RunEnded("t", "failed")
		end("")
	}); n > 0 {
		t.Errorf("a call allocates %v times", n)
	}
}

// BenchmarkCall is what a call costs that telemetry is told of, and with it off.
func BenchmarkCall(b *testing.B) {
	for name, o := range map[string]*telemetry.Options{
		"off": nil, "metrics": {Prometheus: true}, "metrics and traces": {Prometheus: true, Endpoint: "127.0.0.1:1", Insecure: true, Traces: true},
	} {
		b.Run(name, func(b *testing.B) {
			var told *telemetry.Telemetry
			if o != nil {
				o.Getenv, o.Logger = environment(nil), slog.New(slog.DiscardHandler)
				var err error
				if told, err = telemetry.Start(b.Context(), *o); err != nil {
					b.Fatal(err)
				}
				defer func() { _ = told.Stop(context.Background()) }()
			}
			operation := telemetry.Operation{Method: "tools/call", Tool: "t", Backend: "be"}
			b.ReportAllocs()
			for b.Loop() {
				ctx, end := told.Serve(b.Context(), operation)
				_, _, ended := told.Call(ctx, operation)
				ended("")
				end("")
			}
		})
	}
}

// TestEnvironment shows what the variables of the specification ask for.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	told, err := telemetry.Start(t.Context(), telemetry.Options{Getenv: environment(map[string]string{"OTEL_METRICS_EXPORTER": "prometheus"})})
	if err != nil || told.Handler() == nil {
		t.Fatalf("OTEL_METRICS_EXPORTER=prometheus: %v, %v", told, err)
	}
	if err := told.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := telemetry.Start(t.Context(), telemetry.Options{Getenv: environment(map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"})}); err == nil || !strings.Contains(err.Error(), `OTEL_TRACES_EXPORTER: "zipkin"`) {
		t.Errorf("zipkin: %v", err)
	}
}

// TestSnapshotIsShared shows that who asks for metrics again soon gets what was
// taken before, and that a state that cannot be had keeps nothing else away.
func TestSnapshotIsShared(t *testing.T) {
	t.Parallel()
	told, err := telemetry.Start(t.Context(), telemetry.Options{Prometheus: true, Getenv: environment(nil), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = told.Stop(context.Background()) })
	taken := 0
	err = told.WatchRuns(func(context.Context) (telemetry.Snapshot, error) {
		taken++
		return telemetry.Snapshot{Runs: map[string]int64{"running": 3}, Limits: map[string]telemetry.Limits{"be": {Kept: true, Breaker: "open"}, "gone": {}}}, nil
	})
	if err == nil {
		err = told.WatchUp(telemetry.Backends, func() map[string]bool { return map[string]bool{"be": true} })
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w := httptest.NewRecorder()
		told.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		page := w.Body.String()
		for _, line := range []string{
			`perdure_backend_breaker{perdure_backend="be",perdure_state="open"} 1`, `perdure_backend_breaker{perdure_backend="be",perdure_state="closed"} 0`,
			`perdure_backend_limits_kept{perdure_backend="be"} 1`, `perdure_backend_limits_kept{perdure_backend="gone"} 0`,
		} {
			if !strings.Contains(page, line) {
				t.Errorf("the metrics do not say %s", line)
			}
		}
		if !strings.Contains(page, `perdure_runs{perdure_status="running"} 3`) || !strings.Contains(page, `perdure_backend_up{perdure_backend="be"} 1`) {
			t.Errorf("the metrics are\n%s", page)
		}
	}
	if taken != 1 {
		t.Errorf("the state was taken %d times", taken)
	}
}

// TestStateThatCannotBeHad shows that metrics are exported although the state of
// runs cannot be had: when Temporal is away they are wanted most.
func TestStateThatCannotBeHad(t *testing.T) {
	t.Parallel()
	exported := make(chan []byte, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		exported <- body
	}))
	t.Cleanup(collector.Close)
	told, err := telemetry.Start(t.Context(), telemetry.Options{Endpoint: collector.URL, Metrics: true, Getenv: environment(nil), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := told.WatchRuns(func(context.Context) (telemetry.Snapshot, error) {
		return telemetry.Snapshot{}, errors.New("Temporal is away")
	}); err != nil {
		t.Fatal(err)
	}
	_, end := told.Serve(t.Context(), telemetry.Operation{Method: "tools/call", Tool: "t"})
	end("")
	if err := told.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	close(exported)
	var all []byte
	for body := range exported {
		all = append(all, body...)
	}
	if !bytes.Contains(all, []byte("mcp.server.operation.duration")) {
		t.Errorf("exported are %d bytes: %q", len(all), all)
	}
	if !bytes.Contains(all, []byte("service.instance.id")) { // as which Prometheus names the process
		t.Errorf("exported is nothing that tells one process from another: %q", all)
	}
}

// TestStateMakesInstruments shows that what asks for the state of runs may be the
// first of its kind, as the first request to Temporal that fails is: it makes an
// instrument, for which the collection of metrics is not waited for for ever.
func TestStateMakesInstruments(t *testing.T) {
	t.Parallel()
	told, err := telemetry.Start(t.Context(), telemetry.Options{Prometheus: true, Getenv: environment(nil), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = told.Stop(context.Background()) })
	var options client.Options
	perduretest.NoError(t, told.Temporal(&options))
	asked := make(chan struct{})
	if err := told.WatchRuns(func(context.Context) (telemetry.Snapshot, error) {
		defer close(asked)
		options.MetricsHandler.Counter("temporal_request_failure").Inc(1)
		return telemetry.Snapshot{Runs: map[string]int64{"running": 3}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	page := func() string {
		w := httptest.NewRecorder()
		told.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Body.String()
	}
	page()
	<-asked
	if got := page(); !strings.Contains(got, `perdure_runs{perdure_status="running"} 3`) || !strings.Contains(got, "temporal_request_failure_total") {
		t.Errorf("then the metrics are\n%s", got)
	}
}

// TestLogs shows which lines have a trace.
func TestLogs(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(telemetry.Logs(slog.NewTextHandler(&out, nil))).With("run", "t/1")
	log.InfoContext(t.Context(), "without")
	told, err := telemetry.Start(t.Context(), telemetry.Options{Endpoint: "127.0.0.1:1", Insecure: true, Traces: true, Getenv: environment(nil), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = told.Stop(context.Background()) })
	ctx, end := told.Serve(t.Context(), telemetry.Operation{Method: "tools/call", Trace: map[string]string{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}})
	log.InfoContext(ctx, "with")
	end("")
	lines := strings.Split(out.String(), "\n")
	if strings.Contains(lines[0], "trace_id") || !strings.Contains(lines[1], "run=t/1 trace_id=4bf92f3577b34da6a3ce929d0e0e4736 span_id=") {
		t.Errorf("the log is\n%s", out.String())
	}
}
