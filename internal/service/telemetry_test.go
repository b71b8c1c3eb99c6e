package service

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/secrets"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/workflows"
)

// TestHistoriesReplayTraced replays histories that were recorded without
// telemetry by a worker that has it: to turn it on, or off, stops no run.
func TestHistoriesReplayTraced(t *testing.T) {
	t.Parallel()
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(collector.Close)
	keys := perduretest.Must(secrets.NewKeys(secrets.FixedKeys([]byte("tests"))))(t)
	told, err := telemetry.Start(t.Context(), telemetry.Options{Endpoint: collector.URL, Traces: true, Metrics: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = told.Stop(t.Context()) })
	var options client.Options
	perduretest.NoError(t, told.Temporal(&options))
	all := interceptors(told)
	for _, i := range options.Interceptors {
		all = append(all, i.(interceptor.WorkerInterceptor))
	}
	for _, file := range perduretest.Files(t, "../../workflows/testdata/histories/*.json") {
		replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{Interceptors: all})
		if err != nil {
			t.Fatal(err)
		}
		workflows.Register(replayer, workflows.Trust{Keys: keys})
		if err := replayer.ReplayWorkflowHistoryFromJSONFile(nil, file); err != nil {
			t.Errorf("%s: %v", filepath.Base(file), err)
		}
	}
}
