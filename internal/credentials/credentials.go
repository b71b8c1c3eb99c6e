// Package credentials provides the credentials that a backend requires of its
// callers.
//
// Each backend has a Strategy. A static header and client credentials (RFC 6749
// section 4.4) are the same for everybody. Token exchange (RFC 8693) and
// pass-through come from the caller: a request of the caller leaves a grant in
// the store (Deposit), and the runs that the caller has started use it up, maybe
// in another process, long after the request.
//
// Secrets are in memory, sealed in the store, and on their way to the token
// endpoint and the backend; they are nowhere else. No error holds one.
package credentials

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/store"
)

// A Strategy is how calls of one backend are authenticated: by one of the
// fields, or not at all.
type Strategy struct {
	Header            *Header
	ClientCredentials *ClientCredentials
	TokenExchange     *TokenExchange
	// PassThrough sends the caller's own token on. MCP forbids it where the
	// token was not issued for the backend as well.
	PassThrough bool
}

// PerCaller reports whether the credentials come from the caller.
func (s Strategy) PerCaller() bool { return s.TokenExchange != nil || s.PassThrough }

// A Header is sent with every request.
type Header struct {
	Name  string
	Value Source
}

// A Source is where a secret is: one of its fields is set.
type Source struct {
	Inline backends.Secret
	Env    string // name of an environment variable
	File   string // read again for every request; white space around the secret does not count
}

// A Client is an OAuth client of perdure's at a token endpoint.
type Client struct {
	TokenURL string
	ID       string
	Secret   Source // empty = a public client
	Scopes   []string
	Audience string
}

// ClientCredentials are a token that the client gets for itself.
type ClientCredentials struct{ Client }

// A TokenExchange is a token that the client gets for the caller's.
type TokenExchange struct {
	Client
	// SubjectTokenType and RequestedTokenType are URIs of RFC 8693 section 3;
	// "" = access tokens.
	SubjectTokenType   string
	RequestedTokenType string
}

// A Broker has the credentials of all backends.
type Broker struct {
	strategies map[string]Strategy
	grants     store.Grants
	http       *http.Client
	log        *slog.Logger
	now        func() time.Time

	mu       sync.Mutex
	perCall  map[string]backends.Credentials // by backend
	cache    map[store.Key]grant
	tried    map[store.Key]try
	deposits func(backend string)
}

// Options of a broker.
type Options struct {
	Strategies map[string]Strategy // by backend; none = unauthenticated
	// Grants keep what callers leave. Required if a strategy is PerCaller.
	Grants store.Grants
	// Transport is that of requests to token endpoints. nil = the usual one.
	Transport http.RoundTripper
	Logger    *slog.Logger // nil discards
	// Now is the time. nil = time.Now.
	Now func() time.Time
}

// tokenTimeout bounds a request to a token endpoint.
const tokenTimeout = 15 * time.Second

// New makes a broker.
func New(o Options) (*Broker, error) {
	b := &Broker{
		strategies: o.Strategies, grants: o.Grants, log: o.Logger, now: o.Now,
		http: &http.Client{
			Transport: o.Transport, Timeout: tokenTimeout,
			// What a token endpoint is sent is for nobody else.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		perCall:  map[string]backends.Credentials{},
		cache:    map[store.Key]grant{},
		tried:    map[store.Key]try{},
		deposits: func(string) {},
	}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	if b.now == nil {
		b.now = time.Now
	}
	for backend, s := range o.Strategies {
		switch {
		case s.PerCaller() && b.grants == nil:
			return nil, fmt.Errorf("backend %s: credentials of callers need a store", backend)
		case s.Header != nil:
			b.perCall[backend] = &header{Header: *s.Header}
		case s.ClientCredentials != nil:
			b.perCall[backend] = &own{broker: b, client: s.ClientCredentials.Client}
		case s.PerCaller():
			b.perCall[backend] = &delegated{broker: b, backend: backend, Strategy: s}
		}
	}
	return b, nil
}

// For gives the credentials of a backend; nil = it is called without any.
func (b *Broker) For(backend string) backends.Credentials { return b.perCall[backend] }

// OnDeposit has f called after a caller has left a grant for a backend.
func (b *Broker) OnDeposit(f func(backend string)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deposits = f
}

// Deposit leaves in the store what runs of the caller need at backends, made of
// the token of the caller's request: for those that are named, as far as their
// credentials come from callers, and for those for which a run of the caller
// waits. What is there already and outlasts the token stays.
//
// It gives those of these backends that have a grant now (good), and those of
// the good ones for which runs waited (given). Nothing that goes wrong keeps a
// call from being made: a run that lacks a credential waits for it. The log has
// the reason.
func (b *Broker) Deposit(ctx context.Context, who backends.Principal, needed []string) (good, given []string) {
	if who.Token == "" || len(who.Token) > maxSecret || who.Name == "" || !b.anyPerCaller() {
		return nil, nil
	}
	wanted, err := b.grants.Wanted(ctx, who.Name)
	if err != nil {
		b.log.Warn("cannot list the credentials that runs wait for", "error", err)
	}
	for _, backend := range union(needed, wanted, b.unlisted()) {
		d, ok := b.perCall[backend].(*delegated)
		if !ok {
			continue
		}
		waited, err := d.deposit(ctx, who)
		if errors.Is(err, errTried) {
			b.log.Debug("not yet retrying a credential that was refused", "backend", backend, "caller", who.Name)
			continue
		}
		if err != nil {
			b.log.Info("cannot get a credential for a backend from the token of a request", "backend", backend, "caller", who.Name, "error", err)
			continue
		}
		good = append(good, backend)
		if waited {
			given = append(given, backend)
		}
	}
	return good, given
}

// unlisted are the backends whose tools are not known yet for lack of a caller.
func (b *Broker) unlisted() (names []string) {
	for backend, c := range b.perCall {
		if d, ok := c.(*delegated); ok && d.unlisted.Load() {
			names = append(names, backend)
		}
	}
	return names
}

func (b *Broker) anyPerCaller() bool {
	for _, s := range b.strategies {
		if s.PerCaller() {
			return true
		}
	}
	return false
}

func union(lists ...[]string) []string {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Compact(all)
}

func (b *Broker) deposited(backend string) {
	b.mu.Lock()
	f := b.deposits
	b.mu.Unlock()
	f(backend)
}

// passing is the error for a credential that cannot be had at the moment, as a
// token endpoint or the store does not answer. A run waits for that as well:
// the outage may outlast all attempts at a call that could not even be made.
func (b *Broker) passing(ctx context.Context, err error) error {
	var needed *backends.CredentialsError
	var away *outage
	switch {
	case errors.As(err, &needed) || ctx.Err() != nil:
		return err
	case errors.As(err, &away):
		return &backends.CredentialsError{Reason: err.Error() + "; trying again"}
	}
	b.log.Warn("cannot use the store of credentials", "error", err)
	return &backends.CredentialsError{Reason: "the store of credentials does not answer; trying again"}
}

// bearer are the headers with a token (RFC 6750 section 2.1).
func bearer(token backends.Secret) backends.Headers {
	return backends.Headers{"Authorization": "Bearer " + token}
}

// sent reports whether headers are those with a token.
func sent(refused backends.Headers, token backends.Secret) bool {
	return refused != nil && refused["Authorization"] == "Bearer "+token
}
