package credentials

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/perdure/perdure/internal/backends"
)

const (
	// renewBefore is when a token is renewed before it expires, but not before four
	// fifths of its life.
	renewBefore = 30 * time.Second
	// distrust is how long a refused replacement of a refused token is not replaced
	// again: the backend does not take such tokens.
	distrust = time.Minute
)

// good reports whether a token can still be used at a time.
func good(issued, expires, now time.Time) bool {
	if expires.IsZero() {
		return true
	}
	return now.Before(expires.Add(-min(renewBefore, expires.Sub(issued)/5)))
}

// own are client credentials: a token of perdure's own, the same for everybody.
type own struct {
	broker *Broker
	client Client

	mu       sync.Mutex // held during requests to the token endpoint
	token    token
	issued   time.Time
	replaced bool // the token before was refused
}

// Identity implements backends.Credentials.
func (*own) Identity(backends.Caller) string { return "" }

// Headers implements backends.Credentials.
func (o *own) Headers(ctx context.Context, _ backends.Caller, refused backends.Headers) (backends.Headers, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.broker.now()
	isRefused := o.token.access != "" && sent(refused, o.token.access)
	switch {
	case isRefused && o.replaced && now.Sub(o.issued) < distrust:
		o.token = token{}
		return nil, &backends.CredentialsError{Reason: "the backend refuses the tokens of client " + o.client.ID + ": see that its scopes and audience are those that the backend wants"}
	case o.token.access != "" && !isRefused && good(o.issued, o.token.expires, now):
		return bearer(o.token.access), nil
	}
	t, err := o.broker.ownToken(ctx, o.client)
	var no *refusal
	if errors.As(err, &no) {
		err = &backends.CredentialsError{Reason: "a token for client " + o.client.ID + ": " + no.Error()}
	}
	if err != nil {
		return nil, o.broker.passing(ctx, err)
	}
	o.token, o.issued, o.replaced = t, now, isRefused
	return bearer(t.access), nil
}
