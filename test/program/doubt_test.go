//go:build !nodev

package program_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/activities"
	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/workflows"
)

// countingBackend counts calls, and has each come to what it says.
type countingBackend struct {
	calls  *atomic.Int64
	answer func() (*backends.Result, error)
}

func (b countingBackend) Call(ctx context.Context, call backends.Call) (*backends.Result, error) {
	if err := call.MaySend(ctx); err != nil {
		return nil, &backends.CallError{Backend: call.Backend, Tool: call.Tool, Outcome: backends.NotSent, Err: err}
	}
	b.calls.Add(1)
	return b.answer()
}

// A worker that stops while a call is under way, and cannot hand over any more
// what the call came to, has the SDK report a failure that Temporal retries. An
// unsafe call is not made again for that.
func TestUnsafeCallOfAWorkerThatStops(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.DiscardHandler)
	c := startTemporal(t, quiet)
	door := runs.New(runs.Config{Keys: testKeys, Client: c, Logger: quiet})
	var calls atomic.Int64
	life, die := context.WithCancelCause(t.Context())
	first := startCounting(t, c, door, worker.Options{BackgroundActivityContext: life}, countingBackend{&calls, func() (*backends.Result, error) {
		die(worker.ErrWorkerShutdown)
		return nil, &backends.CallError{Backend: "be", Tool: "pay", Outcome: backends.Unknown, Err: errors.New("the worker stops")}
	}})
	started := startPaying(t, door, "10ms")
	receive(t, life.Done(), "the call")
	first.Stop()
	startCounting(t, c, door, worker.Options{}, countingBackend{&calls, func() (*backends.Result, error) {
		return &backends.Result{Structured: json.RawMessage(`{}`)}, nil
	}})
	var seq int64
	done := nextEvent(t, door, started.ID, &seq, runs.EventDone)
	if f := done.Outcome.Failure; f == nil || f.Error.Category != codes.CategoryOutcomeUnknown {
		t.Errorf("ended with %+v", done.Outcome)
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("the unsafe tool was called %d times", n)
	}
}

// An unsafe call that was answered with an error is made again.
func TestUnsafeCallIsRetried(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.DiscardHandler)
	c := startTemporal(t, quiet)
	door := runs.New(runs.Config{Keys: testKeys, Client: c, Logger: quiet})
	var calls atomic.Int64
	long := make([]byte, 20<<10) // more than Temporal keeps of a failure
	for i := range long {
		long[i] = 'x'
	}
	startCounting(t, c, door, worker.Options{}, countingBackend{&calls, func() (*backends.Result, error) {
		if calls.Load() < 3 {
			return &backends.Result{IsError: true, Content: []backends.Content{{Type: "text", Text: string(long)}}}, nil
		}
		return &backends.Result{Structured: json.RawMessage(`{}`)}, nil
	}})
	started := startPaying(t, door, "10ms")
	var seq int64
	done := nextEvent(t, door, started.ID, &seq, runs.EventDone)
	if done.Outcome.Status != runs.Completed || calls.Load() != 3 {
		t.Errorf("ended with %+v after %d calls", done.Outcome, calls.Load())
	}
}

func startPaying(t *testing.T, door *runs.Client, retryDelay string) runs.Started {
	t.Helper()
	defs, diags := definitions.Parse("pay.yaml", []byte(`{name: pay, description: d, steps: [{id: pay, tool: pay, onError: {action: retry, retryCount: 3, retryDelay: `+retryDelay+`}}]}`))
	perduretest.NoError(t, diags.Err())
	started, err := door.Start(t.Context(), runs.StartRequest{Definition: defs[0], Arguments: json.RawMessage(`{}`),
		Tools: map[string]definitions.Tool{"pay": {Name: "pay", Backend: "be", Original: "pay"}}})
	if err != nil {
		t.Fatal(err)
	}
	return started
}

func startCounting(t *testing.T, c client.Client, door *runs.Client, options worker.Options, backend countingBackend) worker.Worker {
	t.Helper()
	w := worker.New(c, workflows.TaskQueue, options)
	workflows.Register(w, trust)
	activities.Register(w, activities.New(backend, slog.New(slog.DiscardHandler), activities.Options{CatchUp: door.CatchUp, LastAttempt: door.CallHistory().LastAttempt, SentUnread: door.CallHistory().SentUnread}))
	perduretest.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	return w
}

// Somebody pauses or resets the activity of an unsafe call at Temporal while the call is
// under way. That ends the call and not the run: its outcome is unknown, and it is not made
// again.
func TestAttackPausedCall(t *testing.T) {
	t.Parallel()
	l := newStopLab(t)
	for name, disturb := range map[string]disturbance{"paused": pauseActivity, "reset": resetActivity} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := l.start(t, define(t, name, "steps: [{id: w, tool: write_60000, OF, onUnknown: ask}]"))
			l.backend.await(name, "write")
			disturbActivity(t, l.temporal, id, 1, disturb)
			var seq int64
			asked := nextEvent(t, l.door, id, &seq, runs.EventOpened)
			if asked.Elicitation.Kind != runs.Reconciliation {
				t.Errorf("asked %+v", asked.Elicitation)
			}
			if n := len(l.backend.of(name, "write")); n != 1 {
				t.Errorf("called %d times", n)
			}
		})
	}
}

// The result of an unsafe call is lost on its way to Temporal, and somebody has the activity
// begin anew before its next attempt. Temporal then counts its attempts from one, and forgets
// why the first has failed; the call is not made again.
func TestAttackResetOfTheNextAttempt(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]disturbance{
		"reset": resetActivity,
		"unpaused": func(ctx context.Context, s workflowservice.WorkflowServiceClient, x *commonpb.WorkflowExecution, activity string) error {
			if err := pauseActivity(ctx, s, x, activity); err != nil {
				return err
			}
			_, err := s.UnpauseActivity(ctx, &workflowservice.UnpauseActivityRequest{Namespace: "default", Execution: x,
				Activity: &workflowservice.UnpauseActivityRequest_Id{Id: activity}, ResetAttempts: true, ResetHeartbeat: true})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			quiet := slog.New(slog.DiscardHandler)
			c := startTemporal(t, quiet)
			var calls atomic.Int64
			loses, err := client.NewClientFromExisting(c, client.Options{
				DataConverter: losesResult{converter.GetDefaultDataConverter(), &calls}, Logger: sdklog.NewStructuredLogger(quiet),
			})
			perduretest.NoError(t, err)
			door := runs.New(runs.Config{Keys: testKeys, Client: c, Logger: quiet})
			startCounting(t, loses, door, worker.Options{}, countingBackend{&calls, func() (*backends.Result, error) {
				time.Sleep(200 * time.Millisecond) // as long as the call takes
				return &backends.Result{Structured: json.RawMessage(`{}`)}, nil
			}})
			started := startPaying(t, door, "1m")
			disturbActivity(t, c, started.ID, 2, disturb)
			var seq int64
			done := nextEvent(t, door, started.ID, &seq, runs.EventDone)
			if f := done.Outcome.Failure; f == nil || f.Error.Category != codes.CategoryOutcomeUnknown {
				t.Errorf("ended with %+v", done.Outcome)
			}
			if n := calls.Load(); n != 1 {
				t.Errorf("the unsafe tool was called %d times", n)
			}
		})
	}
}

// losesResult cannot encode the result of the first call.
type losesResult struct {
	converter.DataConverter
	calls *atomic.Int64
}

func (l losesResult) ToPayloads(values ...any) (*commonpb.Payloads, error) {
	for _, v := range values {
		if result, ok := v.(workflows.ToolResult); ok && result.Output != nil && l.calls.Load() == 1 {
			return nil, errors.New("the result is lost")
		}
	}
	return l.DataConverter.ToPayloads(values...)
}

// A disturbance does something to an activity at Temporal.
type disturbance func(ctx context.Context, s workflowservice.WorkflowServiceClient, x *commonpb.WorkflowExecution, activity string) error

func pauseActivity(ctx context.Context, s workflowservice.WorkflowServiceClient, x *commonpb.WorkflowExecution, activity string) error {
	_, err := s.PauseActivity(ctx, &workflowservice.PauseActivityRequest{
		Namespace: "default", Execution: x, Activity: &workflowservice.PauseActivityRequest_Id{Id: activity}})
	return err
}

func resetActivity(ctx context.Context, s workflowservice.WorkflowServiceClient, x *commonpb.WorkflowExecution, activity string) error {
	_, err := s.ResetActivity(ctx, &workflowservice.ResetActivityRequest{
		Namespace: "default", Execution: x, Activity: &workflowservice.ResetActivityRequest_Id{Id: activity}})
	return err
}

// disturbActivity does something to the one activity of a run, as soon as that has come to an
// attempt.
func disturbActivity(t *testing.T, c client.Client, id runs.RunID, attempt int32, do disturbance) {
	t.Helper()
	until(t, "the attempt", func() bool {
		d, err := c.DescribeWorkflowExecution(t.Context(), string(id), "")
		perduretest.NoError(t, err)
		p := d.PendingActivities
		if len(p) != 1 || p[0].Attempt != attempt {
			return false
		}
		perduretest.NoError(t, do(t.Context(), c.WorkflowService(), &commonpb.WorkflowExecution{WorkflowId: string(id)}, p[0].ActivityId))
		return true
	})
}
