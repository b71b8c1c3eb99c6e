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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/gateway/auth/authtest"
)

var loginKey = []byte("a key that all replicas share, and nobody else")

// newLoginIssuer is an issuer at which ann is signed in already.
func newLoginIssuer(t *testing.T) *authtest.Issuer {
	t.Helper()
	i := authtest.NewIssuer(t)
	i.Login = authtest.Login{Subject: "ann", ClientID: "perdure", Secret: "the-secret", Claims: authtest.Claims{
		"groups": []string{"approvers", "staff"}, "realm": map[string]any{"roles": []string{"admin"}}}}
	return i
}

// loginSite has pages for which one signs in: they say who it is.
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
			fmt.Fprintf(w, "%s is %s in %v", r.URL.RequestURI(), who.Principal(), who.Groups)
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

// refused says why nobody was signed in the last time.
func (s *loginSite) refused() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func newBrowser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar, Timeout: time.Minute}
}

func visit(t *testing.T, c *http.Client, url string, header ...string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(text))
}

func atIssuer(i *authtest.Issuer) func(string) auth.LoginOptions {
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
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestLoginThatIsRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		claims authtest.Claims
		answer func(url.Values)
		refuse bool
		want   string
	}{
		{name: "for another client", claims: authtest.Claims{"aud": "other"}, want: "not valid"},
		{name: "of another issuer", claims: authtest.Claims{"iss": "https://other.example"}, want: "not valid"},
		{name: "that has expired", claims: authtest.Claims{"exp": time.Now().Add(-time.Hour).Unix()}, want: "not valid"},
		{name: "with another nonce", claims: authtest.Claims{"nonce": "x"}, want: "another sign-in"},
		{name: "of nobody", claims: authtest.Claims{"sub": nil}, want: "nobody"},
		{name: "with too many groups", claims: authtest.Claims{"groups": strings.Split(strings.Repeat("a group,", 1000), ",")}, want: "too many groups"},
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
	if _, got := visit(t, b, s.URL+"/approvals/deploy/1"); !strings.Contains(got, "#ann") {
		t.Errorf("when it is back: %s %v", got, s.refused())
	}
}

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
		if err := l.SignIn(w, httptest.NewRequest(http.MethodPost, "/approvals/login", nil), "a-token"); err != nil {
			t.Fatal(err)
		}
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

// decodes leaves out the bits that unpadded base64 does not use.
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
	if err := l.SignIn(w, httptest.NewRequest(http.MethodPost, "/", nil), "a-token"); err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequest(http.MethodGet, "/approvals", nil)
	req.AddCookie(&http.Cookie{Name: "perdure-session", Value: w.Result().Cookies()[0].Value})
	if _, err := l.Authenticate(req); !errors.Is(err, auth.ErrNotSignedIn) {
		t.Errorf("got %v", err)
	}
}

func TestReturnTo(t *testing.T) {
	t.Parallel()
	l, err := auth.NewLogin(auth.LoginOptions{Path: "/approvals", Key: loginKey})
	if err != nil {
		t.Fatal(err)
	}
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

// TestLoopbackUser: without a way to sign in, only browsers on this machine
// that have asked for this machine are let in.
func TestLoopbackUser(t *testing.T) {
	t.Parallel()
	s := newLoginSite(t, func(string) auth.LoginOptions { return auth.LoginOptions{} })
	tests := []struct {
		name   string
		header []string
		status int
	}{
		{"plain", nil, http.StatusOK},
		{"by name", []string{"Host", "localhost:4483"}, http.StatusOK},
		{"IPv6", []string{"Host", "[::1]:4483"}, http.StatusOK},
		{"own origin", []string{"Origin", s.URL}, http.StatusOK},
		{"rebound name", []string{"Host", "evil.example"}, http.StatusForbidden},
		{"rebound name with port", []string{"Host", "127.0.0.1.evil.example:4483"}, http.StatusForbidden},
		{"another site", []string{"Origin", "https://evil.example"}, http.StatusForbidden},
		{"opaque origin", []string{"Origin", "null"}, http.StatusForbidden},
		{"a proxy", []string{"X-Forwarded-For", "203.0.113.1"}, http.StatusForbidden},
	}
	for _, tt := range tests {
		status, body := visit(t, newBrowser(t), s.URL+"/approvals/x", tt.header...)
		if status != tt.status || status == http.StatusOK && body != "/approvals/x is anonymous in []" {
			t.Errorf("%s: HTTP %d %s", tt.name, status, body)
		}
	}
	req := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/approvals", nil) // from 192.0.2.1
	if _, err := s.login.Authenticate(req); err == nil {
		t.Error("a request from elsewhere is let in")
	}
	local := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 4483}
	req = req.WithContext(contextWithLocal(req, local))
	req.RemoteAddr = "127.0.0.1:1"
	if _, err := s.login.Authenticate(req); err == nil {
		t.Error("a request to an address that is not loopback is let in")
	}
}

func contextWithLocal(r *http.Request, local net.Addr) context.Context {
	return context.WithValue(r.Context(), http.LocalAddrContextKey, local)
}
