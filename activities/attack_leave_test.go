package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

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
		b := backend(func(ctx context.Context, c backends.Call) (*backends.Result, error) {
			if err := c.Leaving(ctx); err != nil {
				return nil, &backends.CallError{Backend: c.Backend, Tool: c.Tool, Outcome: backends.NotSent, Err: err}
			}
			sent = true
			return &backends.Result{Structured: json.RawMessage(`{}`)}, nil
		})
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestActivityEnvironment()
		activities.Register(env, activities.New(b, nil).CatchUp(func(context.Context, string) error { return context.DeadlineExceeded }))
		_, err := env.ExecuteActivity(workflows.CallToolName, workflows.ToolCall{
			StepPath: "s", Tool: "be_put", Effect: tc.effect, Decided: time.Now().Add(-tc.ago)})
		var app *temporal.ApplicationError
		held := errors.As(err, &app) && app.NonRetryable() && app.Type() == string(codes.CategoryHeld)
		if held != tc.held || sent == tc.held {
			t.Errorf("%s, decided %s ago: held %t, sent %t, %v", tc.effect, tc.ago, held, sent, err)
		}
	}
}
