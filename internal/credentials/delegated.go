package credentials

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/store"
)

// delegated are credentials that come from the caller.
type delegated struct {
	broker  *Broker
	backend string
	Strategy
	// unlisted: there were no credentials to list the tools with.
	unlisted atomic.Bool
	changing chan struct{} // has an element for each change under way
}

// changesAtOnce is how many grants for one backend a process changes at a time. Each may
// take a connection of the store for as long as the token endpoint takes: one that hangs
// must leave some for all else.
const changesAtOnce = 5

// A grant is a caller's credentials for a backend, as sealed in the store.
type grant struct {
	Access  string    `json:"access,omitempty"` // token for the backend
	Issued  time.Time `json:"issued,omitzero"`
	Expires time.Time `json:"expires,omitzero"` // of Access; zero = unknown
	Refresh string    `json:"refresh,omitempty"`
	// Subject is the caller's own token. It is kept to exchange it again if there is no
	// refresh token.
	Subject        string    `json:"subject,omitempty"`
	SubjectExpires time.Time `json:"subjectExpires,omitzero"`
	// Replaced: the access token before this one was refused.
	Replaced bool `json:"replaced,omitempty"`
}

func (g grant) good(now time.Time) bool { return g.Access != "" && good(g.Issued, g.Expires, now) }

// lasts is until when the grant gives tokens; forever = no known end.
func (g grant) lasts() (until time.Time, forever bool) {
	if g.Refresh != "" || g.Access != "" && g.Expires.IsZero() || g.Subject != "" && g.SubjectExpires.IsZero() {
		return time.Time{}, true
	}
	if until = g.SubjectExpires; g.Expires.After(until) {
		until = g.Expires
	}
	return until, false
}

func (g *grant) take(t token, now time.Time, replaced bool) {
	g.Access, g.Issued, g.Expires, g.Replaced = string(t.access), now, t.expires, replaced
	if t.refresh != "" {
		g.Refresh, g.Subject, g.SubjectExpires = string(t.refresh), "", time.Time{}
	}
}

// decode reads a stored grant; an invalid one is empty.
func decode(secret []byte) (g grant) {
	if json.Unmarshal(secret, &g) != nil {
		return grant{}
	}
	return g
}

func (g grant) stored(wanted bool) (store.Grant, error) {
	if g.Access == "" && g.Refresh == "" && g.Subject == "" {
		return store.Grant{Wanted: wanted}, nil
	}
	text, err := json.Marshal(g)
	until, _ := g.lasts()
	return store.Grant{Secret: text, Expires: until, Wanted: wanted}, err
}

// Identity implements backends.Credentials. Nobody is an identity, too: its session only
// lists tools.
func (d *delegated) Identity(who backends.Caller) string { return who.Name }

// Headers implements backends.Credentials. Nobody gets the latest caller's credentials:
// the tools listed with them are shown to all.
func (d *delegated) Headers(ctx context.Context, who backends.Caller, refused backends.Headers) (backends.Headers, error) {
	if d.PassThrough && who.Token != "" {
		if sent(refused, who.Token) {
			return nil, d.missing("the backend refuses the caller's token")
		}
		return bearer(who.Token), nil
	}
	key := store.Key{Caller: who.Name, Backend: d.backend}
	if who.Name == "" {
		latest, ok, err := d.broker.grants.Latest(ctx, d.backend)
		if err != nil {
			return nil, d.broker.passing(ctx, err)
		}
		d.unlisted.Store(!ok)
		if !ok {
			return nil, d.missing("no caller has brought a token yet")
		}
		key = latest
	}
	if g := d.broker.cached(key); g.good(d.broker.now()) && !sent(refused, backends.Secret(g.Access)) {
		return bearer(backends.Secret(g.Access)), nil
	}
	g, err := d.renew(ctx, key, who, refused)
	if err != nil {
		return nil, d.broker.passing(ctx, err)
	}
	return bearer(backends.Secret(g.Access)), nil
}

// missing is the error that a caller must send a token.
func (d *delegated) missing(why string) *backends.CredentialsError {
	return &backends.CredentialsError{Caller: true, Reason: why + "; the caller brings one by calling any tool of this server with a token that is valid"}
}

// renew renews a grant and stores it. No other process renews it meanwhile: many servers
// take a refresh token only once. A grant that cannot be renewed for a call is removed,
// and marked as wanted if a run needs it.
func (d *delegated) renew(ctx context.Context, key store.Key, who backends.Caller, refused backends.Headers) (g grant, err error) {
	var needed *backends.CredentialsError
	err = d.change(ctx, key, func(ctx context.Context, was store.Grant) (store.Grant, error) {
		g = decode(was.Secret)
		if g.good(d.broker.now()) && !sent(refused, backends.Secret(g.Access)) {
			return was, nil // somebody else was faster
		}
		err := d.makeGood(ctx, &g, who, refused)
		if errors.As(err, &needed) && who.Name == "" {
			d.unlisted.Store(true)
			return was, nil // listing tools must not remove a caller's grant
		}
		if errors.As(err, &needed) {
			forRun := who.Name != "" && who.Token == ""
			return store.Grant{Wanted: was.Wanted || forRun && needed.Caller}, nil
		}
		if err != nil {
			return was, err
		}
		return g.stored(was.Wanted)
	})
	switch {
	case err != nil:
		return grant{}, err
	case needed != nil:
		d.broker.keep(key, grant{})
		return grant{}, needed
	}
	d.broker.keep(key, g)
	return g, nil
}

// makeGood gets a new access token: with the refresh token, else with the caller's.
func (d *delegated) makeGood(ctx context.Context, g *grant, who backends.Caller, refused backends.Headers) error {
	now := d.broker.now()
	isRefused := g.Access != "" && sent(refused, backends.Secret(g.Access))
	if d.PassThrough || isRefused && g.Replaced && now.Sub(g.Issued) < distrust {
		return d.missing(reason(*g, isRefused))
	}
	if who.Token != "" {
		g.Subject, g.SubjectExpires = string(who.Token), who.Expires
	}
	if g.Refresh != "" {
		t, err := d.broker.refreshed(ctx, *d.TokenExchange, backends.Secret(g.Refresh))
		var no *refusal
		if err == nil {
			g.take(t, now, isRefused)
			return nil
		}
		if !errors.As(err, &no) {
			return fmt.Errorf("refreshing the caller's token for the backend: %w", err)
		}
		d.broker.log.Info("a refresh token is no longer accepted", "backend", d.backend, "error", no)
		g.Refresh = ""
	}
	if g.Subject == "" || !g.SubjectExpires.IsZero() && !now.Before(g.SubjectExpires) {
		return d.missing(reason(*g, isRefused))
	}
	return d.exchange(ctx, g, isRefused)
}

// exchange exchanges the caller's token.
func (d *delegated) exchange(ctx context.Context, g *grant, replaced bool) error {
	t, err := d.broker.exchanged(ctx, *d.TokenExchange, backends.Secret(g.Subject))
	var no *refusal
	switch {
	case errors.As(err, &no):
		return d.missing("the caller's token cannot be exchanged: " + no.Error())
	case err != nil:
		return fmt.Errorf("exchanging the caller's token: %w", err)
	}
	g.take(t, d.broker.now(), replaced)
	return nil
}

func reason(g grant, refused bool) string {
	switch {
	case refused:
		return "the backend refuses the caller's credential"
	case g.Access != "" || g.Subject != "":
		return "the caller's credential has expired"
	}
	return "there is no credential of the caller"
}

// worthwhile is by how much a token must outlast a grant to replace it.
const worthwhile = time.Minute

// change changes a grant in the store, when it is its turn.
func (d *delegated) change(ctx context.Context, key store.Key, f func(context.Context, store.Grant) (store.Grant, error)) error {
	select {
	case d.changing <- struct{}{}:
		defer func() { <-d.changing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return d.broker.grants.Change(ctx, key, f)
}

// deposit makes a grant of the token of a request, unless the stored one is good enough.
// It reports whether a run waited for it.
func (d *delegated) deposit(ctx context.Context, who backends.Caller) (waited bool, err error) {
	key := store.Key{Caller: who.Name, Backend: d.backend}
	was, err := d.broker.grants.Get(ctx, key)
	if err != nil || !d.wants(was, who) {
		return false, err
	}
	if !d.broker.try(key, who.Token) {
		return false, errTried
	}
	var g grant
	err = d.change(ctx, key, func(ctx context.Context, was store.Grant) (store.Grant, error) {
		if !d.wants(was, who) { // somebody else was faster
			g, waited = decode(was.Secret), false
			return was, nil
		}
		waited = was.Wanted
		var err error
		if g, err = d.fresh(ctx, decode(was.Secret), who, was.Wanted); err != nil {
			return was, err
		}
		return g.stored(false)
	})
	if err != nil {
		return false, err
	}
	d.broker.keep(key, g)
	d.broker.deposited(d.backend)
	return waited, nil
}

// wants reports whether a caller's token would improve a grant.
func (d *delegated) wants(was store.Grant, who backends.Caller) bool {
	g := decode(was.Secret)
	until, forever := g.lasts()
	switch {
	case was.Wanted, g == grant{}:
		return true
	case forever:
		return false
	case d.broker.now().After(until), who.Expires.IsZero():
		return true
	}
	return who.Expires.After(until.Add(worthwhile))
}

// fresh is a grant made of the token of a request. It exchanges the token early, since
// the result may outlive the token; if the token endpoint does not answer, it keeps the
// token for later.
func (d *delegated) fresh(ctx context.Context, g grant, who backends.Caller, wanted bool) (grant, error) {
	now := d.broker.now()
	if !who.Expires.IsZero() && !now.Before(who.Expires) {
		return g, errors.New("the token of the request has expired")
	}
	if d.PassThrough {
		return grant{Access: string(who.Token), Issued: now, Expires: who.Expires}, nil
	}
	g.Subject, g.SubjectExpires = string(who.Token), who.Expires
	if g.good(now) && !wanted {
		return g, nil // it is exchanged when it is needed
	}
	g.Refresh = ""
	err := d.exchange(ctx, &g, false)
	var needed *backends.CredentialsError
	if err != nil && !errors.As(err, &needed) {
		d.broker.log.Warn("postponed the exchange of a token", "backend", d.backend, "error", err)
		g.Access = ""
		return g, nil
	}
	return g, err
}

// tryAgain is after how long a useless token is tried again: a client may poll its run
// every second.
const tryAgain = 30 * time.Second

var errTried = errors.New("the same token was tried a moment ago")

// A try is the last tried token of a key.
type try struct {
	token [sha256.Size]byte
	at    time.Time
}

// try reports whether to try a token for a key, and records it.
func (b *Broker) try(key store.Key, token backends.Secret) bool {
	now := try{token: sha256.Sum256([]byte(token)), at: b.now()}
	b.mu.Lock()
	defer b.mu.Unlock()
	if last, ok := b.tried[key]; ok && last.token == now.token && now.at.Sub(last.at) < tryAgain {
		return false
	}
	if len(b.tried) >= maxCached {
		clear(b.tried)
	}
	b.tried[key] = now
	return true
}

// maxCached bounds the keys in memory.
const maxCached = 10_000

func (b *Broker) cached(key store.Key) grant {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cache[key]
}

// keep remembers a grant, or forgets one without a token.
func (b *Broker) keep(key store.Key, g grant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.cache) >= maxCached {
		clear(b.cache)
	}
	if g.Access == "" {
		delete(b.cache, key)
		return
	}
	b.cache[key] = g
}
