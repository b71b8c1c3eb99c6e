package backends

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// call makes one call. It is repeated once on a new session if the session had ended, and
// with renewed credentials if they were refused: in both cases it was not executed.
func (b *backend) call(ctx context.Context, c Call) (*Result, error) {
	var refused Headers
	for renewals, resumed := 0, false; ; {
		headers, err := b.headersFor(ctx, c.Caller, refused)
		if err != nil {
			return nil, notCalled(c, err)
		}
		s, err := b.acquire(ctx, c.Caller)
		if err != nil {
			return nil, notCalled(c, err)
		}
		if err := c.maySend(ctx); err != nil {
			b.sessions.release(s)
			return nil, notCalled(c, err)
		}
		result, x, err := s.call(ctx, c, headers)
		if err == nil {
			b.sessions.release(s)
			return b.answered(ctx, c, x, headers, result)
		}
		x.held.end()
		gone := ctx.Err() == nil && s.sessionGone(x, err)
		b.sessions.release(s)
		if gone {
			b.sessions.drop(s)
		}
		unauthorized := b.cfg.Credentials != nil && x.unauthorized()
		switch {
		case gone && !resumed && !s.mayBeTools(x):
			resumed = true
		case unauthorized && renewals == maxRenewals:
			return nil, notCalled(c, errStillRefused)
		case unauthorized:
			renewals, refused = renewals+1, orNone(headers)
		default:
			return nil, b.failed(ctx, c, x, b.cfg.secretsOf(c, headers).hide(err))
		}
	}
}

// answered hands on what a backend has answered; the errors of tools show no secrets.
func (b *backend) answered(ctx context.Context, c Call, x *exchange, headers Headers, result *Result) (*Result, error) {
	if result.IsError {
		defer x.held.end()
		return b.cfg.secretsOf(c, headers).hideIn(result)
	}
	keep(ctx, x.held)
	return result, nil
}

// maySend reports why a call must no longer be sent: its context has ended, or MaySend
// refuses it.
func (c Call) maySend(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if c.MaySend == nil {
		return nil
	}
	return c.MaySend(ctx)
}

// notCalled is the error of a call that did not reach its backend's tool.
func notCalled(c Call, err error) error {
	outcome := NotSent
	var needed *CredentialsError
	if errors.As(err, &needed) {
		outcome = CredentialsNeeded
	}
	return &CallError{Backend: c.Backend, Tool: c.Tool, Outcome: outcome, Err: err}
}

// failed makes the error of a call, and wakes the supervisor if the backend seems to be
// unavailable.
func (b *backend) failed(ctx context.Context, c Call, x *exchange, err error) error {
	outcome := x.outcome()
	if errors.Is(err, errInputRequired) || errors.Is(err, errAsksForEver) {
		outcome = Refused
	}
	if outcome != Refused && ctx.Err() == nil {
		b.wake()
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	away, after := x.away()
	if after > 0 {
		err = fmt.Errorf("%w; the backend asks not to be called for %s", err, after.Round(time.Second))
	}
	return &CallError{Backend: c.Backend, Tool: c.Tool, Outcome: outcome, Err: err, Away: away, RetryAfter: after}
}

// acquire takes the session for a call; release returns it.
func (b *backend) acquire(ctx context.Context, who Caller) (*session, error) {
	if identity := b.identityOf(who); identity != "" {
		return b.sessions.visit(ctx, identity, who)
	}
	return b.acquireShared(ctx)
}

// awaitTools waits for the tools of a backend that has not answered yet, as long as
// acquireShared waits for a session, and reports whether they are known.
func (b *backend) awaitTools(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, acquireTimeout)
	defer cancel()
	for range 2 { // the current try may have begun before the credentials came
		tried := b.sessions.trying()
		select {
		case <-b.health.wasUp:
			return true
		default:
			b.wake()
		}
		if !b.awaitTry(ctx, tried) {
			return b.offered() != nil
		}
		if b.offered() != nil {
			return true
		}
	}
	return false
}

// awaitTry waits for the end of a try to connect, after which what it has listed is
// published, for as long as a call does, and reports whether it has come.
func (b *backend) awaitTry(ctx context.Context, tried <-chan struct{}) bool {
	timer := time.NewTimer(b.health.patience())
	defer timer.Stop()
	select {
	case <-tried:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// acquireShared takes the shared session. Without one it waits for the next try to
// connect.
func (b *backend) acquireShared(ctx context.Context) (*session, error) {
	s, tried := b.sessions.take()
	if s != nil {
		return s, nil
	}
	b.wake()
	if !b.awaitTry(ctx, tried) && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if s, _ = b.sessions.take(); s != nil {
		return s, nil
	}
	if b.sessions.isStopped() {
		return nil, errClosed
	}
	return nil, b.health.reason()
}
