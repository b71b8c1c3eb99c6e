package workflows

import (
	"errors"
	"math"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
)

// The pauses between the attempts of a call.
const (
	// steadyDelay is the first pause before a call is repeated if onError sets none;
	// those after it grow.
	steadyDelay = 250 * time.Millisecond

	retryFactor  = 1.5
	maxRetryWait = 60 // times the first delay
)

// worthAnActivity reports whether a read that failed inside the workflow task failed
// for a reason that an activity of its own can overcome.
func worthAnActivity(err error) bool {
	var te *temporal.TimeoutError
	if errors.As(err, &te) {
		return true
	}
	var ae *temporal.ApplicationError
	return errors.As(err, &ae) && !ae.NonRetryable()
}

// attempts is how often onError lets a call be made that fails with an answer.
func attempts(e *definitions.OnError) int {
	if e == nil || e.Action != definitions.Retry {
		return 1
	}
	return min(e.RetryCount, definitions.MaxRetries) + 1
}

// retryPolicy lets Temporal repeat what the activity calls repeatable: until the time
// of the step is up, unless onError gives a number. On an unsafe tool an unanswered
// call, after a timeout or the death of its worker, is never repeated. used attempts
// were made before.
func retryPolicy(e *definitions.OnError, effect definitions.Effect, used int) *temporal.RetryPolicy {
	p := &temporal.RetryPolicy{
		InitialInterval:    steadyDelay,
		BackoffCoefficient: retryFactor,
		MaximumAttempts:    math.MaxInt32, // 0 would be 10 in Temporal's test environment
	}
	if e != nil && e.Action == definitions.Retry {
		p.MaximumAttempts = int32(max(attempts(e)-used, 1))
		p.InitialInterval = time.Duration(e.RetryDelay)
		if p.InitialInterval == 0 {
			p.InitialInterval = definitions.DefaultRetryDelay
		}
	}
	p.MaximumInterval = maxRetryWait * min(p.InitialInterval, math.MaxInt64/maxRetryWait)
	if !Repeatable(effect) {
		p.NonRetryableErrorTypes = []string{"TemporalTimeout:StartToClose", "TemporalTimeout:Heartbeat"}
	}
	return p
}

// Repeatable reports whether a call of a tool of this class may be repeated when its
// outcome is not known.
func Repeatable(e definitions.Effect) bool {
	switch e {
	case definitions.Read, definitions.Idempotent, definitions.Keyed:
		return true
	}
	return false
}

// pauseAsAsked waits as long as the backend asked for when it turned a call down.
func pauseAsAsked(ctx workflow.Context, q request, err error) error {
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.NextRetryDelay() <= 0 {
		return nil
	}
	if app.NextRetryDelay() >= q.left() {
		return err
	}
	return workflow.NewTimerWithOptions(ctx, app.NextRetryDelay(), workflow.TimerOptions{
		Summary: Summary(q.path, q.tool.Backend+" takes no calls until then"),
	}).Get(ctx, nil)
}
