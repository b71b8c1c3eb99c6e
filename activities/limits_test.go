package activities

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/workflows"
)

// behind is a run that does not see in time what has happened.
func behind(context.Context, string, time.Time, *activity.Info) (bool, error) {
	return false, context.DeadlineExceeded
}

type neverCalled struct{ t *testing.T }

func (n neverCalled) Call(context.Context, backends.Call) (*backends.Result, error) {
	n.t.Error("the call was made")
	return nil, errors.New("it was made")
}

// TestLimitedCallBelowAStoppedRun: a call of a backend with limits whose run above has not
// seen what happened is held as any other, so that its run shows for what it waits.
func TestLimitedCallBelowAStoppedRun(t *testing.T) {
	t.Parallel()
	a := New(neverCalled{t}, nil, Options{CatchUp: behind})
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	registerInTurn(env, *a, backends.NewLine(backends.Limits{}, nil, time.Time{}))
	_, err := env.ExecuteActivity(workflows.CallToolName, workflows.ToolCall{
		RunID: "run", StepPath: "s", Tool: "be_put", Effect: definitions.Unsafe, Decided: time.Now(), Parent: "above"})
	var app *temporal.ApplicationError
	var e workflows.Error
	var h workflows.Hold
	if !errors.As(err, &app) || app.Details(&e, &h) != nil || h.Why != workflows.HeldByParent {
		t.Errorf("got %v, %+v", err, h)
	}
}
