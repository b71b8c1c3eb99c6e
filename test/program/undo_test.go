//go:build !nodev

package program_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/activities"
	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/workflows"
)

// lateBackend executes a call although it is cancelled, and says so afterwards.
type lateBackend struct {
	begun, end chan struct{}

	mu    sync.Mutex
	calls []string
}

func (b *lateBackend) Call(_ context.Context, call backends.Call) (*backends.Result, error) {
	b.mu.Lock()
	b.calls = append(b.calls, call.Tool)
	b.mu.Unlock()
	if call.Tool == "late" {
		close(b.begun)
		<-b.end
	}
	return &backends.Result{Structured: json.RawMessage(`{"n":7}`)}, nil
}

// A call that completes after its run was cancelled is undone like those that
// had completed before.
func TestCompletedAfterCancel(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.DiscardHandler)
	c := startTemporal(t, quiet)
	door := runs.New(runs.Config{Keys: testKeys, Client: c, Logger: quiet})
	backend := &lateBackend{begun: make(chan struct{}), end: make(chan struct{})}
	w := worker.New(c, workflows.TaskQueue, worker.Options{})
	workflows.Register(w, trust)
	activities.Register(w, activities.New(backend, quiet, activities.Options{}))
	perduretest.NoError(t, w.Start())
	t.Cleanup(w.Stop)

	defs, diags := definitions.Parse("undo.yaml", []byte(`{name: undo, description: d, steps: [
		{id: one, tool: make, compensate: {tool: unmake}},
		{id: two, tool: late, dependsOn: [one], compensate: {tool: unmakeLate, arguments: {n: "{{.output.n}}"}}},
		{id: three, tool: make, dependsOn: [two]}]}`))
	perduretest.NoError(t, diags.Err())
	tools := map[string]definitions.Tool{}
	for _, name := range []string{"make", "unmake", "late", "unmakeLate"} {
		tools[name] = definitions.Tool{Name: name, Backend: "be", Original: name}
	}
	started, err := door.Start(t.Context(), runs.StartRequest{Definition: defs[0], Arguments: json.RawMessage(`{}`), Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	receive(t, backend.begun, "the call")
	perduretest.NoError(t, door.Cancel(t.Context(), started.ID, "no more"))
	cancelling(t, door, started.ID)
	close(backend.end)
	var seq int64
	done := nextEvent(t, door, started.ID, &seq, runs.EventDone)
	if done.Outcome.Status != runs.Cancelled || done.Outcome.Failure == nil {
		t.Fatalf("ended with %+v", done.Outcome)
	}
	if diff := cmp.Diff([]workflows.StepPath{"two", "one"}, done.Outcome.Failure.Compensated); diff != "" {
		t.Error(diff)
	}
	backend.mu.Lock()
	defer backend.mu.Unlock()
	if diff := cmp.Diff([]string{"make", "late", "unmakeLate", "unmake"}, backend.calls); diff != "" {
		t.Error(diff)
	}
}

// cancelling waits until a run has taken note that it was cancelled.
func cancelling(t *testing.T, door *runs.Client, id runs.RunID) {
	t.Helper()
	until(t, "the run to take note of its cancel", func() bool {
		run := perduretest.Must(door.Get(t.Context(), id))(t)
		return run.Cancelling
	})
}
