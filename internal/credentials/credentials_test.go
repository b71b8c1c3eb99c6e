package credentials_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/credentials"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/store"
)

const patience = 2 * time.Minute

// A lab is a broker with a backend, a token endpoint and a store, all of the
// test's own. Everything that is logged or reported goes into said.
type lab struct {
	t       *testing.T
	backend *guarded
	idp     *tokenEndpoint
	dir     string // of the store
	broker  *credentials.Broker
	pool    *backends.Pool

	mu    sync.Mutex
	clock time.Duration // by which the broker's time is ahead
	said  bytes.Buffer
}

func newLab(t *testing.T, strategy func(*lab) credentials.Strategy) *lab {
	t.Helper()
	l := &lab{t: t, dir: t.TempDir()}
	l.backend = newGuarded(t)
	l.idp = newTokenEndpoint(t)
	l.start(strategy(l))
	return l
}

// start starts broker and pool as a process would that takes up the store of
// the one before, which has ended.
func (l *lab) start(s credentials.Strategy) {
	l.t.Helper()
	if l.pool != nil {
		l.pool.Close()
	}
	keys, err := store.NewKeys(bytes.Repeat([]byte("k"), 32))
	if err != nil {
		l.t.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
	grants, err := store.OpenFiles(l.dir, keys, logger)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(grants.Close)
	broker, err := credentials.New(credentials.Options{
		Strategies: map[string]credentials.Strategy{"be": s}, Grants: grants, Logger: logger, Now: l.now,
	})
	if err != nil {
		l.t.Fatal(err)
	}
	pool, err := backends.New([]backends.Config{{
		Name: "be", Transport: backends.StreamableHTTP, URL: l.backend.url, Credentials: broker.For("be"),
	}}, backends.Aggregation{}, logger)
	if err != nil {
		l.t.Fatal(err)
	}
	pool.Start(l.t.Context())
	l.t.Cleanup(pool.Close)
	l.broker, l.pool = broker, pool
}

func (l *lab) now() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Add(l.clock)
}

func (l *lab) pass(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock += d
}

func (l *lab) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said.Write(p)
}

// deposit gives the backends for which runs waited.
func (l *lab) deposit(who backends.Caller, needed ...string) []string {
	l.t.Helper()
	good, given := l.broker.Deposit(l.t.Context(), who, needed)
	for _, backend := range given {
		if !slices.Contains(good, backend) {
			l.t.Errorf("%s was given and is not good", backend)
		}
	}
	return given
}

// call calls the backend's tool for a caller.
func (l *lab) call(who backends.Caller) error {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	_, err := l.pool.Call(ctx, backends.Call{Backend: "be", Tool: "work", Caller: who})
	if err != nil {
		fmt.Fprintf(l, "error: %v\n", err)
	}
	return err
}

func (l *lab) must(who backends.Caller, header string) {
	l.t.Helper()
	if err := l.call(who); err != nil {
		l.t.Fatal(err)
	}
	if got := l.backend.last(); got != header {
		l.t.Errorf("the backend saw %q, want %q", got, header)
	}
}

// lacks checks that a call is not made for lack of a credential.
func (l *lab) lacks(who backends.Caller, reason string, caller bool) {
	l.t.Helper()
	before := l.backend.count()
	err := l.call(who)
	var ce *backends.CallError
	var needed *backends.CredentialsError
	if !errors.As(err, &ce) || ce.Outcome != backends.CredentialsNeeded || !errors.As(err, &needed) {
		l.t.Fatalf("error %v, want that a credential is needed", err)
	}
	if !strings.Contains(needed.Reason, reason) || needed.Caller != caller {
		l.t.Errorf("reason %q (caller: %t), want %q (%t)", needed.Reason, needed.Caller, reason, caller)
	}
	if n := l.backend.count(); n != before {
		l.t.Errorf("the tool was executed %d times", n-before)
	}
}

// silent checks that secrets are nowhere in what was said.
func (l *lab) silent(secrets ...string) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, secret := range secrets {
		if strings.Contains(l.said.String(), secret) {
			l.t.Errorf("%q is in logs or errors:\n%s", secret, l.said.String())
		}
	}
}

// A guarded is an MCP backend that takes requests with certain headers only.
type guarded struct {
	url string

	mu     sync.Mutex
	header string // that is looked at
	valid  map[string]bool
	calls  []string // values of the header of executed calls
	seen   []http.Header
}

func newGuarded(t *testing.T, options ...server.StreamableHTTPOption) *guarded {
	g := &guarded{header: "Authorization", valid: map[string]bool{}}
	s := server.NewMCPServer("guarded", "1", server.WithToolCapabilities(true))
	s.AddTool(mcp.NewTool("work"), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.calls = append(g.calls, req.Header.Get(g.header))
		return mcp.NewToolResultText("done"), nil
	})
	inner := server.NewStreamableHTTPServer(s, options...)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		ok := g.valid[r.Header.Get(g.header)]
		g.seen = append(g.seen, r.Header.Clone())
		g.mu.Unlock()
		if !ok {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	g.url = web.URL
	return g
}

func (g *guarded) accept(values ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.valid)
	for _, v := range values {
		g.valid[v] = true
	}
}

func (g *guarded) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.calls)
}

func (g *guarded) last() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.calls) == 0 {
		return ""
	}
	return g.calls[len(g.calls)-1]
}

// A tokenEndpoint answers as the test says, and notes what it was asked.
type tokenEndpoint struct {
	url string

	mu     sync.Mutex
	answer func(form url.Values, user, password string) (status int, body string)
	forms  []url.Values
}

func newTokenEndpoint(t *testing.T) *tokenEndpoint {
	e := &tokenEndpoint{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.forms = append(e.forms, r.PostForm)
		status, body := e.answer(r.PostForm, user, password)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(web.Close)
	e.url = web.URL + "/token"
	return e
}

func (e *tokenEndpoint) answers(f func(form url.Values, user, password string) (int, string)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = f
}

func (e *tokenEndpoint) asked() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.forms)
}

// tokens answers with tokens that count up: PREFIX-1, PREFIX-2, …
func tokens(prefix string, seconds int, refresh bool) func(url.Values, string, string) (int, string) {
	n := 0
	return func(url.Values, string, string) (int, string) {
		n++
		body := map[string]any{"access_token": fmt.Sprintf("%s-%d", prefix, n), "token_type": "Bearer", "expires_in": seconds}
		if refresh {
			body["refresh_token"] = fmt.Sprintf("%s-refresh-%d", prefix, n)
		}
		text, _ := json.Marshal(body)
		return 200, string(text)
	}
}

func refuses(status int, code string) func(url.Values, string, string) (int, string) {
	return func(form url.Values, _, password string) (int, string) {
		return status, fmt.Sprintf(`{"error":%q,"error_description":"you sent %s %s %s"}`, code, form.Get("subject_token"), form.Get("refresh_token"), password)
	}
}

func ada(token string, life time.Duration) backends.Caller {
	p := backends.Caller{Name: "https://idp#ada", Token: backends.Secret(token)}
	if life != 0 {
		p.Expires = time.Now().Add(life)
	}
	return p
}

// run is ada in a run: her request is over.
var run = backends.Caller{Name: "https://idp#ada"}

func TestHeader(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	write := func(text string) {
		t.Helper()
		perduretest.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("from-file\n")
	t.Setenv("PERDURE_TEST_HEADER", "from-env")
	for source, want := range map[credentials.Source]string{
		{Inline: "from-config"}:      "from-config",
		{Env: "PERDURE_TEST_HEADER"}: "from-env",
		{File: file}:                 "from-file",
	} {
		t.Run(want, func(t *testing.T) {
			l := newLab(t, func(l *lab) credentials.Strategy {
				l.backend.header = "X-Api-Key"
				l.backend.accept(want)
				return credentials.Strategy{Header: &credentials.Header{Name: "X-Api-Key", Value: source}}
			})
			l.must(run, want)
			l.backend.accept("another")
			l.lacks(run, "refuses the header X-Api-Key", false)
			l.silent("from-")
		})
	}
	t.Run("a file is read again", func(t *testing.T) {
		write("one")
		l := newLab(t, func(l *lab) credentials.Strategy {
			l.backend.accept("one", "two")
			return credentials.Strategy{Header: &credentials.Header{Name: "Authorization", Value: credentials.Source{File: file}}}
		})
		l.must(run, "one")
		write("two")
		l.must(run, "two")
		write("")
		l.lacks(run, "is empty", false)
	})
}

func TestClientCredentials(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(l *lab) credentials.Strategy {
		l.idp.answers(tokens("own", 3600, false))
		l.backend.accept("Bearer own-1")
		return credentials.Strategy{ClientCredentials: &credentials.ClientCredentials{Client: credentials.Client{
			TokenURL: l.idp.url, ID: "cl:ient", Secret: credentials.Source{Inline: "cl/ient-s3cret"}, Scopes: []string{"a", "b"}, Audience: "https://be",
		}}}
	})
	l.must(run, "Bearer own-1")
	l.must(run, "Bearer own-1")
	if n := l.idp.asked(); n != 1 {
		t.Errorf("the token endpoint was asked %d times, want 1", n)
	}
	want := url.Values{"grant_type": {"client_credentials"}, "scope": {"a b"}, "audience": {"https://be"}}
	if got := l.idp.forms[0]; got.Encode() != want.Encode() {
		t.Errorf("asked %v, want %v", got, want)
	}
	l.idp.answers(func(_ url.Values, user, password string) (int, string) {
		if user != "cl%3Aient" || password != "cl%2Fient-s3cret" {
			t.Errorf("client %q, %q", user, password)
		}
		return 200, `{"access_token":"own-2","expires_in":"3600"}`
	})
	l.backend.accept("Bearer own-2")
	l.must(run, "Bearer own-2") // refused, and renewed
	l.idp.answers(tokens("own-later", 3600, false))
	l.backend.accept("Bearer own-later-1")
	l.pass(time.Hour)
	l.must(run, "Bearer own-later-1") // expired, and renewed

	l.backend.accept()
	l.lacks(run, "see that its scopes and audience", false)
	l.idp.answers(refuses(401, "invalid_client"))
	l.lacks(run, "refuses client cl:ient", false)
	l.idp.answers(func(url.Values, string, string) (int, string) { return 503, "" })
	l.lacks(run, "the token endpoint answers with HTTP status 503; trying again", false)
	l.silent("s3cret", "own-1", "own-2", "own-later")
}

func exchanging(l *lab) credentials.Strategy {
	return credentials.Strategy{TokenExchange: &credentials.TokenExchange{Client: credentials.Client{
		TokenURL: l.idp.url, ID: "client", Secret: credentials.Source{Inline: "client-s3cret"}, Scopes: []string{"x"}, Audience: "https://be",
	}}}
}

// A token is exchanged when a request brings it, and what comes of it is used
// after the request: by runs, in another process, until it cannot be renewed.
func TestTokenExchange(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(l *lab) credentials.Strategy {
		l.idp.answers(tokens("got", 600, false))
		l.backend.accept("Bearer got-1", "Bearer got-2")
		return exchanging(l)
	})
	l.lacks(run, "there is no credential of the caller", true)
	if given := l.deposit(ada("ada-t0ken", time.Hour), "be", "unknown"); len(given) != 1 || given[0] != "be" {
		t.Errorf("given for %v, want be, for which a run waited", given)
	}
	l.must(run, "Bearer got-1")
	want := url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "subject_token": {"ada-t0ken"},
		"subject_token_type":   {"urn:ietf:params:oauth:token-type:access_token"},
		"requested_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
		"audience":             {"https://be"}, "scope": {"x"},
	}
	if got := l.idp.forms[0]; got.Encode() != want.Encode() {
		t.Errorf("asked %v, want %v", got, want)
	}
	if given := l.deposit(ada("ada-t0ken", time.Hour), "be"); given != nil || l.idp.asked() != 1 {
		t.Errorf("a second request of the caller gave %v, and %d exchanges", given, l.idp.asked())
	}
	l.start(exchanging(l)) // another process
	l.must(run, "Bearer got-1")
	l.pass(10 * time.Minute)
	l.must(run, "Bearer got-2") // exchanged again, as the caller's token is still good
	l.pass(time.Hour)
	l.lacks(run, "has expired", true)
	l.lacks(backends.Caller{Name: "https://idp#ben"}, "there is no credential", true)
	l.silent("s3cret", "t0ken", "got-")
}

func TestRefreshToken(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(l *lab) credentials.Strategy {
		l.idp.answers(tokens("got", 600, true))
		l.backend.accept("Bearer got-1", "Bearer got-2")
		return exchanging(l)
	})
	l.deposit(ada("ada-t0ken", time.Minute), "be")
	l.must(run, "Bearer got-1")
	l.pass(30 * 24 * time.Hour) // the caller's token is long gone
	l.start(exchanging(l))
	l.must(run, "Bearer got-2")
	if form := l.idp.forms[1]; form.Get("grant_type") != "refresh_token" || form.Get("refresh_token") != "got-refresh-1" {
		t.Errorf("asked %v", form)
	}
	if n := l.idp.asked(); n != 2 {
		t.Errorf("asked %d times, want 2", n)
	}
	l.idp.answers(refuses(400, "invalid_grant"))
	l.pass(time.Hour)
	l.lacks(run, "has expired", true)
	l.silent("s3cret", "t0ken", "got-")
}

// Two processes use a refresh token once: many servers take it only once.
func TestRefreshTokenIsUsedOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(l *lab) credentials.Strategy {
		l.idp.answers(tokens("got", 600, true))
		l.backend.accept("Bearer got-1", "Bearer got-2")
		return exchanging(l)
	})
	l.deposit(ada("ada-t0ken", time.Minute), "be")
	l.must(run, "Bearer got-1")
	l.pass(time.Hour)
	var calls sync.WaitGroup
	for range 10 {
		calls.Go(func() {
			if err := l.call(run); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if n := l.idp.asked(); n != 2 {
		t.Errorf("asked %d times, want 2: one exchange, one refresh", n)
	}
}

// What the backend refuses is renewed once; a run then waits, and the next
// request of the caller gives it a new one.
func TestRefusedExchange(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(l *lab) credentials.Strategy {
		l.idp.answers(tokens("got", 600, false))
		l.backend.accept("Bearer got-1")
		return exchanging(l)
	})
	l.deposit(ada("ada-t0ken", time.Hour), "be")
	l.must(run, "Bearer got-1")
	l.backend.accept("Bearer got-2")
	l.must(run, "Bearer got-2")
	l.backend.accept("Bearer got-3")
	l.lacks(run, "the backend refuses the caller's credential", true)
	asked := l.idp.asked()
	if given := l.deposit(ada("ada-t0ken", time.Hour)); given != nil || l.idp.asked() != asked {
		t.Errorf("the same token is tried again at once")
	}
	l.pass(time.Minute)
	if given := l.deposit(ada("ada-t0ken", time.Hour)); len(given) != 1 {
		t.Errorf("given for %v, want be", given)
	}
	l.must(run, "Bearer got-3")
	l.idp.answers(refuses(400, "invalid_target"))
	l.backend.accept()
	l.lacks(run, "cannot be exchanged: refused by the token endpoint (invalid_target)", true)
	l.pass(time.Minute)
	if given := l.deposit(ada("ada-t0ken", time.Hour)); given != nil {
		t.Errorf("given for %v by a token that cannot be exchanged", given)
	}
	l.silent("s3cret", "t0ken", "got-")
}

// A token endpoint that is away keeps nothing from being done later.
func TestTokenEndpointIsAway(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(l *lab) credentials.Strategy {
		l.idp.answers(func(url.Values, string, string) (int, string) { return 502, "oops" })
		l.backend.accept("Bearer got-1")
		return exchanging(l)
	})
	l.deposit(ada("ada-t0ken", time.Hour), "be")
	l.lacks(run, "the token endpoint answers with HTTP status 502; trying again", false)
	l.idp.answers(tokens("got", 600, false))
	l.must(run, "Bearer got-1")
	l.silent("t0ken", "s3cret")
}

// Within the request its own token is used, of whoever makes it.
func TestDirectCalls(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(l *lab) credentials.Strategy {
		l.idp.answers(func(form url.Values, _, _ string) (int, string) {
			return 200, fmt.Sprintf(`{"access_token":"for-%s","expires_in":600}`, form.Get("subject_token"))
		})
		l.backend.accept("Bearer for-ada-t0ken", "Bearer for-ben-t0ken")
		return exchanging(l)
	})
	ben := backends.Caller{Name: "https://idp#ben", Token: "ben-t0ken", Expires: time.Now().Add(time.Hour)}
	for range 2 {
		l.must(ada("ada-t0ken", time.Hour), "Bearer for-ada-t0ken")
		l.must(ben, "Bearer for-ben-t0ken")
	}
	if n := l.idp.asked(); n != 2 {
		t.Errorf("asked %d times, want 2", n)
	}
}

func TestPassThrough(t *testing.T) {
	t.Parallel()
	strategy := credentials.Strategy{PassThrough: true}
	l := newLab(t, func(l *lab) credentials.Strategy {
		l.backend.accept("Bearer t0ken-1", "Bearer t0ken-2")
		return strategy
	})
	l.must(ada("t0ken-2", time.Hour), "Bearer t0ken-2") // of the request itself
	l.lacks(run, "there is no credential", true)
	if given := l.deposit(ada("t0ken-1", time.Hour), "be"); len(given) != 1 {
		t.Errorf("given for %v, want be", given)
	}
	l.must(run, "Bearer t0ken-1")
	l.start(strategy)
	l.must(run, "Bearer t0ken-1")
	l.pass(time.Hour)
	l.lacks(run, "has expired", true)
	if given := l.deposit(ada("t0ken-1", time.Hour)); given != nil {
		t.Errorf("given for %v by a token that has expired", given)
	}
	if given := l.deposit(ada("t0ken-2", 3*time.Hour)); len(given) != 1 {
		t.Errorf("given for %v, want be", given)
	}
	l.must(run, "Bearer t0ken-2")
	l.backend.accept()
	l.lacks(run, "the backend refuses", true)
	l.silent("t0ken")
}

// The tools are listed with what a caller has left, once there is something.
func TestToolsAreListedForACaller(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(l *lab) credentials.Strategy {
		l.idp.answers(tokens("got", 600, false))
		l.backend.accept("Bearer got-1")
		return exchanging(l)
	})
	if n := len(l.pool.Tools()); n != 0 {
		t.Errorf("%d tools are listed without credentials", n)
	}
	l.broker.OnDeposit(l.pool.Wake)
	l.deposit(ada("ada-t0ken", time.Hour), "be")
	if !l.pool.WaitReady(t.Context(), patience) {
		t.Fatalf("the backend is not ready: %+v", l.pool.Status())
	}
	for deadline := time.Now().Add(patience); len(l.pool.Tools()) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no tools are listed: %+v", l.pool.Status())
		}
	}
}

// A backend that does not let its tools be listed takes nothing away from those
// whom it lets call.
func TestListingTakesNothingAway(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(l *lab) credentials.Strategy {
		l.idp.answers(tokens("got", 600, false))
		l.backend.accept("Bearer got-1")
		return exchanging(l)
	})
	l.deposit(ada("ada-t0ken", time.Hour), "be")
	l.idp.answers(refuses(400, "invalid_grant"))
	nobody := l.broker.For("be")
	sent := perduretest.Must(nobody.Headers(t.Context(), backends.Caller{}, nil))(t)
	var needed *backends.CredentialsError
	if _, err := nobody.Headers(t.Context(), backends.Caller{}, sent); !errors.As(err, &needed) {
		t.Fatalf("error %v, want that a credential is needed", err)
	}
	l.start(exchanging(l))
	l.must(run, "Bearer got-1")
}

func TestNewNeedsAStore(t *testing.T) {
	t.Parallel()
	_, err := credentials.New(credentials.Options{Strategies: map[string]credentials.Strategy{"be": {PassThrough: true}}})
	if err == nil || !strings.Contains(err.Error(), "be") {
		t.Errorf("error %v", err)
	}
}
