package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/activities"
	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows"
)

// TestAttackCallDecidedLongAgo: a worker that was held up after it had taken up a
// workflow task, such as by a machine that stood still, has its run call a tool that
// the run, stopped meanwhile, does not want any more. The call asks before it is sent,
// and the run makes it anew if it still wants it. Reads and calls of just now do not.
func TestAttackCallDecidedLongAgo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // whose clock does not advance while a test computes
		for _, tc := range []struct {
			effect definitions.Effect
			ago    time.Duration
			held   bool
		}{
			{definitions.Unsafe, 2 * time.Second, true},
			{definitions.Keyed, 2 * time.Second, true},
			{definitions.Read, 2 * time.Second, false},
			{definitions.Unsafe, 0, false},
		} {
			sent := false
			b := checking(func() { sent = true })
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			activities.Register(env, activities.New(b, nil, activities.Options{CatchUp: func(context.Context, string, time.Time, *activity.Info) (bool, error) {
				return false, context.DeadlineExceeded
			}}))
			_, err := env.ExecuteActivity(workflows.CallToolName, workflows.ToolCall{
				StepPath: "s", Tool: "be_put", Effect: tc.effect, Decided: time.Now().Add(-tc.ago)})
			var app *temporal.ApplicationError
			held := errors.As(err, &app) && app.NonRetryable() && app.Type() == string(codes.CategoryHeld)
			if held != tc.held || sent == tc.held {
				t.Errorf("%s, decided %s ago: held %t, sent %t, %v", tc.effect, tc.ago, held, sent, err)
			}
		}
	})
}

// checking is a backend whose calls ask whether they may be sent, and are sent if so.
func checking(sent func()) backend {
	return func(ctx context.Context, c backends.Call) (*backends.Result, error) {
		if err := c.MaySend(ctx); err != nil {
			return nil, &backends.CallError{Backend: c.Backend, Tool: c.Tool, Outcome: backends.NotSent, Err: err}
		}
		sent()
		return &backends.Result{Structured: json.RawMessage(`{}`)}, nil
	}
}

// TestAttackCallBelowAStoppedRun: a run is stopped while no worker executes it. A call
// of a run that it has called asks, however soon it is sent, what the run above saw a
// while ago; reads and what undoes do not. A wait for the run above makes the call ask
// for its own run as well.
func TestAttackCallBelowAStoppedRun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		effect definitions.Effect
		parent string
		behind string // which run does not see in time
		takes  time.Duration
		asked  []string
		sent   bool
	}{
		"seen":         {effect: definitions.Unsafe, parent: "above", asked: []string{"above"}, sent: true},
		"not seen":     {effect: definitions.Unsafe, parent: "above", behind: "above", asked: []string{"above"}},
		"seen at last": {effect: definitions.Idempotent, parent: "above", takes: 200 * time.Millisecond, behind: "run", asked: []string{"above", "run"}},
		"read":         {effect: definitions.Read, parent: "above", sent: true},
		"none above":   {effect: definitions.Unsafe, sent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				sent := false
				b := checking(func() { sent = true })
				var asked []string
				catchUp := func(_ context.Context, run string, at time.Time, _ *activity.Info) (bool, error) {
					if ago := time.Since(at); run == "above" && (ago < 400*time.Millisecond || ago > 5*time.Second) || run == "run" && !at.IsZero() {
						t.Errorf("of %s was asked what it had seen %s ago", run, ago)
					}
					asked = append(asked, run)
					time.Sleep(tc.takes)
					if run == tc.behind {
						return false, context.DeadlineExceeded
					}
					return true, nil
				}
				var suite testsuite.WorkflowTestSuite
				env := suite.NewTestActivityEnvironment()
				activities.Register(env, activities.New(b, nil, activities.Options{CatchUp: catchUp}))
				_, err := env.ExecuteActivity(workflows.CallToolName, workflows.ToolCall{
					RunID: "run", StepPath: "s", Tool: "be_put", Effect: tc.effect, Decided: time.Now(), Parent: tc.parent})
				if diff := cmp.Diff(tc.asked, asked); diff != "" || sent != tc.sent || sent != (err == nil) {
					t.Errorf("sent %t, %v; asked (-want +got):\n%s", sent, err, diff)
				}
				var app *temporal.ApplicationError
				var e workflows.Error
				var h workflows.Hold
				if !tc.sent && (!errors.As(err, &app) || app.Details(&e, &h) != nil || h.Why != workflows.HeldByParent) {
					t.Errorf("got %v, %+v", err, h)
				}
			})
		})
	}
}

// A standstill holds a process up between the moment in which Temporal has handed
// out an activity and the one in which the process begins with it.
type standstill struct {
	interceptor.WorkerInterceptorBase
	interceptor.ActivityInboundInterceptorBase
	lasts time.Duration
}

func (s *standstill) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	s.Next = next
	return s
}

func (s *standstill) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	time.Sleep(s.lasts)
	return s.Next.ExecuteActivity(ctx, in)
}

// TestAttackStandstill: a worker stands still, or its connection does, while Temporal
// hands it a call; the run is stopped, and then the worker continues. The call asks
// before it is sent. One that comes as soon as others does not.
func TestAttackStandstill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sent, asked := 0, 0
		all := activities.New(checking(func() { sent++ }), nil, activities.Options{CatchUp: func(context.Context, string, time.Time, *activity.Info) (bool, error) {
			asked++
			return false, context.DeadlineExceeded
		}})
		for _, tc := range []struct {
			effect definitions.Effect
			lasts  time.Duration
			asks   bool
		}{
			{definitions.Unsafe, 2 * time.Second, true}, // the first of the process
			{definitions.Unsafe, 0, false},
			{definitions.Unsafe, 20 * time.Millisecond, false},
			{definitions.Unsafe, 2 * time.Second, true},
			{definitions.Keyed, 2 * time.Second, true},
			{definitions.Read, 2 * time.Second, false},
			{definitions.Unsafe, 5 * time.Millisecond, false},
		} {
			sent, asked = 0, 0
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&standstill{lasts: tc.lasts}}})
			activities.Register(env, all)
			_, err := env.ExecuteActivity(workflows.CallToolName, workflows.ToolCall{StepPath: "s", Tool: "be_put", Effect: tc.effect, Decided: time.Now()})
			if (asked > 0) != tc.asks || (sent == 0) != tc.asks {
				t.Errorf("%s after %s: asked %d times, sent %d times, %v", tc.effect, tc.lasts, asked, sent, err)
			}
		}
	})
}

// TestAttackStandstillOfTemporal: Temporal stands still when the time of a run is over, and
// hands out a call before it says so. It is not sent, though the run has seen all that
// Temporal knows; nor is one during whose wait the time is over.
func TestAttackStandstillOfTemporal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sent := false
		all := activities.New(checking(func() { sent = true }), nil, activities.Options{CatchUp: func(context.Context, string, time.Time, *activity.Info) (bool, error) { return true, nil }})
		for _, tc := range []struct {
			effect definitions.Effect
			ends   time.Duration
			lasts  time.Duration
			sent   bool
		}{
			{definitions.Unsafe, -time.Second, 0, false},
			{definitions.Idempotent, -time.Second, 0, false},
			{definitions.Keyed, time.Second, 2 * time.Second, false},
			{definitions.Unsafe, 3 * time.Second, 2 * time.Second, true},
			{definitions.Read, -time.Second, 0, true},
		} {
			sent = false
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&standstill{lasts: tc.lasts}}})
			activities.Register(env, all)
			_, err := env.ExecuteActivity(workflows.CallToolName, workflows.ToolCall{
				RunID: "run", StepPath: "s", Tool: "be_put", Effect: tc.effect, Parent: "above", Decided: time.Now(), Ends: time.Now().Add(tc.ends)})
			var app *temporal.ApplicationError
			var e workflows.Error
			var h workflows.Hold
			held := errors.As(err, &app) && app.Details(&e, &h) == nil && h.Why == workflows.HeldByParent
			if sent != tc.sent || held == tc.sent {
				t.Errorf("%s, over after %s, began after %s: sent %t, %v", tc.effect, tc.ends, tc.lasts, sent, err)
			}
		}
	})
}
