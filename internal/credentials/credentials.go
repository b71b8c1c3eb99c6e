// Package credentials provides the credentials that backends require.
//
// Each backend has a Strategy. A static header and client credentials (RFC 6749
// section 4.4) are the same for everybody. Token exchange (RFC 8693) and
// pass-through come from the caller: a request of the caller leaves a grant in the
// store (Deposit), and runs of the caller use it, maybe in another process, long after
// the request.
//
// Secrets are in memory, sealed in the store, and on their way to the token
// endpoint and the backend, and nowhere else. No error contains one.
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

// A Strategy is how calls of one backend are authenticated: one of the fields is set, or
// none.
type Strategy struct {
	Header            *Header
	ClientCredentials *ClientCredentials
	TokenExchange     *TokenExchange
	// PassThrough sends the caller's own token to the backend. MCP forbids it unless the
	// token was issued for the backend as well.
	PassThrough bool
}

// PerCaller reports whether the credentials come from the caller.
func (s Strategy) PerCaller() bool { return s.TokenExchange != nil || s.PassThrough }

// A Header is sent with every request.
type Header struct {
	Name  string
	Value Source
}

// A Source is the place of a secret: one of its fields is set.
type Source struct {
	Inline backends.Secret
	Env    string // name of an environment variable
	File   string // read for every request, without white space around the secret
}

// A Client is perdure's OAuth client at a token endpoint.
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
	// Grants keep callers' credentials. Required if a strategy is PerCaller.
	Grants store.Grants
	// Transport is for requests to token endpoints. nil = http.DefaultTransport.
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
			// Do not send secrets to another server.
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
			b.perCall[backend] = &delegated{broker: b, backend: backend, Strategy: s, changing: make(chan struct{}, changesAtOnce)}
		}
	}
	return b, nil
}

// For gives the credentials of a backend; nil = none.
func (b *Broker) For(backend string) backends.Credentials { return b.perCall[backend] }

// OfCallers reports whether the credentials of a backend come from callers.
func (b *Broker) OfCallers(backend string) bool { return b.strategies[backend].PerCaller() }

// OnDeposit calls f after a caller has left a grant for a backend.
func (b *Broker) OnDeposit(f func(backend string)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deposits = f
}

// Deposit stores grants for runs of the caller, made from the token of the caller's
// request: for the needed backends whose credentials come from callers, and for those
// that a run of the caller waits for. A grant that outlasts the token stays.
//
// It gives the backends that have a grant now (good), and those of them that runs
// waited for (given). Errors are only logged: a run that lacks a credential waits for
// it.
func (b *Broker) Deposit(ctx context.Context, who backends.Caller, needed []string) (good, given []string) {
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

// unlisted are the backends whose tools are unknown for lack of a caller's credentials.
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

// passing is the error while a token endpoint or the store does not answer. A run waits
// for that as well: the outage may outlast all attempts of a call.
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
