package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/workflows"
)

// inTurn makes a call when its backend's limits allow it. Its timeout begins then; before,
// it sends no heartbeats.
func (a *Activities) inTurn(ctx context.Context, attempt workflows.Attempt, check *sendCheck, alive func() (stop func()), call backends.Call) (*backends.Result, error) {
	if a.line == nil {
		return a.backends.Call(ctx, call)
	}
	pass, held, err := a.line.Enter(ctx, attempt.Call.Caller.Subject, attempt.Call.RunID+" "+attempt.Call.IdempotencyKey, activity.GetWorkerStopChannel(ctx))
	switch {
	case err != nil:
		return nil, &backends.CallError{Backend: call.Backend, Tool: call.Tool, Outcome: backends.NotSent, Err: err}
	case pass == nil:
		return nil, &heldError{held}
	}
	defer pass.End(backends.NoVerdict) // unless it has ended already
	if err := check.announce(ctx); errors.Is(err, errForgotten) {
		return nil, err
	} else if err != nil {
		var unseen *heldError
		if !errors.As(err, &unseen) { // it could not be recorded with Temporal
			unseen = &heldError{backends.HeldBack{After: presence}}
		}
		return nil, unseen
	}
	stop := alive()
	defer stop()
	if attempt.Call.Limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, attempt.Call.Limit, errTimeUp)
		defer cancel()
	}
	res, err := a.backends.Call(ctx, call)
	var unwanted *heldError
	if errors.As(err, &unwanted) {
		return nil, err
	}
	if notSent(err) && ctx.Err() == nil {
		if held, again := pass.NotSent(); again {
			return nil, &heldError{held}
		}
	}
	pass.End(verdict(ctx, err))
	if errors.Is(context.Cause(ctx), errTimeUp) && mayHaveHappened(err) {
		err = errTimeUp
	}
	return res, err
}

func notSent(err error) bool {
	var ce *backends.CallError
	return errors.As(err, &ce) && ce.Outcome == backends.NotSent
}

func mayHaveHappened(err error) bool {
	var ce *backends.CallError
	return err != nil && (!errors.As(err, &ce) || ce.Outcome == backends.Unknown)
}

// errTimeUp is the error of a call of a limited backend at the timeout of its step.
var errTimeUp = errors.New("the time of the step is up")

// A heldError reports that a call was not made, and when to try again.
type heldError struct{ backends.HeldBack }

func (e *heldError) Error() string { return "held by " + e.Why }

func (e *heldError) hold() workflows.Hold {
	return workflows.Hold{Why: e.Why, Pause: e.After}
}

// verdict is the evidence of a call about its backend. Any answer shows that it works; a
// cancelled call shows nothing.
func verdict(ctx context.Context, err error) backends.Verdict {
	var ce *backends.CallError
	switch {
	case err == nil:
		return backends.Answered
	case errors.Is(ctx.Err(), context.Canceled):
		return backends.NoVerdict
	case errors.As(err, &ce) && ce.Outcome == backends.Refused:
		return backends.Answered
	case errors.As(err, &ce) && ce.Outcome == backends.CredentialsNeeded:
		return backends.NoVerdict
	}
	return backends.Failed
}

// admit lends a pass for a call that another process makes.
func (a *Activities) admit(ctx context.Context, p workflows.PermitRequest) (*workflows.Hold, error) {
	if p.Renew {
		a.line.Renew(p.Ticket, workflows.PermitLasts)
		return nil, nil
	}
	held, err := a.line.Lend(ctx, p.Caller, p.Ticket, workflows.PermitLasts, activity.GetWorkerStopChannel(ctx))
	if held == nil || err != nil {
		return nil, err
	}
	return &workflows.Hold{Why: held.Why, Pause: held.After}, nil
}

// release ends a lent pass.
func (a *Activities) release(_ context.Context, p workflows.PermitRequest) (*workflows.Hold, error) {
	a.line.Return(p.Ticket, map[string]backends.Verdict{
		workflows.CallAnswered: backends.Answered, workflows.CallFailed: backends.Failed,
	}[p.Outcome])
	return nil, nil
}

// registerInTurn makes a worker execute the calls of one backend within its
// limits.
func registerInTurn(w worker.ActivityRegistry, a Activities, line *backends.Line) {
	a.line = line
	Register(w, &a)
	w.RegisterActivityWithOptions(a.admit, activity.RegisterOptions{Name: workflows.AdmitName})
	w.RegisterActivityWithOptions(a.release, activity.RegisterOptions{Name: workflows.ReleaseName})
}

// Verdict is the evidence of this process's call about its backend, as a value of
// PermitRequest.
func Verdict(ctx context.Context, err error) string {
	switch verdict(ctx, err) {
	case backends.Answered:
		return workflows.CallAnswered
	case backends.Failed:
		return workflows.CallFailed
	}
	return ""
}

// A lease is the time for which this process may apply the limits of a backend, until
// another might. It ends in time even if the machine sleeps, which stops one of its
// clocks.
type lease struct {
	from time.Time // monotonic and wall clock
	last time.Duration
}

func (l lease) holds(now time.Time) bool {
	return now.Sub(l.from) < l.last && now.Round(0).Sub(l.from.Round(0)) < l.last
}
