package auth_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/perduretest"
)

const resource = "https://tools.example.com/mcp"

func newOIDC(t *testing.T, issuer *perduretest.Issuer, change ...func(*auth.OIDCOptions)) *auth.OIDC {
	t.Helper()
	o := auth.OIDCOptions{Issuer: issuer.URL, Audience: resource, Resource: resource, Scopes: []string{"mcp:call"}}
	for _, f := range change {
		f(&o)
	}
	a := perduretest.Must(auth.NewOIDC(o))(t)
	return a
}

func request(headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func withToken(token string) *http.Request { return request("Authorization", "Bearer "+token) }

// refused is how the answer to a refused request looks.
func refused(t *testing.T, err error) (status int, challenge, body string) {
	t.Helper()
	if err == nil {
		return http.StatusOK, "", ""
	}
	w := httptest.NewRecorder()
	auth.Refuse(w, err)
	return w.Code, w.Header().Get("WWW-Authenticate"), w.Body.String()
}

var call = perduretest.Claims{"scope": "openid mcp:call"}

func with(more perduretest.Claims) perduretest.Claims {
	claims := perduretest.Claims{"scope": "openid mcp:call"}
	for k, v := range more {
		claims[k] = v
	}
	return claims
}

// TestOIDC: what a good token says of who sent it.
func TestOIDC(t *testing.T) {
	t.Parallel()
	issuer := perduretest.NewIssuer(t)
	for name, tc := range map[string]struct {
		claim  string
		claims perduretest.Claims
		groups []string
		client string
		change func(*auth.OIDCOptions)
	}{
		"groups":             {"", perduretest.Claims{"groups": []string{"dev", "ops"}, "client_id": "inspector"}, []string{"dev", "ops"}, "inspector", nil},
		"one group":          {"", perduretest.Claims{"groups": "dev"}, []string{"dev"}, "", nil},
		"one group of words": {"", perduretest.Claims{"groups": "Domain Admins"}, []string{"Domain Admins"}, "", nil},
		"no groups":          {"", perduretest.Claims{"azp": "web"}, nil, "web", nil},
		"groups by path":     {"realm_access.roles", perduretest.Claims{"realm_access": map[string]any{"roles": []any{"admin", 7}}}, []string{"admin"}, "", nil},
		"groups by URL":      {"https://x.example/groups", perduretest.Claims{"https://x.example/groups": []string{"dev"}}, []string{"dev"}, "", nil},
		"path that is none":  {"a.b.c", perduretest.Claims{"a": "x"}, nil, "", nil},
		"groups of no shape": {"", perduretest.Claims{"groups": map[string]any{"a": 1}}, nil, "", nil},
		"scp":                {"", perduretest.Claims{"scope": nil, "scp": []string{"mcp:call"}}, nil, "", nil},
		"several audiences":  {"", perduretest.Claims{"aud": []string{"other", resource + "/"}}, nil, "", nil},
		"clocks differ":      {"", perduretest.Claims{"exp": time.Now().Add(-10 * time.Second).Unix(), "nbf": float64(time.Now().Add(10*time.Second).Unix()) + 0.5}, nil, "", nil},
		"keys by URL":        {"", nil, nil, "", func(o *auth.OIDCOptions) { o.JWKSURL = issuer.URL + "/keys" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newOIDC(t, issuer, func(o *auth.OIDCOptions) {
				o.GroupsClaim = tc.claim
				if tc.change != nil {
					tc.change(o)
				}
			})
			token := issuer.Token("alice", resource, with(tc.claims))
			who := perduretest.Must(a.Authenticate(withToken(token)))(t)
			if who.Subject != "alice" || who.Issuer != issuer.URL || who.Token != token || who.Client != tc.client || who.Expires.IsZero() ||
				!slices.Equal(who.Groups, tc.groups) || !slices.Contains(who.Scopes, "mcp:call") {
				t.Errorf("identity %+v", who)
			}
			if text, err := json.Marshal(who); err != nil || strings.Contains(string(text), token) {
				t.Errorf("an identity is marshalled with its token: %s %v", text, err)
			}
		})
	}
}

// TestOIDCRefuses: every token that must not be taken, and how that is
// answered: RFC 6750, RFC 9728 and the authorization chapter of MCP.
func TestOIDCRefuses(t *testing.T) {
	t.Parallel()
	issuer, other := perduretest.NewIssuer(t), perduretest.NewIssuer(t)
	a := newOIDC(t, issuer)
	forged := perduretest.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	good := issuer.Token("alice", resource, call)
	parts := strings.Split(good, ".")
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + parts[1] + "."
	hour := func(n time.Duration) int64 { return time.Now().Add(n * time.Hour).Unix() }
	for name, tc := range map[string]struct {
		request *http.Request
		status  int
		has     []string
	}{
		"no token":          {request(), 401, nil},
		"basic":             {request("Authorization", "Basic YTpi"), 401, nil},
		"empty":             {request("Authorization", "Bearer "), 401, nil},
		"two tokens":        {request("Authorization", "Bearer "+good, "Authorization", "Bearer "+good), 401, nil},
		"not a token":       {withToken("abc"), 401, []string{`error="invalid_token"`}},
		"another issuer's":  {withToken(other.Token("alice", resource, call)), 401, []string{`error="invalid_token"`}},
		"another's name":    {withToken(other.Token("alice", resource, with(perduretest.Claims{"iss": issuer.URL}))), 401, []string{`error="invalid_token"`}},
		"audience":          {withToken(issuer.Token("alice", "https://other.example.com/mcp", call)), 401, []string{`error="invalid_token"`, "another audience"}},
		"no audience":       {withToken(issuer.Token("alice", resource, with(perduretest.Claims{"aud": nil}))), 401, []string{"another audience"}},
		"expired":           {withToken(issuer.Token("alice", resource, with(perduretest.Claims{"exp": hour(-1)}))), 401, []string{"has expired"}},
		"never expires":     {withToken(issuer.Token("alice", resource, with(perduretest.Claims{"exp": nil}))), 401, []string{"has expired"}},
		"not yet":           {withToken(issuer.Token("alice", resource, with(perduretest.Claims{"nbf": time.Now().Add(2 * time.Minute).Unix()}))), 401, []string{"not valid yet"}},
		"no subject":        {withToken(issuer.Token("", resource, with(perduretest.Claims{"sub": nil}))), 401, []string{"no subject"}},
		"alg none":          {withToken(unsigned), 401, []string{`error="invalid_token"`}},
		"changed":           {withToken(parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"root"}`)) + "." + parts[2]), 401, []string{`error="invalid_token"`}},
		"symmetric":         {withToken(issuer.TokenBy(jose.SigningKey{Algorithm: jose.HS256, Key: bytes.Repeat([]byte("k"), 32)}, "alice", resource, call)), 401, []string{`error="invalid_token"`}},
		"forged":            {withToken(issuer.TokenBy(jose.SigningKey{Algorithm: jose.ES256, Key: forged}, "alice", resource, call)), 401, []string{`error="invalid_token"`}},
		"insufficient":      {withToken(issuer.Token("alice", resource, perduretest.Claims{"scope": "mcp:calls"})), 403, []string{`error="insufficient_scope"`}},
		"no scope":          {withToken(issuer.Token("alice", resource, nil)), 403, []string{`error="insufficient_scope"`}},
		"expiry is a text":  {withToken(issuer.Token("alice", resource, with(perduretest.Claims{"exp": strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10)}))), 401, []string{`error="invalid_token"`}},
		"a claim of a list": {withToken(issuer.Token("alice", resource, with(perduretest.Claims{"exp": []int{1}}))), 401, []string{`error="invalid_token"`}},
	} {
		who, err := a.Authenticate(tc.request)
		status, challenge, body := refused(t, err)
		if status != tc.status || who.Subject != "" {
			t.Errorf("%s: answered %d, identity %+v", name, status, who)
		}
		has := append(tc.has, `resource_metadata="https://tools.example.com/.well-known/oauth-protected-resource/mcp"`, `scope="mcp:call"`)
		for _, part := range has {
			if !strings.HasPrefix(challenge, "Bearer ") || !strings.Contains(challenge, part) {
				t.Errorf("%s: WWW-Authenticate %q lacks %q", name, challenge, part)
			}
		}
		if tc.has == nil && strings.Contains(challenge, "error=") {
			t.Errorf("%s: WWW-Authenticate %q has an error, though no token was sent", name, challenge)
		}
		if err != nil && (strings.Contains(err.Error(), parts[2]) || strings.Contains(body, parts[2])) {
			t.Errorf("%s: the refusal has the token in it", name)
		}
	}
	if _, err := a.Authenticate(withToken(good)); err != nil {
		t.Errorf("a good token among all these: %v", err)
	}
}

// TestUnknownKeys: tokens with unknown keys do not make us ask the
// issuer again and again.
func TestUnknownKeys(t *testing.T) {
	t.Parallel()
	issuer, other := perduretest.NewIssuer(t), perduretest.NewIssuer(t)
	a := newOIDC(t, issuer)
	if _, err := a.Authenticate(withToken(issuer.Token("alice", resource, call))); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			other.Rotate()
			token := other.Token("alice", resource, with(perduretest.Claims{"iss": issuer.URL}))
			if status, _, _ := refused(t, second(a.Authenticate(withToken(token)))); status != 401 {
				t.Errorf("answered %d", status)
			}
		})
	}
	all.Wait()
	if n := issuer.Fetches.Load(); n > 2 {
		t.Errorf("20 tokens with unknown keys fetched the keys %d times", n)
	}
}

func second[T any](_ T, err error) error { return err }

// A clock is what time it is for the keys of an issuer.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time             { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) advance(d time.Duration)    { c.ahead.Add(int64(d)) }
func (c *clock) of(a *auth.OIDC) *auth.OIDC { a.SetClock(c.now); return a }

// TestAttackWithdrawnKey: a key that the issuer has withdrawn verifies for a
// minute at most, be there requests meanwhile or none, and even if the issuer
// has no key left.
func TestAttackWithdrawnKey(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][]time.Duration{
		"after idle time":   {time.Minute},
		"after hours":       {5 * time.Hour},
		"used all the time": {20 * time.Second, 20 * time.Second, 20 * time.Second},
	} {
		for _, withdraw := range []func(*perduretest.Issuer){(*perduretest.Issuer).Rotate, (*perduretest.Issuer).Withdraw} {
			issuer, c := perduretest.NewIssuer(t), &clock{}
			a := c.of(newOIDC(t, issuer))
			old := issuer.Token("alice", resource, with(perduretest.Claims{"exp": time.Now().Add(24 * time.Hour).Unix()}))
			if _, err := a.Authenticate(withToken(old)); err != nil {
				t.Fatal(err)
			}
			withdraw(issuer)
			var status int
			for _, step := range steps {
				c.advance(step)
				status, _, _ = refused(t, second(a.Authenticate(withToken(old))))
			}
			if status != 401 {
				t.Errorf("%s: a token with a key that was withdrawn a minute ago is answered %d", name, status)
			}
		}
	}
}

// TestKeyRotation: a new key is taken as soon as it may be asked for, and the old
// one then no longer.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	issuer, c := perduretest.NewIssuer(t), &clock{}
	a := c.of(newOIDC(t, issuer))
	old := issuer.Token("alice", resource, call)
	if _, err := a.Authenticate(withToken(old)); err != nil {
		t.Fatal(err)
	}
	issuer.Rotate()
	c.advance(11 * time.Second)
	if _, err := a.Authenticate(withToken(issuer.Token("alice", resource, call))); err != nil {
		t.Errorf("token with the new key: %v", err)
	}
	if _, err := a.Authenticate(withToken(old)); err == nil {
		t.Error("a token with a key that was withdrawn is still taken")
	}
}

// TestIssuerDown: without the issuer nothing fails for a while that has its keys; what
// has none reports that it is the issuer's fault, and recovers by itself.
func TestIssuerDown(t *testing.T) {
	t.Parallel()
	issuer, c := perduretest.NewIssuer(t), &clock{}
	issuer.Down.Store(true)
	a := c.of(newOIDC(t, issuer))
	token := issuer.Token("alice", resource, call)
	try := func() (int, string) {
		c.advance(11 * time.Second)
		status, _, body := refused(t, second(a.Authenticate(withToken(token))))
		return status, body
	}
	if status, body := try(); status != 503 || !strings.Contains(body, "issuer cannot be reached") {
		t.Errorf("while the issuer is down: %d %s", status, body)
	}
	issuer.Down.Store(false)
	if status, body := try(); status != 200 {
		t.Errorf("after the issuer has come back: %d %s", status, body)
	}
	issuer.Down.Store(true)
	for range 5 {
		c.advance(2 * time.Minute)
		if status, body := try(); status != 200 {
			t.Errorf("with the keys of before: %d %s", status, body)
		}
	}
	c.advance(5 * time.Minute)
	if status, _ := try(); status != 503 {
		t.Errorf("when the keys of before are too old: %d", status)
	}
	issuer.Down.Store(false)
	if status, body := try(); status != 200 {
		t.Errorf("after the issuer has come back again: %d %s", status, body)
	}
}

// TestIssuerIsProbed: probes keep the keys current without a request. An outage is found
// after a minute, and once in the log; tokens can be checked for another 14 minutes.
func TestIssuerIsProbed(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	issuer, c := perduretest.NewIssuer(t), &clock{}
	a := c.of(newOIDC(t, issuer, func(o *auth.OIDCOptions) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) }))
	if a.Usable() {
		t.Error("usable before keys were fetched")
	}
	probe := func(after time.Duration) error {
		c.advance(after)
		return a.Probe(t.Context())
	}
	for range 20 {
		if err := probe(5 * time.Second); err != nil || !a.Usable() {
			t.Errorf("probed: %v, usable = %t", err, a.Usable())
		}
	}
	if n := issuer.Fetches.Load(); n != 4 {
		t.Errorf("%d fetches in 100 s", n)
	}
	issuer.Down.Store(true)
	if err := probe(31 * time.Second); err != nil {
		t.Errorf("the first fetch that fails: %v", err)
	}
	for range 3 {
		if err := probe(30 * time.Second); err == nil || !strings.Contains(err.Error(), "503") || !a.Usable() {
			t.Errorf("while the issuer is down: %v, usable = %t", err, a.Usable())
		}
	}
	if err := probe(15 * time.Minute); err == nil || a.Usable() {
		t.Errorf("when the keys of before are too old: %v, usable = %t", err, a.Usable())
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings: %s", n, &log)
	}
	issuer.Down.Store(false)
	if err := probe(10 * time.Second); err != nil || !a.Usable() {
		t.Errorf("after the issuer has come back: %v, usable = %t", err, a.Usable())
	}
}

// TestAttackIDToken: an ID token reports who signed in somewhere. It does not allow calls,
// even where its audience is the one that tokens must have.
func TestAttackIDToken(t *testing.T) {
	t.Parallel()
	issuer := perduretest.NewIssuer(t)
	a := newOIDC(t, issuer, func(o *auth.OIDCOptions) { o.Audience, o.LoginClient, o.Scopes = "perdure", "perdure", nil })
	for name, tc := range map[string]struct {
		typ    string
		claims perduretest.Claims
		taken  bool
	}{
		"access token of RFC 9068":         {"at+jwt", nil, true},
		"the same by its whole media type": {"application/at+JWT", nil, true},
		"access token of Keycloak":         {"JWT", perduretest.Claims{"typ": "Bearer"}, true},
		"access token with scopes":         {"JWT", perduretest.Claims{"scope": "mcp:call"}, true},
		"access token without a type":      {"", perduretest.Claims{"client_id": "inspector"}, true},
		"ID token with a nonce":            {"JWT", perduretest.Claims{"nonce": "x", "scope": "mcp:call"}, false},
		"ID token with at_hash":            {"JWT", perduretest.Claims{"at_hash": "x", "scope": "mcp:call"}, false},
		"ID token with c_hash":             {"", perduretest.Claims{"c_hash": "x", "scope": "mcp:call"}, false},
		"ID token of Keycloak":             {"JWT", perduretest.Claims{"typ": "ID", "scope": "mcp:call"}, false},
		"refresh token of Keycloak":        {"JWT", perduretest.Claims{"typ": "Refresh", "scope": "mcp:call"}, false},
		"ID token without anything":        {"JWT", perduretest.Claims{"azp": "perdure"}, false},
		"logout token":                     {"logout+jwt", perduretest.Claims{"scope": "mcp:call"}, false},
	} {
		status, challenge, _ := refused(t, second(a.Authenticate(withToken(issuer.TokenOf(tc.typ, "alice", "perdure", tc.claims)))))
		if taken := status == 200; taken != tc.taken || !taken && (status != 401 || !strings.Contains(challenge, "not an access token")) {
			t.Errorf("%s: answered %d %s", name, status, challenge)
		}
	}
}

// TestMetadata: RFC 9728, for pages of any origin.
func TestMetadata(t *testing.T) {
	t.Parallel()
	issuer := perduretest.NewIssuer(t)
	a := newOIDC(t, issuer)
	for path, status := range map[string]int{
		"/.well-known/oauth-protected-resource": 200, "/.well-known/oauth-protected-resource/mcp": 200,
		"/.well-known/oauth-protected-resource/other": 404,
	} {
		w := httptest.NewRecorder()
		a.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != status || w.Header().Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
		if status != 200 {
			continue
		}
		var doc struct {
			Resource string   `json:"resource"`
			Servers  []string `json:"authorization_servers"`
			Scopes   []string `json:"scopes_supported"`
		}
		perduretest.NoError(t, json.Unmarshal(w.Body.Bytes(), &doc))
		if doc.Resource != resource || !slices.Equal(doc.Servers, []string{issuer.URL}) || !slices.Equal(doc.Scopes, []string{"mcp:call"}) {
			t.Errorf("%s: %s", path, w.Body)
		}
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, httptest.NewRequest(http.MethodOptions, auth.WellKnown, nil))
	if w.Code != http.StatusNoContent {
		t.Errorf("OPTIONS: %d", w.Code)
	}
}

func TestOIDCOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []auth.OIDCOptions{
		{},
		{Issuer: "x", Audience: "a", Resource: resource},
		{Issuer: "https://idp.example.com#x", Audience: "a", Resource: resource},
		{Issuer: idp, Audience: "a", Resource: "vmcp"},
		{Issuer: idp, Resource: resource},
	} {
		if _, err := auth.NewOIDC(o); err == nil {
			t.Errorf("NewOIDC(%+v) has no error", o)
		}
	}
}

// TestRefuse: no client sees an error that is not a Refusal.
func TestRefuse(t *testing.T) {
	t.Parallel()
	status, challenge, body := refused(t, errors.New("database password"))
	if status != 401 || challenge != "Bearer" || strings.Contains(body, "password") {
		t.Errorf("%d %q %q", status, challenge, body)
	}
	who, err := auth.Everybody{}.Authenticate(request())
	if err != nil || who.Subject != auth.Anonymous {
		t.Errorf("Everybody: %+v, %v", who, err)
	}
}

func logTo(buf *bytes.Buffer) *slog.Logger { return slog.New(slog.NewTextHandler(buf, nil)) }

// TestAttackEndlessIssuer: an issuer whose answers do not end takes no more memory than
// what one answer may have, neither for tokens nor at the sign-in.
func TestAttackEndlessIssuer(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(t *testing.T, url string){
		"discovery": func(t *testing.T, url string) {
			a := newOIDC(t, &perduretest.Issuer{URL: url})
			if _, err := a.Authenticate(withToken("a.b.c")); err == nil {
				t.Error("a token is accepted without keys")
			} else if status, _, _ := refused(t, err); status != http.StatusServiceUnavailable {
				t.Errorf("status %d", status)
			}
		},
		"keys": func(t *testing.T, url string) {
			a := newOIDC(t, &perduretest.Issuer{URL: url}, func(o *auth.OIDCOptions) { o.JWKSURL = url + "/keys" })
			if _, err := a.Authenticate(withToken("a.b.c")); err == nil {
				t.Error("a token is accepted without keys")
			}
		},
		"sign-in": func(t *testing.T, url string) {
			s := newLoginSite(t, atIssuer(&perduretest.Issuer{URL: url}))
			visit(t, newBrowser(t), s.URL+"/approvals/deploy/1")
			if s.refused() == nil {
				t.Error("a sign-in begins at an issuer without endpoints")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for chunk := bytes.Repeat([]byte("a"), 64<<10); sent.Load() < 64<<20; sent.Add(int64(len(chunk))) {
					if _, err := w.Write(chunk); err != nil {
						return
					}
				}
			}))
			t.Cleanup(server.Close)
			ask(t, server.URL)
			server.Close() // after which nothing is sent any more
			if got := sent.Load(); got > 32<<20 {
				t.Errorf("%d bytes of an answer were read", got)
			}
		})
	}
}
