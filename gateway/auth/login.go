package auth

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/web"
)

// ErrNotSignedIn is why a browser is not let in before its user has signed in.
var ErrNotSignedIn = errors.New("not signed in")

// ErrCallerToken is the error of signing in with a token for callers.
var ErrCallerToken = errors.New("this token is for programs; it does not open this page")

var errClosed = errors.New("nobody can sign in here; configure incomingAuth.oidc.clientId or approvals.tokenFile of this server")

// A LoginKind is how people sign in with a browser.
type LoginKind int

// The kinds of login.
const (
	LoginClosed LoginKind = iota // no one can sign in
	LoginLink                    // by a one-time link, the person at the terminal of this machine
	LoginToken                   // by a token of their own
	LoginOIDC                    // at an OpenID Connect issuer
)

// LoginOptions set how people sign in: by the first of OIDC, Tokens and Link. With none
// of them no one can.
type LoginOptions struct {
	// PublicURL is under what browsers reach the server, without the path of
	// the pages: https://perdure.example.com. Required with OIDC. With https,
	// cookies are for https only.
	PublicURL string
	// Path is that of the pages for which one signs in, such as /approvals. The
	// issuer sends browsers back to PATH/callback. Required.
	Path string

	// Key seals the cookies. Replicas share it. Required.
	Key []byte
	// RetiredKeys still open cookies, but seal no new ones. nil = none.
	RetiredKeys [][]byte
	// Life is after what time one has to sign in again. 0 = 8 h.
	Life time.Duration

	// OIDC is the issuer at which one signs in.
	OIDC *OIDCLogin
	// Tokens authenticates a request with a bearer token: one signs in with such a
	// token, which is checked again at every request.
	Tokens Authenticator
	// Callers authenticates the requests of programs. Its tokens sign no person in: a
	// program that calls is not the person who approves. nil = such tokens are accepted
	// if Tokens accepts them.
	Callers Authenticator
	// Link lets in the person at the terminal of this machine as Anonymous, by a
	// one-time link that NewLinkCode has made with Key.
	Link bool

	Logger *slog.Logger // nil = slog.Default()
}

// A Login identifies the user of a browser. Its state is in sealed cookies, which any
// replica with the same key reads.
type Login struct {
	opts   LoginOptions
	seals  *cookieSealer
	issuer *loginIssuer // nil unless OIDC
	links  *links       // nil unless Link
	secure bool
	now    func() time.Time

	attempts throttle // by address
	begun    throttle // by the state of the sign-in at the issuer
}

// NewLogin makes a Login. It sends no requests.
func NewLogin(o LoginOptions) (*Login, error) { return newLogin(o, time.Now) }

func newLogin(o LoginOptions, now func() time.Time) (*Login, error) {
	if o.Path == "" || len(o.Key) == 0 {
		return nil, errors.New("auth: Path and Key of a login are required")
	}
	if o.Life == 0 {
		o.Life = 8 * time.Hour
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	l := &Login{opts: o, seals: newCookieSealer(o.Key, o.RetiredKeys), now: now}
	l.secure = strings.HasPrefix(o.PublicURL, "https://")
	if o.Link {
		l.links = newLinks(o.Key, l.now())
	}
	if o.OIDC != nil {
		if o.PublicURL == "" {
			return nil, errors.New("signing in at an issuer needs the public URL of this server, to which the issuer sends browsers back")
		}
		l.issuer = newLoginIssuer(o.OIDC, strings.TrimSuffix(o.PublicURL, "/")+o.Path+"/callback", o.Logger)
	}
	return l, nil
}

// Kind is how one signs in.
func (l *Login) Kind() LoginKind {
	switch {
	case l.issuer != nil:
		return LoginOIDC
	case l.opts.Tokens != nil:
		return LoginToken
	case l.links != nil:
		return LoginLink
	}
	return LoginClosed
}

// A browserSession is the content of the cookie of a signed-in user.
type browserSession struct {
	Issuer  string   `json:"i,omitempty"`
	Subject string   `json:"s,omitempty"`
	Groups  []string `json:"g,omitempty"`
	Client  string   `json:"c,omitempty"` // client ID under which one signed in at the issuer
	Token   string   `json:"t,omitempty"` // of a login by token
	Link    bool     `json:"l,omitempty"` // of a login by link
	Expires int64    `json:"e"`           // Unix seconds
}

// Authenticate returns the user of the browser that sent a request. The error is
// ErrNotSignedIn where signing in helps, and a *Refusal with status 503 where that
// cannot be decided now; otherwise it is the reason to show.
func (l *Login) Authenticate(r *http.Request) (Identity, error) {
	kind := l.Kind()
	switch kind {
	case LoginClosed:
		return Identity{}, errClosed
	case LoginLink:
		if err := onThisMachine(r); err != nil {
			return Identity{}, err
		}
	}
	var s browserSession
	cookie, err := r.Cookie(l.cookieName(sessionCookie))
	if err != nil || l.seals.open(sessionCookie, cookie.Value, &s) != nil || l.now().Unix() >= s.Expires {
		return Identity{}, ErrNotSignedIn
	}
	switch {
	case kind == LoginToken:
		return l.byToken(r, s.Token)
	case kind == LoginLink && s.Link:
		return Identity{Subject: Anonymous, Expires: time.Unix(s.Expires, 0)}, nil
	case kind == LoginLink || s.Subject == "" || s.Issuer != l.issuer.Issuer || s.Client != l.issuer.ClientID:
		return Identity{}, ErrNotSignedIn // this was another configuration
	}
	return Identity{Issuer: s.Issuer, Subject: s.Subject, Groups: s.Groups, Expires: time.Unix(s.Expires, 0)}, nil
}

// byToken asks whose token it is, as of now: it may have been withdrawn.
func (l *Login) byToken(r *http.Request, token string) (Identity, error) {
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return Identity{}, ErrNotSignedIn
	}
	bearing := r.Clone(r.Context())
	bearing.Header = http.Header{"Authorization": {"Bearer " + token}}
	var refusal *Refusal
	if l.opts.Callers != nil {
		_, err := l.opts.Callers.Authenticate(bearing)
		switch refused := errors.As(err, &refusal); {
		case err == nil, refused && refusal.Status == http.StatusForbidden:
			return Identity{}, ErrCallerToken
		case refused && refusal.Status == http.StatusServiceUnavailable: // it may be one
			return Identity{}, err
		}
	}
	who, err := l.opts.Tokens.Authenticate(bearing)
	if errors.As(err, &refusal) && refusal.Status == http.StatusServiceUnavailable {
		return Identity{}, err
	}
	if err != nil {
		l.opts.Logger.Debug("the token of a browser is not valid", "error", err)
		return Identity{}, ErrNotSignedIn
	}
	who.Token = ""
	return who, nil
}

// SignIn signs in the owner of a token.
func (l *Login) SignIn(w http.ResponseWriter, r *http.Request, token string) error {
	token = strings.TrimSpace(token)
	if l.Kind() != LoginToken {
		return errors.New("sign-in with a token is not configured here")
	}
	if err := l.attempts.attempt(l.now(), l.triesAs(r)); err != nil {
		return err
	}
	who, err := l.byToken(r, token)
	if err != nil {
		return err
	}
	if err := l.enter(w, browserSession{Token: token}); err != nil {
		return err
	}
	known := knownBrowser{Caller: who.Caller(), Expires: l.now().Add(knownFor).Unix()}
	l.remember(w, knownCookie, l.seals.seal(knownCookie, known), knownFor)
	return nil
}

// A knownBrowser is one in which a user has signed in with a token before.
type knownBrowser struct {
	Caller  string `json:"caller"`
	Expires int64  `json:"expires"` // Unix seconds
}

// triesAs is the name under which an attempt to sign in is counted: in a known browser
// the person who signed in there before, in others the address. Behind a proxy all have
// one address, and strangers must not lock out known people.
func (l *Login) triesAs(r *http.Request) string {
	var known knownBrowser
	cookie, err := r.Cookie(l.cookieName(knownCookie))
	if err != nil || l.seals.open(knownCookie, cookie.Value, &known) != nil || l.now().Unix() >= known.Expires {
		return web.Peer(r.RemoteAddr)
	}
	return "known " + known.Caller
}

// SignOut ends what the browser knows. A copy of the cookie stays good until
// it expires.
func (l *Login) SignOut(w http.ResponseWriter) { l.forget(w, sessionCookie) }

// enter gives the browser a session.
func (l *Login) enter(w http.ResponseWriter, s browserSession) error {
	s.Expires = l.now().Add(l.opts.Life).Unix()
	sealed := l.seals.seal(sessionCookie, s)
	if len(sealed) > maxCookie {
		return fmt.Errorf("the session has %d bytes, and browsers keep at most %d in a cookie: too many groups, or too long a token", len(sealed), maxCookie)
	}
	l.remember(w, sessionCookie, sealed, l.opts.Life)
	return nil
}

// Cookies and their limits.
const (
	sessionCookie = "perdure-session"
	knownCookie   = "perdure-known"
	knownFor      = 180 * 24 * time.Hour
	flowCookie    = "perdure-login-" // and the beginning of the state
	maxCookie     = 3800             // bytes; browsers keep 4096 with the name and all attributes
)

// cookieName binds a cookie to exactly this host, where it is sent by https
// only (RFC 6265bis, __Host-).
func (l *Login) cookieName(name string) string {
	if l.secure {
		return "__Host-" + name
	}
	return name
}

// remember sets a cookie. It is Lax and not Strict since people come to the
// pages by links from elsewhere, and from the issuer.
func (l *Login) remember(w http.ResponseWriter, name, value string, life time.Duration) {
	l.setCookie(w, name, value, int(life/time.Second))
}

func (l *Login) forget(w http.ResponseWriter, name string) { l.setCookie(w, name, "", -1) }

func (l *Login) setCookie(w http.ResponseWriter, name, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: l.cookieName(name), Value: value, Path: "/", MaxAge: maxAge,
		Secure: l.secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// ReturnTo is where to go after signing in: to, if that is a path of the pages,
// otherwise their beginning.
func (l *Login) ReturnTo(to string) string {
	u, err := url.Parse(to)
	foreign := err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != ""
	if foreign || strings.ContainsAny(to, "\\\r\n\t") || strings.Contains(u.Path, "//") || strings.Contains(u.Path, "/.") {
		return l.opts.Path
	}
	if u.Path != l.opts.Path && !strings.HasPrefix(u.Path, l.opts.Path+"/") {
		return l.opts.Path
	}
	return u.RequestURI()
}
