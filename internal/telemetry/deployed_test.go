package telemetry_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/telemetry"
)

// TestDeployedMetrics holds the alerts, the dashboard and the documentation to
// the metrics that there are, by their names in Prometheus, and to their labels.
func TestDeployedMetrics(t *testing.T) {
	t.Parallel()
	exists := everyMetric(t)
	name := regexp.MustCompile(`\b(perdure|mcp)_[a-z_]*[a-z]`)
	suffix := regexp.MustCompile(`_(bucket|count|sum)$`)
	for _, file := range []string{"../../deploy/helm/perdure/files/alerts.yaml", "../../deploy/helm/perdure/files/dashboard.json", "../../docs/operations.md"} {
		text := perduretest.Read(t, file)
		if strings.HasSuffix(file, ".md") { // of the table
			text = []byte(strings.Join(regexp.MustCompile("(?m)^\\| `.*$").FindAllString(string(text), -1), "\n"))
		}
		found := name.FindAllString(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s names no metric", file)
		}
		for _, n := range found {
			if !exists[suffix.ReplaceAllString(n, "")] {
				t.Errorf("%s names %s, which is neither a metric nor a label", file, n)
			}
		}
	}
}

// everyMetric are the names of all metrics of ours and of their labels.
func everyMetric(t *testing.T) map[string]bool {
	t.Helper()
	told, err := telemetry.Start(t.Context(), telemetry.Options{Prometheus: true, Getenv: environment(nil), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = told.Stop(context.Background()) })
	up := func() map[string]bool { return map[string]bool{"one": true} }
	_, end := told.Serve(t.Context(), telemetry.Operation{Method: "tools/call", Tool: "t"})
	end("tool_error")
	_, _, end = told.Call(t.Context(), telemetry.Operation{Method: "tools/call", Tool: "t", Backend: "be"})
	end("unknown")
	told.RunStarted(t.Context(), "t", "t/1")
	told.RunEnded("t", "failed")
	told.RunExecutedAlone()
	told.RunQuarantined()
	told.StepEnded(t.Context(), telemetry.Step{Composite: "t", Tool: "be_t", Backend: "be", Effect: "unsafe", Attempt: 2, Status: "tool", Unknown: true, Took: time.Second})
	one := map[string]int64{"x": 1}
	err = told.WatchRuns(func(context.Context) (telemetry.Snapshot, error) {
		return telemetry.Snapshot{Runs: one, Waiting: one, Gates: one, OldestGate: map[string]time.Duration{"x": time.Second},
			Backlog: map[string]telemetry.Backlog{"workflow": {Tasks: 1, Age: time.Second}},
			Limits:  map[string]telemetry.Limits{"be": {Kept: true, Breaker: "open"}}}, nil
	})
	if err == nil {
		err = errors.Join(told.WatchUp(telemetry.Backends, up), told.WatchUp(telemetry.Needs, up), told.WatchUp(telemetry.Tools, up), told.WatchClock(func() *time.Duration { return new(time.Duration) }))
	}
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	told.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	names := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^# TYPE (\S+)`).FindAllStringSubmatch(w.Body.String(), -1) {
		names[line[1]] = true
	}
	for _, label := range regexp.MustCompile(`[{,]([a-z_]+)="`).FindAllStringSubmatch(w.Body.String(), -1) {
		names[label[1]] = true
	}
	if !names["perdure_runs"] || !names["perdure_backend"] {
		t.Fatalf("the metrics are\n%s", w.Body)
	}
	return names
}
