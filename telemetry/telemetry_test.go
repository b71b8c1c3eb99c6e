package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.temporal.io/sdk/client"

	"github.com/perdure/perdure/telemetry"
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
	if err := errors.Join(off.Temporal(&options), off.WatchRuns(nil), off.WatchBackends(nil), off.Stop(ctx)); err != nil ||
		carrier != nil || ctx != t.Context() || len(options.Interceptors) > 0 || options.MetricsHandler != nil || off.Handler() != nil || off.HTTP(next) != http.Handler(next) {
		t.Errorf("telemetry that is off does something: %v", err)
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
		err = told.WatchBackends(func() map[string]bool { return map[string]bool{"be": true} })
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
