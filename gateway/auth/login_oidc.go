package auth

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// An OIDCLogin is an OpenID Connect issuer at which people sign in. It is the
// issuer whose access tokens clients send, so that a person is the same
// caller in a browser and in a client.
type OIDCLogin struct {
	Issuer   string // URL, as in its tokens
	ClientID string // of this server at the issuer
	// ClientSecret gives the secret. nil = the client has none.
	ClientSecret func() (string, error)
	// Scopes to ask for besides openid. nil = profile.
	Scopes []string
	// Required are the scopes that callers need; a user without them cannot sign in.
	// They are requested as well.
	Required []string
	// GroupsClaim is where ID tokens have the groups of their subject, as in
	// OIDCOptions. "" = groups.
	GroupsClaim string
	// HTTP calls the issuer. nil = a client that gives up after 30 s.
	HTTP *http.Client
}

// A loginFlow is one attempt to sign in, from its beginning to the return.
type loginFlow struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
	To       string `json:"t"`
	Expires  int64  `json:"e"` // Unix seconds
}

const (
	flowLife    = 10 * time.Minute
	statePrefix = 8 // characters of the state in the name of its cookie, so that two tabs do not disturb each other
)

var errNoIssuer = errors.New("no issuer is configured for signing in")

// Begin sends a browser to the issuer, from where it comes back to Complete and then
// continues to a path of the pages.
func (l *Login) Begin(w http.ResponseWriter, r *http.Request, to string) error {
	if l.issuer == nil {
		return errNoIssuer
	}
	config, err := l.issuer.discover(r.Context())
	if err != nil {
		return err
	}
	f := loginFlow{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), To: l.ReturnTo(to), Expires: l.now().Add(flowLife).Unix()}
	sealed := l.seals.seal(flowCookie, f)
	if len(sealed) > maxCookie {
		f.To = l.opts.Path
		sealed = l.seals.seal(flowCookie, f)
	}
	l.remember(w, flowCookie+f.State[:statePrefix], sealed, flowLife)
	http.Redirect(w, r, config.AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), http.StatusSeeOther)
	return nil
}

// Complete signs in a browser that comes back from the issuer, and reports where it
// continues.
func (l *Login) Complete(w http.ResponseWriter, r *http.Request) (to string, err error) {
	if l.issuer == nil {
		return "", errNoIssuer
	}
	q := r.URL.Query()
	f, err := l.flow(r, q.Get("state"))
	if err != nil {
		return "", err
	}
	// Nothing can be guessed here, so users are not locked out by strangers at the same
	// address; the throttle only spares the issuer.
	if err := l.begun.attempt(l.now(), f.State); err != nil {
		return "", err
	}
	l.forget(w, flowCookie+f.State[:statePrefix])
	if problem := q.Get("error"); problem != "" {
		return "", fmt.Errorf("the issuer refuses: %.200q %.500q", problem, q.Get("error_description"))
	}
	if iss := q.Get("iss"); iss != "" && iss != l.issuer.Issuer { // RFC 9207
		return "", fmt.Errorf("the answer comes from the issuer %.200q", iss)
	}
	s, err := l.issuer.exchange(r.Context(), q.Get("code"), f)
	if err != nil {
		return "", err
	}
	return f.To, l.enter(w, s)
}

// flow finds the attempt that a state belongs to.
func (l *Login) flow(r *http.Request, state string) (loginFlow, error) {
	if len(state) < statePrefix {
		return loginFlow{}, errors.New("the answer has no state")
	}
	cookie, err := r.Cookie(l.cookieName(flowCookie + state[:statePrefix]))
	if err != nil {
		return loginFlow{}, errors.New("the sign-in was not begun in this browser, or took too long")
	}
	var f loginFlow
	if err := l.seals.open(flowCookie, cookie.Value, &f); err != nil {
		return loginFlow{}, err
	}
	if f.State != state || l.now().Unix() > f.Expires {
		return loginFlow{}, errors.New("the sign-in took too long, or belongs to another state")
	}
	return f, nil
}

// A loginIssuer is asked for its endpoints, with its keys, when it is first needed: it
// may be down when the server starts.
type loginIssuer struct {
	OIDCLogin
	redirect string
	keys     *keySet
}

func newLoginIssuer(o *OIDCLogin, redirect string, log *slog.Logger) *loginIssuer {
	i := &loginIssuer{OIDCLogin: *o, redirect: redirect}
	if i.HTTP == nil {
		i.HTTP = &http.Client{Timeout: 30 * time.Second}
	}
	i.HTTP = bounded(i.HTTP)
	if i.Scopes == nil {
		i.Scopes = []string{"profile"}
	}
	i.GroupsClaim = cmp.Or(i.GroupsClaim, "groups")
	i.keys = newKeySet(i.Issuer, "", i.HTTP, log)
	return i
}

func (i *loginIssuer) discover(ctx context.Context) (*oauth2.Config, error) {
	provider, err := i.keys.endpoints(ctx)
	if err != nil {
		return nil, fmt.Errorf("discovering the issuer %s: %w", i.Issuer, err)
	}
	config := &oauth2.Config{
		ClientID: i.ClientID, Endpoint: provider.Endpoint(), RedirectURL: i.redirect,
		Scopes: i.asked(),
	}
	if i.ClientSecret != nil {
		if config.ClientSecret, err = i.ClientSecret(); err != nil {
			return nil, err
		}
	}
	return config, nil
}

// asked are the scopes to ask for, each once.
func (i *loginIssuer) asked() []string {
	scopes := []string{oidc.ScopeOpenID}
	for _, scope := range slices.Concat(i.Scopes, i.Required) {
		if !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// exchange turns a code into a session.
func (i *loginIssuer) exchange(ctx context.Context, code string, f loginFlow) (browserSession, error) {
	var none browserSession
	config, err := i.discover(ctx)
	if err != nil {
		return none, err
	}
	ctx = oidc.ClientContext(ctx, i.HTTP)
	token, err := config.Exchange(ctx, code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return none, refusedExchange(err)
	}
	if scope, lacks := lacking(i.Required, i.granted(token)); lacks {
		return none, &MissingScopeError{scope}
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := oidc.NewVerifier(i.Issuer, i.keys, &oidc.Config{ClientID: i.ClientID, SupportedSigningAlgs: algorithmNames()}).Verify(ctx, raw)
	var c claims
	if err == nil {
		err = id.Claims(&c)
	}
	switch {
	case err != nil:
		return none, fmt.Errorf("the ID token is not valid: %w", err)
	case c.Party != i.ClientID && (c.Party != "" || len(id.Audience) > 1): // OpenID Connect Core 1.0, section 3.1.3.7
		return none, fmt.Errorf("the ID token is not valid: it was issued to the client %.200q (azp)", c.Party)
	case id.Nonce != f.Nonce:
		return none, errors.New("the ID token belongs to another sign-in")
	case id.Subject == "":
		return none, errors.New("the ID token has no subject")
	}
	return browserSession{Issuer: id.Issuer, Subject: id.Subject, Groups: textsAt(id, i.GroupsClaim), Client: i.ClientID}, nil
}

// granted are the scopes that were granted: those that were asked for, unless the
// issuer names others (RFC 6749, section 5.1).
func (i *loginIssuer) granted(token *oauth2.Token) []string {
	if named, ok := token.Extra("scope").(string); ok {
		return strings.Fields(named)
	}
	return i.asked()
}

// A MissingScopeError reports which required scope the user was not granted.
type MissingScopeError struct{ Scope string }

func (e *MissingScopeError) Error() string { return "the issuer did not grant the scope " + e.Scope }

// refusedExchange omits what the issuer answered but for its error code: the rest of it
// repeats unknown text.
func refusedExchange(err error) error {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) && refused.Response != nil {
		return fmt.Errorf("the issuer refuses the code: HTTP %d, %.100q", refused.Response.StatusCode, refused.ErrorCode)
	}
	var bad *url.Error
	if errors.As(err, &bad) {
		return fmt.Errorf("asking the issuer for a token: %w", bad.Err)
	}
	return errors.New("asking the issuer for a token: its answer cannot be read")
}
