package activities_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"testing"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/activities"
	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows"
)

// How often a call is repeated depends on what its attempts come to: without end where
// nothing was sent or somebody reports that the backend is unavailable, a few times
// where it is lost or takes its worker down.
func TestAttemptsOfACall(t *testing.T) {
	t.Parallel()
	notSent := backends.CallError{Outcome: backends.NotSent, Err: errors.New("connection refused")}
	away := backends.CallError{Outcome: backends.Unknown, Away: true, Err: errors.New("HTTP status 503")}
	lost := backends.CallError{Outcome: backends.Unknown, Err: errors.New("EOF")}
	repeat := func(e backends.CallError, times int) (list []backends.CallError) {
		for range times {
			list = append(list, e)
		}
		return list
	}
	for name, tc := range map[string]struct {
		effect definitions.Effect
		comes  []backends.CallError // to what each attempt comes; those after it complete
		last   activities.LastAttempt
		made   int
		code   codes.Code // "" = it completes
	}{
		"not sent":                         {definitions.Unsafe, repeat(notSent, 20), saidUnsent, 21, ""},
		"away":                             {definitions.Idempotent, repeat(away, 20), said(true, nil), 21, ""},
		"away, of an unsafe tool":          {definitions.Unsafe, repeat(away, 1), saidUnsent, 1, codes.ConnectionLost},
		"lost":                             {definitions.Read, repeat(lost, 20), said(true, nil), 4, codes.ConnectionLost},
		"lost, of an unsafe tool":          {definitions.Unsafe, repeat(lost, 1), saidUnsent, 1, codes.ConnectionLost},
		"not sent, then lost":              {definitions.Read, append(repeat(notSent, 9), lost), saidUnsent, 11, ""},
		"its workers die":                  {definitions.Idempotent, repeat(away, 20), lostWithItsWorker, 4, codes.WorkerLost},
		"its workers die, of a keyed tool": {definitions.Keyed, repeat(away, 20), lostWithItsWorker, 4, codes.WorkerLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made := 0
			b := backend(func(_ context.Context, c backends.Call) (*backends.Result, error) {
				if made++; made > len(tc.comes) {
					return &backends.Result{}, nil
				}
				e := tc.comes[made-1]
				e.Backend, e.Tool = c.Backend, c.Tool
				return nil, &e
			})
			err := repeated(t, activities.New(b, nil, activities.Options{LastAttempt: tc.last}), tc.effect, time.Hour)
			if made != tc.made || codeOf(err) != tc.code {
				t.Errorf("%d attempts, %v; want %d, %q", made, err, tc.made, tc.code)
			}
		})
	}
}

// A backend that says for how long it is not to be called is left alone for as
// long, and a step that has less time fails at once.
func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	for limit, code := range map[time.Duration]codes.Code{time.Minute: "", 20 * time.Second: codes.BackendUnavailable} {
		var at []time.Time
		b := backend(func(ctx context.Context, c backends.Call) (*backends.Result, error) {
			if at = append(at, time.Now()); len(at) > 1 {
				return &backends.Result{}, nil
			}
			return nil, &backends.CallError{Outcome: backends.NotSent, Away: true, RetryAfter: 30 * time.Second, Err: errors.New("HTTP status 429")}
		})
		if err := repeated(t, activities.New(b, nil, activities.Options{LastAttempt: saidUnsent}), definitions.Unsafe, limit); codeOf(err) != code {
			t.Errorf("with %s: %v, want %q", limit, err, code)
		}
		if want := map[codes.Code]int{"": 2, codes.BackendUnavailable: 1}[code]; len(at) != want {
			t.Errorf("with %s: %d attempts, want %d", limit, len(at), want)
		}
	}
}

// A run is to show that it waits for a backend which cannot be reached for some time.
func TestUnreachableIsShown(t *testing.T) {
	t.Parallel()
	b := backend(func(context.Context, backends.Call) (*backends.Result, error) {
		return nil, &backends.CallError{Outcome: backends.NotSent, Away: true, RetryAfter: 30 * time.Second, Err: errors.New("HTTP status 429")}
	})
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	activities.Register(env, activities.New(b, nil, activities.Options{LastAttempt: saidUnsent}))
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{ScheduleToCloseTimeout: time.Minute})
		return workflow.ExecuteActivity(ctx, workflows.CallToolName, workflows.ToolCall{Tool: "be_put"}).Get(ctx, nil)
	})
	var app *temporal.ApplicationError
	var e workflows.Error
	var h workflows.Hold
	if err := env.GetWorkflowError(); !errors.As(err, &app) || app.Details(&e, &h) != nil {
		t.Fatalf("the call failed with %v", err)
	}
	if (h != workflows.Hold{Why: workflows.HeldByBackend, Pause: 30 * time.Second}) || e.Code != codes.BackendUnavailable || e.Category != codes.CategoryHeld {
		t.Errorf("got %+v, %+v", e, h)
	}
}

// repeated makes a call as a run does that shows that it waits, with so much time.
func repeated(t *testing.T, a *activities.Activities, effect definitions.Effect, limit time.Duration) error {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	activities.Register(env, a)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			ScheduleToCloseTimeout: limit, RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: math.MaxInt32},
		})
		return workflow.ExecuteActivity(ctx, workflows.CallToolName, workflows.ToolCall{Tool: "be_put", Effect: effect, MaxAttempts: 1, Waits: true}).Get(ctx, nil)
	})
	return env.GetWorkflowError()
}

// codeOf is the code of the failure of a call; "" = there is none.
func codeOf(err error) codes.Code {
	var got workflows.Error
	for ; err != nil; err = errors.Unwrap(err) {
		var app *temporal.ApplicationError
		if errors.As(err, &app) && app.HasDetails() && app.Details(&got) == nil {
			break
		}
	}
	return got.Code
}

func saidUnsent(context.Context, string, string, string) (known, mayHaveRun bool, err error) {
	return true, false, nil
}

func lostWithItsWorker(context.Context, string, string, string) (known, mayHaveRun bool, err error) {
	return false, true, nil
}
