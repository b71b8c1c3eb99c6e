package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/limits"
	"github.com/perdure/perdure/workflows"
)

// inTurn makes a call when its backend's limits let it. Its time begins then,
// and nothing but leaving tells Temporal of it before, not even that it is alive.
func (a *Activities) inTurn(ctx context.Context, attempt workflows.Attempt, departs *departure, alive func() (stop func()), call backends.Call) (*backends.Result, error) {
	if a.line == nil {
		return a.backends.Call(ctx, call)
	}
	pass, held, err := a.line.Enter(ctx, attempt.Call.RunID+" "+attempt.Call.IdempotencyKey, activity.GetWorkerStopChannel(ctx))
	switch {
	case err != nil:
		return nil, &backends.CallError{Backend: call.Backend, Tool: call.Tool, Outcome: backends.NotSent, Err: err}
	case pass == nil:
		return nil, &heldError{held}
	}
	defer pass.End(limits.NoVerdict) // if nothing else was said
	if err := departs.inTurn(ctx); err != nil {
		return nil, &heldError{limits.Held{After: presence}}
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

// errTimeUp is the error of a call of a backend with limits that has used the
// time of its step.
var errTimeUp = errors.New("the time of the step is up")

// A heldError says that a call was not made, and when it may be.
type heldError struct{ limits.Held }

func (e *heldError) Error() string { return "held by " + e.Why }

func (e *heldError) hold() workflows.Hold {
	return workflows.Hold{Why: e.Why, Pause: e.After}
}

// verdict is what the end of a call says about its backend. An answer of any
// kind says that it is well; one that was not waited for says nothing.
func verdict(ctx context.Context, err error) limits.Outcome {
	var ce *backends.CallError
	switch {
	case err == nil:
		return limits.Answered
	case errors.Is(ctx.Err(), context.Canceled):
		return limits.NoVerdict
	case errors.As(err, &ce) && ce.Outcome == backends.Refused:
		return limits.Answered
	case errors.As(err, &ce) && ce.Outcome == backends.CredentialsNeeded:
		return limits.NoVerdict
	}
	return limits.Failed
}

// admit lends a pass for a call that another process makes.
func (a *Activities) admit(ctx context.Context, p workflows.PermitRequest) (*workflows.Hold, error) {
	if p.Renew {
		a.line.Renew(p.Ticket, workflows.PermitLasts)
		return nil, nil
	}
	held, err := a.line.Lend(ctx, p.Ticket, workflows.PermitLasts, activity.GetWorkerStopChannel(ctx))
	if held == nil || err != nil {
		return nil, err
	}
	return &workflows.Hold{Why: held.Why, Pause: held.After}, nil
}

// release takes a pass back that was lent.
func (a *Activities) release(_ context.Context, p workflows.PermitRequest) (*workflows.Hold, error) {
	a.line.Return(p.Ticket, map[string]limits.Outcome{
		workflows.CallAnswered: limits.Answered, workflows.CallFailed: limits.Failed,
	}[p.Outcome])
	return nil, nil
}

// registerInTurn makes a worker execute the calls of one backend within its
// limits.
func registerInTurn(w worker.ActivityRegistry, a Activities, line *limits.Line) {
	a.line = line
	Register(w, &a)
	w.RegisterActivityWithOptions(a.admit, activity.RegisterOptions{Name: workflows.AdmitName})
	w.RegisterActivityWithOptions(a.release, activity.RegisterOptions{Name: workflows.ReleaseName})
}

// Verdict is what the end of a call that this process makes says about its
// backend, in the words of a PermitRequest.
func Verdict(ctx context.Context, err error) string {
	switch verdict(ctx, err) {
	case limits.Answered:
		return workflows.CallAnswered
	case limits.Failed:
		return workflows.CallFailed
	}
	return ""
}

// A lease says for how long this process may take it that it keeps the limits
// of a backend: until another might. Clocks that stand still while the machine
// sleeps do not make it longer.
type lease struct {
	from time.Time // monotonic and wall clock
	last time.Duration
}

func (l lease) holds(now time.Time) bool {
	return now.Sub(l.from) < l.last && now.Round(0).Sub(l.from.Round(0)) < l.last
}
