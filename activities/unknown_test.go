package activities_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/activities"
	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/workflows"
)

// TestAttackDoubtOutlivesAttempts has a keyed call fail on its way, and then not be
// sent any more: what the last attempt came to does not make known what the first
// one did.
func TestAttackDoubtOutlivesAttempts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		effect definitions.Effect
		last   activities.LastAttempt
		want   bool
	}{
		"it may have been executed":  {definitions.Keyed, said(true, nil), true},
		"it was not":                 {definitions.Keyed, said(false, nil), false},
		"that cannot be read":        {definitions.Keyed, said(false, errors.New("away")), true},
		"repeating is harmless":      {definitions.Idempotent, said(true, nil), false},
		"an unsafe call is not sent": {definitions.Unsafe, said(true, nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			down := backend(func(_ context.Context, c backends.Call) (*backends.Result, error) {
				return nil, &backends.CallError{Backend: c.Backend, Tool: c.Tool, Outcome: backends.NotSent, Err: errors.New("refused")}
			})
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			activities.Register(env, activities.New(down, nil, activities.Options{LastAttempt: tc.last}))
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
					StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 2},
				})
				return workflow.ExecuteActivity(ctx, workflows.CallToolName, workflows.ToolCall{Tool: "be_put", Effect: tc.effect, MaxAttempts: 1}).Get(ctx, nil)
			})
			var app *temporal.ApplicationError
			var got workflows.Error
			if err := env.GetWorkflowError(); !errors.As(err, &app) {
				t.Fatal(err)
			}
			for app.Unwrap() != nil && !app.HasDetails() {
				errors.As(app.Unwrap(), &app)
			}
			if err := app.Details(&got); err != nil || got.Attempt != 2 || got.EarlierUnknown != tc.want {
				t.Errorf("%v: %+v; want earlier unknown: %t", err, got, tc.want)
			}
		})
	}
}

func said(mayHaveRun bool, err error) activities.LastAttempt {
	return func(context.Context, string, string, string) (bool, bool, error) { return true, mayHaveRun, err }
}

// TestCallsWaitForLargeValues: while large results cannot be stored, no call is sent, and
// no attempt counts as one that has taken its worker down.
func TestCallsWaitForLargeValues(t *testing.T) {
	t.Parallel()
	for _, effect := range []definitions.Effect{definitions.Read, definitions.Idempotent, definitions.Keyed, definitions.Unsafe} {
		for name, sent := range map[string]int{"from the first attempt on": 0, "after an attempt": 1} {
			t.Run(string(effect)+" "+name, func(t *testing.T) {
				t.Parallel()
				calls, looks := 0, 0
				refused := backend(func(_ context.Context, c backends.Call) (*backends.Result, error) {
					calls++
					return nil, &backends.CallError{Backend: c.Backend, Tool: c.Tool, Outcome: backends.NotSent, Err: errors.New("refused")}
				})
				a := activities.New(refused, nil, activities.Options{
					LastAttempt: func(context.Context, string, string, string) (bool, bool, error) {
						return effect == definitions.Unsafe, true, nil // its result was lost, but for an unsafe call
					},
					Keeps: func(context.Context) error {
						if looks++; looks > sent {
							return errors.New("the database is away")
						}
						return nil
					},
				})
				var suite testsuite.WorkflowTestSuite
				env := suite.NewTestWorkflowEnvironment()
				activities.Register(env, a)
				env.ExecuteWorkflow(func(ctx workflow.Context) error {
					ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
						StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 5},
					})
					return workflow.ExecuteActivity(ctx, workflows.CallToolName, workflows.ToolCall{Tool: "be_put", Effect: effect, MaxAttempts: 1}).Get(ctx, nil)
				})
				var app *temporal.ApplicationError
				var failure workflows.Error
				var hold workflows.Hold
				if err := env.GetWorkflowError(); !errors.As(err, &app) {
					t.Fatal(err)
				}
				for app.Unwrap() != nil && !app.HasDetails() {
					errors.As(app.Unwrap(), &app)
				}
				if err := app.Details(&failure, &hold); err != nil || hold.Why != workflows.HeldByPayload || calls != sent {
					t.Errorf("sent %d times, and then %+v, held by %q, %v", calls, failure, hold.Why, err)
				}
				if want := effect == definitions.Keyed && sent > 0; failure.EarlierUnknown != want {
					t.Errorf("executed by an attempt before: %t", failure.EarlierUnknown)
				}
			})
		}
	}
}
