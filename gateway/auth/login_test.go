package auth_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/perduretest"
)

var loginKey = []byte("a key that all replicas share, and nobody else")

// newLoginIssuer is an issuer at which ann is signed in already.
func newLoginIssuer(t *testing.T) *perduretest.Issuer {
	t.Helper()
	i := perduretest.NewIssuer(t)
	i.Login = perduretest.Login{Subject: "ann", ClientID: "perdure", Secret: "the-secret", Claims: perduretest.Claims{
		"groups": []string{"approvers", "staff"}, "realm": map[string]any{"roles": []string{"admin"}}}}
	return i
}

// loginSite has pages for which one signs in: they report who it is.
type loginSite struct {
	*httptest.Server
	login *auth.Login
	mu    sync.Mutex
	err   error // of the last sign-in
}

func newLoginSite(t *testing.T, options func(url string) auth.LoginOptions) *loginSite {
	t.Helper()
	s := &loginSite{}
	mux := http.NewServeMux()
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	o := options(s.URL)
	o.Path, o.Logger = "/approvals", slog.New(slog.DiscardHandler)
	if o.Key == nil {
		o.Key = loginKey
	}
	var err error
	if s.login, err = auth.NewLogin(o); err != nil {
		t.Fatal(err)
	}
	mux.HandleFunc("GET /approvals/{page...}", func(w http.ResponseWriter, r *http.Request) {
		who, err := s.login.Authenticate(r)
		switch {
		case errors.Is(err, auth.ErrNotSignedIn):
			http.Redirect(w, r, "/approvals/login?to="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
		case err != nil:
			http.Error(w, err.Error(), http.StatusForbidden)
		default:
			fmt.Fprintf(w, "%s is %s in %v", r.URL.RequestURI(), who.Caller(), who.Groups)
		}
	})
	mux.HandleFunc("GET /approvals/login", func(w http.ResponseWriter, r *http.Request) {
		s.remember(s.login.Begin(w, r, r.URL.Query().Get("to")))
	})
	mux.HandleFunc("GET /approvals/callback", func(w http.ResponseWriter, r *http.Request) {
		to, err := s.login.Complete(w, r)
		if s.remember(err); err != nil {
			http.Error(w, "refused", http.StatusForbidden)
			return
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
	})
	return s
}

func (s *loginSite) remember(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// refused reports why the last sign-in failed.
func (s *loginSite) refused() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func newBrowser(t *testing.T) *http.Client {
	t.Helper()
	jar := perduretest.Must(cookiejar.New(nil))(t)
	return &http.Client{Jar: jar, Timeout: time.Minute}
}

func visit(t *testing.T, c *http.Client, url string, header ...string) (status int, body string) {
	t.Helper()
	req := perduretest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp := perduretest.Must(c.Do(req))(t)
	defer resp.Body.Close()
	text := perduretest.Must(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, strings.TrimSpace(string(text))
}

func atIssuer(i *perduretest.Issuer) func(string) auth.LoginOptions {
	return func(site string) auth.LoginOptions {
		return auth.LoginOptions{PublicURL: site, OIDC: &auth.OIDCLogin{
			Issuer: i.URL, ClientID: "perdure", ClientSecret: func() (string, error) { return "the-secret", nil }}}
	}
}

func TestLoginAtIssuer(t *testing.T) {
	t.Parallel()
	i := newLoginIssuer(t)
	s := newLoginSite(t, atIssuer(i))
	b := newBrowser(t)
	want := "/approvals/deploy/1?x=y is " + i.URL + "#ann in [approvers staff]"
	if _, got := visit(t, b, s.URL+"/approvals/deploy/1?x=y"); got != want {
		t.Errorf("got %q, want %q (%v)", got, want, s.refused())
	}
	// Another replica with the same key knows the browser; one with another
	// key, issuer or client does not.
	know := func(name string, known bool, change func(*auth.LoginOptions)) {
		t.Helper()
		other := newLoginSite(t, func(url string) auth.LoginOptions {
			o := atIssuer(i)(url)
			change(&o)
			return o
		})
		req := httptest.NewRequest(http.MethodGet, "/approvals", nil)
		for _, c := range b.Jar.Cookies(mustParse(t, s.URL)) {
			req.AddCookie(c)
		}
		if who, err := other.login.Authenticate(req); (err == nil) != known || err != nil && !errors.Is(err, auth.ErrNotSignedIn) {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
	}
	know("a replica", true, func(*auth.LoginOptions) {})
	know("a retired key", true, func(o *auth.LoginOptions) { o.Key, o.RetiredKeys = []byte("new"), [][]byte{loginKey} })
	know("another key", false, func(o *auth.LoginOptions) { o.Key = []byte("new") })
	know("another client", false, func(o *auth.LoginOptions) { o.OIDC.ClientID = "other" })
	nested := newLoginSite(t, func(url string) auth.LoginOptions {
		o := atIssuer(i)(url)
		o.OIDC.GroupsClaim = "realm.roles"
		return o
	})
	if _, got := visit(t, newBrowser(t), nested.URL+"/approvals/x"); !strings.HasSuffix(got, " in [admin]") {
		t.Errorf("groups of another claim: %s", got)
	}
	know("another issuer", false, func(o *auth.LoginOptions) { o.OIDC.Issuer = "https://other.example" })
	know("tokens", false, func(o *auth.LoginOptions) { o.OIDC, o.Tokens = nil, auth.Everybody{} })
}

func mustParse(t *testing.T, s string) *url.URL {
	t.Helper()
	u := perduretest.Must(url.Parse(s))(t)
	return u
}

func TestLoginThatIsRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		claims perduretest.Claims
		answer func(url.Values)
		refuse bool
		want   string
	}{
		{name: "for another client", claims: perduretest.Claims{"aud": "other"}, want: "not valid"},
		{name: "for several clients", claims: perduretest.Claims{"aud": []string{"perdure", "other"}}, want: "azp"},
		{name: "issued to another client", claims: perduretest.Claims{"azp": "other"}, want: "azp"},
		{name: "whose expiry is a text", claims: perduretest.Claims{"exp": strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10)}, want: "not valid"},
		{name: "of another issuer", claims: perduretest.Claims{"iss": "https://other.example"}, want: "not valid"},
		{name: "that has expired", claims: perduretest.Claims{"exp": time.Now().Add(-time.Hour).Unix()}, want: "not valid"},
		{name: "with another nonce", claims: perduretest.Claims{"nonce": "x"}, want: "another sign-in"},
		{name: "of nobody", claims: perduretest.Claims{"sub": nil}, want: "no subject"},
		{name: "with too many groups", claims: perduretest.Claims{"groups": strings.Split(strings.Repeat("a group,", 1000), ",")}, want: "too many groups"},
		{name: "with another state", answer: func(v url.Values) { v.Set("state", strings.Repeat("A", 26)) }, want: "not begun in this browser"},
		{name: "with a changed state", answer: func(v url.Values) { v.Set("state", v.Get("state")+"x") }, want: "another state"},
		{name: "without a state", answer: func(v url.Values) { v.Del("state") }, want: "no state"},
		{name: "from another issuer", answer: func(v url.Values) { v.Set("iss", "https://other.example") }, want: "other.example"},
		{name: "with an error", answer: func(v url.Values) { v.Set("error", "access_denied") }, want: "access_denied"},
		{name: "with another code", answer: func(v url.Values) { v.Set("code", "x") }, want: "invalid_grant"},
		{name: "by the issuer", refuse: true, want: "invalid_grant"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			i := newLoginIssuer(t)
			i.Login.Claims, i.Login.Return, i.Login.Refuse = tt.claims, tt.answer, tt.refuse
			s := newLoginSite(t, atIssuer(i))
			status, _ := visit(t, newBrowser(t), s.URL+"/approvals/deploy/1")
			err := s.refused()
			if status != http.StatusForbidden || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("HTTP %d, %v; want one about %q", status, err, tt.want)
			}
			if err != nil && (strings.Contains(err.Error(), "the-secret") || strings.Contains(err.Error(), "what was sent")) {
				t.Errorf("the error tells too much: %v", err)
			}
		})
	}
}

// TestLoginIsNotRepeated: a callback is good once, and in the browser in which
// the sign-in began.
func TestLoginIsNotRepeated(t *testing.T) {
	t.Parallel()
	i := newLoginIssuer(t)
	s := newLoginSite(t, atIssuer(i))
	b := newBrowser(t)
	var callback string
	b.CheckRedirect = func(req *http.Request, _ []*http.Request) error {
		if req.URL.Path == "/approvals/callback" {
			callback = req.URL.String()
			return http.ErrUseLastResponse
		}
		return nil
	}
	visit(t, b, s.URL+"/approvals/deploy/1")
	if status, _ := visit(t, newBrowser(t), callback); status != http.StatusForbidden {
		t.Errorf("in another browser: HTTP %d", status)
	}
	b.CheckRedirect = nil
	if status, body := visit(t, b, callback); status != http.StatusOK {
		t.Errorf("in the browser: HTTP %d %s %v", status, body, s.refused())
	}
	if status, _ := visit(t, b, callback); status != http.StatusForbidden {
		t.Errorf("once more: HTTP %d", status)
	}
}

func TestLoginIssuerIsAway(t *testing.T) {
	t.Parallel()
	i := newLoginIssuer(t)
	i.Down.Store(true)
	s := newLoginSite(t, atIssuer(i))
	b := newBrowser(t)
	visit(t, b, s.URL+"/approvals/deploy/1")
	if err := s.refused(); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("got %v", err)
	}
	i.Down.Store(false)
	s.login.SetClock(func() time.Time { return time.Now().Add(time.Minute) })
	if _, got := visit(t, b, s.URL+"/approvals/deploy/1"); !strings.Contains(got, "#ann") {
		t.Errorf("when it is back: %s %v", got, s.refused())
	}
}

// TestAttackHangingIssuer: while an issuer gives no answer, those who sign in wait for
// one attempt at it, together, and not each for one of their own.
func TestAttackHangingIssuer(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	begun := make(chan struct{}, 20)
	hangs := roundTrip(func(*http.Request) (*http.Response, error) {
		asked.Add(1)
		<-begun
		return nil, context.DeadlineExceeded
	})
	login, err := auth.NewLogin(auth.LoginOptions{PublicURL: "http://127.0.0.1:1", Path: "/approvals", Key: loginKey,
		Logger: slog.New(slog.DiscardHandler), OIDC: &auth.OIDCLogin{Issuer: "http://issuer", ClientID: "perdure", HTTP: &http.Client{Transport: hangs}}})
	if err != nil {
		t.Fatal(err)
	}
	var people sync.WaitGroup
	for range cap(begun) {
		people.Go(func() {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/approvals/login", http.NoBody)
			begun <- struct{}{}
			if login.Begin(httptest.NewRecorder(), r, "/approvals") == nil {
				t.Error("somebody signs in")
			}
		})
	}
	people.Wait()
	if got := asked.Load(); got != 1 {
		t.Errorf("the issuer was asked %d times", got)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestLoginCookies: where the site is reached by https, cookies are for https
// and for this host only.
func TestLoginCookies(t *testing.T) {
	t.Parallel()
	for _, site := range []string{"http://127.0.0.1:4483", "https://perdure.example.com"} {
		l, err := auth.NewLogin(auth.LoginOptions{PublicURL: site, Path: "/approvals", Key: loginKey, Tokens: auth.Everybody{}})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		perduretest.NoError(t, l.SignIn(w, httptest.NewRequest(http.MethodPost, "/approvals/login", nil), "a-token"))
		c := w.Result().Cookies()[0]
		secure := strings.HasPrefix(site, "https:")
		if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || c.Secure != secure || strings.HasPrefix(c.Name, "__Host-") != secure || c.MaxAge != 8*60*60 {
			t.Errorf("%s: the cookie is %s", site, c)
		}
		if strings.Contains(c.Value, "a-token") {
			t.Errorf("the cookie shows the token: %s", c)
		}
		var changed []byte
		for i := range c.Value {
			changed = []byte(c.Value)
			changed[i] ^= 1
			req := httptest.NewRequest(http.MethodGet, "/approvals", nil)
			req.AddCookie(&http.Cookie{Name: c.Name, Value: string(changed)})
			if _, err := l.Authenticate(req); err == nil && string(changed) != c.Value && decodes(string(changed)) != decodes(c.Value) {
				t.Errorf("a changed cookie is taken")
			}
		}
		if _, err := l.Authenticate(httptest.NewRequest(http.MethodGet, "/approvals", nil)); !errors.Is(err, auth.ErrNotSignedIn) {
			t.Errorf("without a cookie: %v", err)
		}
	}
}

// decodes omits the bits that unpadded base64 does not use.
func decodes(s string) string {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestLoginExpires(t *testing.T) {
	t.Parallel()
	l, err := auth.NewLogin(auth.LoginOptions{Path: "/approvals", Key: loginKey, Tokens: auth.Everybody{}, Life: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	perduretest.NoError(t, l.SignIn(w, httptest.NewRequest(http.MethodPost, "/", nil), "a-token"))
	req := httptest.NewRequest(http.MethodGet, "/approvals", nil)
	req.AddCookie(&http.Cookie{Name: "perdure-session", Value: w.Result().Cookies()[0].Value})
	if _, err := l.Authenticate(req); !errors.Is(err, auth.ErrNotSignedIn) {
		t.Errorf("got %v", err)
	}
}

func TestReturnTo(t *testing.T) {
	t.Parallel()
	l := perduretest.Must(auth.NewLogin(auth.LoginOptions{Path: "/approvals", Key: loginKey}))(t)
	for to, want := range map[string]string{
		"/approvals":                     "/approvals",
		"/approvals/deploy/1?x=y":        "/approvals/deploy/1?x=y",
		"/approvals/deploy%2F1":          "/approvals/deploy%2F1",
		"/approvals?from=own.x":          "/approvals?from=own.x",
		"":                               "/approvals",
		"/":                              "/approvals",
		"/mcp":                           "/approvals",
		"/approvalsx":                    "/approvals",
		"//evil.example/approvals":       "/approvals",
		"https://evil.example/approvals": "/approvals",
		"https:/approvals":               "/approvals",
		"/approvals//evil.example":       "/approvals",
		"/approvals/../../mcp":           "/approvals",
		"/approvals/%2e%2e/x":            "/approvals",
		`/\evil.example`:                 "/approvals",
		`/approvals/\evil.example`:       "/approvals",
		"/approvals\r\nSet-Cookie: a=b":  "/approvals",
		"javascript:alert(1)":            "/approvals",
		"%":                              "/approvals",
	} {
		if got := l.ReturnTo(to); got != want {
			t.Errorf("%q leads to %q, want %q", to, got, want)
		}
	}
}

// TestAttackLoginWithoutScopes: who signs in needs the scopes that callers need. They are asked
// for, and what the issuer does not grant is refused.
func TestAttackLoginWithoutScopes(t *testing.T) {
	t.Parallel()
	for granted, in := range map[string]bool{"": true, "openid mcp:call profile": true, "openid profile": false, "openid mcp:calls": false} {
		i := newLoginIssuer(t)
		i.Login.Scope = granted
		s := newLoginSite(t, func(site string) auth.LoginOptions {
			o := atIssuer(i)(site)
			o.OIDC.Required = []string{"mcp:call"}
			return o
		})
		b := newBrowser(t)
		var asked string
		b.CheckRedirect = func(req *http.Request, _ []*http.Request) error {
			if req.URL.Path == "/authorize" {
				asked = req.URL.Query().Get("scope")
			}
			return nil
		}
		status, _ := visit(t, b, s.URL+"/approvals/x")
		if (status == http.StatusOK) != in || asked != "openid profile mcp:call" {
			t.Errorf("granted %q: HTTP %d %v; asked for %q", granted, status, s.refused(), asked)
		}
		var lacks *auth.MissingScopeError
		if !in && (!errors.As(s.refused(), &lacks) || lacks.Scope != "mcp:call") {
			t.Errorf("granted %q: %v", granted, s.refused())
		}
	}
}

// TestAttackLoginWithWithdrawnKey: an ID token signed with a key that the issuer has
// withdrawn does not sign its holder in.
func TestAttackLoginWithWithdrawnKey(t *testing.T) {
	t.Parallel()
	i := newLoginIssuer(t)
	i.Withdraw()
	s := newLoginSite(t, atIssuer(i))
	if status, _ := visit(t, newBrowser(t), s.URL+"/approvals/x"); status != http.StatusForbidden {
		t.Errorf("HTTP %d", status)
	}
}

func newLinkLogin(t *testing.T) *auth.Login {
	t.Helper()
	l, err := auth.NewLogin(auth.LoginOptions{Path: "/approvals", Key: loginKey, Link: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// fromHere is a request of a browser on this machine.
func fromHere(change ...func(*http.Request)) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:4483/approvals", nil)
	r = r.WithContext(contextWithLocal(r, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4483}))
	r.RemoteAddr = "127.0.0.1:50000"
	for _, f := range change {
		f(r)
	}
	return r
}

// TestAttackOneTimeLink: a link of the terminal signs in one browser, once, and
// nothing else does: no guess, no changed or old link, no link of another server.
func TestAttackOneTimeLink(t *testing.T) {
	t.Parallel()
	l := newLinkLogin(t)
	if _, err := l.Authenticate(fromHere()); !errors.Is(err, auth.ErrNotSignedIn) {
		t.Errorf("a program on this machine is let in without a link: %v", err)
	}
	code := auth.NewLinkCode(loginKey)
	enter := func(l *auth.Login, code string) (*http.Cookie, error) {
		w := httptest.NewRecorder()
		if err := l.SignInByLink(w, fromHere(), code); err != nil {
			return nil, err
		}
		return w.Result().Cookies()[0], nil
	}
	nonce, stamp, _ := strings.Cut(code, ".")
	expires, _, _ := strings.Cut(stamp, ".")
	for name, forged := range map[string]string{
		"nothing": "", "a dot": ".", "dots": "...", "a guess": "7K3F-9QWM", "without its end": code[:len(code)-1],
		"another nonce": "AAAAAAAAAAAAAAAAAAAAAAAAAA." + stamp, "later": nonce + ".zzzzzzz." + strings.TrimPrefix(stamp, expires+"."),
		"another key": auth.NewLinkCode([]byte("another key")),
		"a form":      nonce + "." + auth.NewStamps("approvals form", time.Hour, loginKey, nil).Sign(time.Now(), nonce),
	} {
		if _, err := enter(l, forged); err == nil {
			t.Errorf("%s signs in", name)
		}
	}
	cookie := perduretest.Must(enter(l, code))(t)
	signedIn := func(r *http.Request) { r.AddCookie(cookie) }
	if who, err := l.Authenticate(fromHere(signedIn)); err != nil || who.Caller() != auth.Anonymous {
		t.Errorf("after the link: %v, %v", who, err)
	}
	if _, err := enter(l, code); err == nil {
		t.Error("a link signs in twice")
	}
	l.SetClock(func() time.Time { return time.Now().Add(auth.LinkLife + 2*time.Second) })
	if _, err := enter(l, auth.NewLinkCode(loginKey)); err == nil {
		t.Error("an old link signs in")
	}
	l.SetClock(func() time.Time { return time.Now().Add(9 * time.Hour) })
	if _, err := l.Authenticate(fromHere(signedIn)); !errors.Is(err, auth.ErrNotSignedIn) {
		t.Errorf("a session lasts longer than 8 hours: %v", err)
	}
	for name, err := range map[string]error{
		"by a token":      l.SignIn(httptest.NewRecorder(), fromHere(), code),
		"from afar":       l.SignInByLink(httptest.NewRecorder(), fromHere(func(r *http.Request) { r.RemoteAddr = "192.0.2.1:1" }), auth.NewLinkCode(loginKey)),
		"by another host": l.SignInByLink(httptest.NewRecorder(), fromHere(func(r *http.Request) { r.Host = "evil.example" }), auth.NewLinkCode(loginKey)),
	} {
		if err == nil {
			t.Errorf("a link signs in %s", name)
		}
	}
}

// TestLinkSessionSurvivesRestart: the browser stays signed in when dev starts
// again; an earlier link does not sign in once more.
func TestLinkSessionSurvivesRestart(t *testing.T) {
	t.Parallel()
	before := newLinkLogin(t)
	code := auth.NewLinkCode(loginKey)
	w := httptest.NewRecorder()
	perduretest.NoError(t, before.SignInByLink(w, fromHere(), code))
	after := newLinkLogin(t)
	if _, err := after.Authenticate(fromHere(func(r *http.Request) { r.AddCookie(w.Result().Cookies()[0]) })); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	later, err := auth.NewLoginAt(auth.LoginOptions{Path: "/approvals", Key: loginKey, Link: true}, func() time.Time { return time.Now().Add(2 * time.Second) })
	if err != nil {
		t.Fatal(err)
	}
	if err := later.SignInByLink(httptest.NewRecorder(), fromHere(), code); err == nil {
		t.Error("a used link signs in again after a restart")
	}
}

// TestAttackSessionOfAnotherLogin: a cookie counts only where people sign in the
// way it was given out.
func TestAttackSessionOfAnotherLogin(t *testing.T) {
	t.Parallel()
	i := newLoginIssuer(t)
	logins := map[string]*auth.Login{}
	for name, o := range map[string]auth.LoginOptions{
		"link": {Link: true}, "token": {Tokens: auth.Everybody{}}, "closed": {},
		"issuer": {PublicURL: "http://127.0.0.1:4483", OIDC: &auth.OIDCLogin{Issuer: i.URL, ClientID: "perdure"}},
	} {
		o.Path, o.Key = "/approvals", loginKey
		l := perduretest.Must(auth.NewLogin(o))(t)
		logins[name] = l
	}
	cookies := map[string]*http.Cookie{}
	w := httptest.NewRecorder()
	perduretest.NoError(t, logins["link"].SignInByLink(w, fromHere(), auth.NewLinkCode(loginKey)))
	cookies["link"] = w.Result().Cookies()[0]
	w = httptest.NewRecorder()
	perduretest.NoError(t, logins["token"].SignIn(w, fromHere(), "a-token"))
	cookies["token"] = w.Result().Cookies()[0]
	for from, cookie := range cookies {
		for at, l := range logins {
			if _, err := l.Authenticate(fromHere(func(r *http.Request) { r.AddCookie(cookie) })); (err == nil) != (from == at) {
				t.Errorf("a session by %s where one signs in by %s: %v", from, at, err)
			}
		}
	}
	if _, err := logins["closed"].Authenticate(fromHere()); err == nil || !strings.Contains(err.Error(), "approvals.tokenFile") {
		t.Errorf("where nobody can sign in: %v", err)
	}
}

// TestAttackCallerTokenOnThePage: a token with which programs call opens no page,
// even if it stands in the list of those that do.
func TestAttackCallerTokenOnThePage(t *testing.T) {
	t.Parallel()
	l, err := auth.NewLogin(auth.LoginOptions{Path: "/approvals", Key: loginKey, Tokens: auth.Everybody{}, Callers: onlyToken("the-agents-token"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.SignIn(httptest.NewRecorder(), fromHere(), "the-agents-token"); !errors.Is(err, auth.ErrCallerToken) {
		t.Errorf("a caller's token: %v", err)
	}
	if err := l.SignIn(httptest.NewRecorder(), fromHere(), "a-persons-token"); err != nil {
		t.Errorf("a person's token: %v", err)
	}
	bearing := fromHere(func(r *http.Request) { r.Header.Set("Authorization", "Bearer a-persons-token") })
	if _, err := l.Authenticate(bearing); !errors.Is(err, auth.ErrNotSignedIn) {
		t.Errorf("a bearer token without a cookie: %v", err)
	}
}

// TestAttackCallerTokenWithoutItsIssuer: a token opens no page while the gateway cannot
// check whether it is one that programs call with.
func TestAttackCallerTokenWithoutItsIssuer(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusForbidden} {
		l, err := auth.NewLogin(auth.LoginOptions{Path: "/approvals", Key: loginKey, Tokens: auth.Everybody{}, Callers: refusing(status), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.SignIn(httptest.NewRecorder(), fromHere(), "some.jwt.token"); err == nil {
			t.Errorf("callers are answered with %d: the token opens the page", status)
		}
	}
}

// refusing refuses every token with a status.
type refusing int

func (s refusing) Authenticate(*http.Request) (auth.Identity, error) {
	return auth.Identity{}, &auth.Refusal{Status: int(s), Err: errors.New("refused"), Message: "refused"}
}

// onlyToken knows one token.
type onlyToken string

func (t onlyToken) Authenticate(r *http.Request) (auth.Identity, error) {
	if r.Header.Get("Authorization") != "Bearer "+string(t) {
		return auth.Identity{}, errors.New("unknown token")
	}
	return auth.Identity{Subject: "agent"}, nil
}

// TestAttackGuessing: a client that tries too often has to wait, and no other client does.
func TestAttackGuessing(t *testing.T) {
	t.Parallel()
	tokens, err := auth.NewLogin(auth.LoginOptions{Path: "/approvals", Key: loginKey, Tokens: onlyToken("right"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	links := newLinkLogin(t)
	from := func(address string) func(*http.Request) {
		return func(r *http.Request) { r.RemoteAddr = address }
	}
	for name, try := range map[string]func(address string) error{
		"token": func(a string) error { return tokens.SignIn(httptest.NewRecorder(), fromHere(from(a)), "wrong") },
		"link":  func(a string) error { return links.SignInByLink(httptest.NewRecorder(), fromHere(from(a)), "wrong") },
	} {
		var often *auth.ThrottledError
		for n := range 31 {
			err := try(fmt.Sprintf("127.0.0.1:%d", 1000+n))
			if throttled := errors.As(err, &often); err == nil || throttled != (n == 30) {
				t.Errorf("%s, guess %d: %v", name, n, err)
			}
		}
		if often == nil || often.After <= 0 || often.After > 3*time.Second {
			t.Errorf("%s: try again in %v", name, often)
		}
		if err := try("127.0.0.2:1"); errors.As(err, &often) {
			t.Errorf("%s: somebody else has to wait, too", name)
		}
	}
	var often *auth.ThrottledError
	if err := tokens.SignIn(httptest.NewRecorder(), fromHere(from("127.0.0.1:9")), "right"); !errors.As(err, &often) {
		t.Errorf("the right guess comes through: %v", err)
	}
	for n := range 31 { // one network of IPv6 is one address
		err = tokens.SignIn(httptest.NewRecorder(), fromHere(from(fmt.Sprintf("[2001:db8::%x]:1", n+1))), "wrong")
	}
	if !errors.As(err, &often) {
		t.Errorf("31 guesses from one network: %v", err)
	}
}

// TestAttackLockingOutOfTokens: strangers at an address use up what is counted for it;
// who has signed in there before, in the same browser, signs in nevertheless, and has no
// more guesses than others.
func TestAttackLockingOutOfTokens(t *testing.T) {
	t.Parallel()
	tokens, err := auth.NewLogin(auth.LoginOptions{Path: "/approvals", Key: loginKey, Tokens: onlyToken("right"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	perduretest.NoError(t, tokens.SignIn(w, fromHere(), "right"))
	var cookies []*http.Cookie
	for _, c := range w.Result().Cookies() {
		if strings.HasSuffix(c.Name, "perdure-known") {
			cookies = append(cookies, c)
		}
	}
	if len(cookies) != 1 || !cookies[0].HttpOnly {
		t.Fatalf("the browser got %v", w.Result().Cookies())
	}
	known := func(r *http.Request) { r.AddCookie(cookies[0]) }
	forged := func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookies[0].Name, Value: "x" + cookies[0].Value}) }
	try := func(token string, change ...func(*http.Request)) error {
		return tokens.SignIn(httptest.NewRecorder(), fromHere(change...), token)
	}
	for range 30 {
		_ = try("wrong")
	}
	var often *auth.ThrottledError
	for name, change := range map[string][]func(*http.Request){"an unknown browser": nil, "a forged cookie": {forged}} {
		if err := try("right", change...); !errors.As(err, &often) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := try("right", known); err != nil {
		t.Errorf("a known browser: %v", err)
	}
	for range 29 {
		_ = try("wrong", known)
	}
	if err := try("right", known); !errors.As(err, &often) {
		t.Errorf("after 30 attempts of a known browser: %v", err)
	}
}

// TestAttackLockingOut: strangers who share an address with people, as all do behind
// a proxy, cannot stop these from signing in at an issuer, whose codes cannot be guessed.
// The issuer is spared what one browser sends again and again.
func TestAttackLockingOut(t *testing.T) {
	t.Parallel()
	i := newLoginIssuer(t)
	s := newLoginSite(t, atIssuer(i))
	for range 100 {
		visit(t, newBrowser(t), s.URL+"/approvals/callback?code=x&state="+strings.Repeat("A", 26))
	}
	if status, body := visit(t, newBrowser(t), s.URL+"/approvals/deploy/1"); status != http.StatusOK {
		t.Fatalf("after the callbacks of strangers: HTTP %d %s %v", status, body, s.refused())
	}
	b, callback := newBrowser(t), ""
	b.CheckRedirect = func(req *http.Request, _ []*http.Request) error {
		if req.URL.Path == "/approvals/callback" {
			callback = req.URL.String()
			return http.ErrUseLastResponse
		}
		return nil
	}
	visit(t, b, s.URL+"/approvals/deploy/1")
	cookies := b.Jar.Cookies(mustParse(t, s.URL))
	for n := range 31 {
		b.Jar.SetCookies(mustParse(t, s.URL), cookies) // which the callback takes away
		visit(t, b, strings.Replace(callback, "code=", "code=x", 1))
		var often *auth.ThrottledError
		if throttled := errors.As(s.refused(), &often); throttled != (n == 30) {
			t.Errorf("code %d of one sign-in: %v", n, s.refused())
		}
	}
	if status, body := visit(t, newBrowser(t), s.URL+"/approvals/deploy/1"); status != http.StatusOK {
		t.Errorf("after the codes of a stranger: HTTP %d %s %v", status, body, s.refused())
	}
}

// TestOnThisMachine: where one signs in by a link of the terminal, only browsers on
// this machine that have asked for this machine get as far.
func TestOnThisMachine(t *testing.T) {
	t.Parallel()
	l := newLinkLogin(t)
	for _, tt := range []struct {
		name    string
		change  func(*http.Request)
		refused bool
	}{
		{"plain", func(*http.Request) {}, false},
		{"by name", func(r *http.Request) { r.Host = "localhost:4483" }, false},
		{"IPv6", func(r *http.Request) { r.Host = "[::1]:4483" }, false},
		{"own origin", func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:4483") }, false},
		{"rebound name", func(r *http.Request) { r.Host = "evil.example" }, true},
		{"rebound name with port", func(r *http.Request) { r.Host = "127.0.0.1.evil.example:4483" }, true},
		{"another site", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, true},
		{"opaque origin", func(r *http.Request) { r.Header.Set("Origin", "null") }, true},
		{"a proxy", func(r *http.Request) { r.Header.Set("X-Forwarded-For", "203.0.113.1") }, true},
		{"elsewhere", func(r *http.Request) { r.RemoteAddr = "192.0.2.1:1" }, true},
	} {
		if _, err := l.Authenticate(fromHere(tt.change)); err == nil || errors.Is(err, auth.ErrNotSignedIn) == tt.refused {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	elsewhere := fromHere()
	elsewhere = elsewhere.WithContext(contextWithLocal(elsewhere, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 4483}))
	if _, err := l.Authenticate(elsewhere); err == nil || errors.Is(err, auth.ErrNotSignedIn) {
		t.Errorf("a request to an address that is not loopback: %v", err)
	}
}

func contextWithLocal(r *http.Request, local net.Addr) context.Context {
	return context.WithValue(r.Context(), http.LocalAddrContextKey, local)
}
