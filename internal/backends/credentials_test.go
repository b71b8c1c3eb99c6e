package backends

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/perduretest"
)

// tokens are credentials that a test sets.
type tokens struct {
	shared bool

	mu      sync.Mutex
	current map[string]string // token by caller
	next    map[string]string // that follows when the current one is refused
	asked   int
}

func (k *tokens) Identity(who Caller) string {
	if k.shared {
		return ""
	}
	return who.Name
}

func (k *tokens) Headers(_ context.Context, who Caller, refused Headers) (Headers, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	if k.shared {
		who.Name = ""
	}
	if token := k.current[who.Name]; refused != nil && string(refused["Authorization"]) == "Bearer "+token {
		k.current[who.Name] = k.next[who.Name]
	}
	token := k.current[who.Name]
	if token == "" {
		return nil, &CredentialsError{Reason: "no token for " + who.Name, Caller: true}
	}
	return Headers{"Authorization": Secret("Bearer " + token)}, nil
}

func (k *tokens) set(who, token string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current[who] = token
}

// A guard lets requests through that carry a valid token, and notes with which
// tokens each session was used.
type guard struct {
	next http.Handler

	mu       sync.Mutex
	valid    map[string]bool
	sessions map[string]map[string]bool // tokens by session
	calls    []string                   // tokens of the calls that were let through
}

func newGuard(next http.Handler, valid ...string) *guard {
	g := &guard{next: next, valid: map[string]bool{}, sessions: map[string]map[string]bool{}}
	for _, token := range valid {
		g.valid[token] = true
	}
	return g
}

func (g *guard) revoke(token string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.valid, token)
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	g.mu.Lock()
	ok := g.valid[token]
	if session := r.Header.Get("Mcp-Session-Id"); session != "" {
		if g.sessions[session] == nil {
			g.sessions[session] = map[string]bool{}
		}
		g.sessions[session][token] = true
	}
	body := make([]byte, max(r.ContentLength, 0))
	if _, err := io.ReadFull(r.Body, body); ok && err == nil && strings.Contains(string(body), `"tools/call"`) {
		g.calls = append(g.calls, token)
	}
	g.mu.Unlock()
	r.Body = readCloser(body)
	if !ok {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	g.next.ServeHTTP(w, r)
}

// Each call carries the credentials of its caller, and no session is used
// with those of two.
func TestCredentialsOfEachCaller(t *testing.T) {
	t.Parallel()
	forEachEra(t, func(t *testing.T, e era) {
		s := newTestServer()
		g := newGuard(e.handler(s), "t-nobody", "t-ada", "t-ben")
		keys := &tokens{current: map[string]string{"": "t-nobody", "ada": "t-ada", "ben": "t-ben"}}
		config := httpConfig(serve(t, g).URL)
		config.Credentials = keys
		p := open(t, config)
		var calls sync.WaitGroup
		for i := range 20 {
			calls.Go(func() {
				who := []string{"ada", "ben"}[i%2]
				if _, err := p.Call(t.Context(), Call{Backend: "be", Tool: "echo", Caller: Caller{Name: who}}); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		g.mu.Lock()
		defer g.mu.Unlock()
		seen := map[string]int{}
		for _, token := range g.calls {
			seen[token]++
		}
		if len(seen) != 2 || seen["t-ada"] != 10 || seen["t-ben"] != 10 {
			t.Errorf("calls by token: %v", seen)
		}
		for session, with := range g.sessions {
			if len(with) != 1 {
				t.Errorf("session %s was used with %d tokens", session, len(with))
			}
		}
		if e.name == "legacy" && len(g.sessions) != 3 {
			t.Errorf("%d sessions, want one for each of the callers and one for the list of tools", len(g.sessions))
		}
	})
}

// A refused credential is renewed once, and the tool is executed once.
func TestRefusedCredentialIsRenewed(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{true, false} {
		forEachEra(t, func(t *testing.T, e era) {
			s := newTestServer()
			g := newGuard(e.handler(s), "first", "second")
			who, nobody := "ada", "first"
			if shared {
				who = ""
			}
			keys := &tokens{shared: shared, current: map[string]string{"": nobody, who: "first"}, next: map[string]string{who: "second"}}
			config := httpConfig(serve(t, g).URL)
			config.Credentials = keys
			p := open(t, config)
			call := func() error {
				_, err := p.Call(t.Context(), Call{Backend: "be", Tool: "echo", Caller: Caller{Name: "ada"}})
				return err
			}
			perduretest.NoError(t, call())
			g.revoke("first")
			if err := call(); err != nil {
				t.Fatalf("with a refused token: %v", err)
			}
			if n := s.calls.Load(); n != 2 {
				t.Errorf("executed %d times, want 2", n)
			}
			g.revoke("second")
			err := callError(t, call())
			if err.Outcome != CredentialsNeeded {
				t.Errorf("without a token left: outcome %d, %v", err.Outcome, err)
			}
			if n := s.calls.Load(); n != 2 {
				t.Errorf("executed %d times, want 2", n)
			}
			// Another is given: the same pool continues.
			g.mu.Lock()
			g.valid["third"] = true
			g.mu.Unlock()
			keys.set(who, "third")
			if err := call(); err != nil {
				t.Errorf("with a new token: %v", err)
			}
		})
	}
}

// A credential that is missing is no outcome that may have been executed, and
// that it is refused even after it was renewed is none either.
func TestCredentialsNeeded(t *testing.T) {
	t.Parallel()
	s := newTestServer()
	g := newGuard(eras[0].handler(s), "t-nobody")
	keys := &tokens{current: map[string]string{"": "t-nobody", "ada": "refused"}, next: map[string]string{"ada": "refused"}}
	config := httpConfig(serve(t, g).URL)
	config.Credentials = keys
	p := open(t, config)
	for who, reason := range map[string]string{"ben": "no token for ben", "ada": "401"} {
		_, err := p.Call(t.Context(), Call{Backend: "be", Tool: "echo", Caller: Caller{Name: who}})
		if ce := callError(t, err); ce.Outcome != CredentialsNeeded || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: outcome %d, %v", who, ce.Outcome, err)
		}
	}
	if n := s.calls.Load(); n != 0 {
		t.Errorf("executed %d times", n)
	}
}

func TestHeaderThatRepeatsRequests(t *testing.T) {
	t.Parallel()
	b := newBackend(Config{Name: "be", Credentials: static{"idempotency-key": "1"}}, newAnswers(), slog.New(slog.DiscardHandler), func() {})
	if _, err := b.headersFor(t.Context(), Caller{}, nil); err == nil || !strings.Contains(err.Error(), "idempotent") {
		t.Errorf("error %v", err)
	}
}

type static Headers

func (static) Identity(Caller) string { return "" }
func (h static) Headers(context.Context, Caller, Headers) (Headers, error) {
	return Headers(h), nil
}

func TestSessionsOfVisitorsEnd(t *testing.T) {
	t.Parallel()
	g := newGuard(eras[1].handler(newTestServer()), "t")
	config := httpConfig(serve(t, g).URL)
	config.Credentials = &tokens{current: map[string]string{"": "t", "ada": "t", "ben": "t"}}
	p := open(t, config)
	for _, who := range []string{"ada", "ben"} {
		if _, err := p.Call(t.Context(), Call{Backend: "be", Tool: "echo", Caller: Caller{Name: who}}); err != nil {
			t.Fatal(err)
		}
	}
	b := p.byName["be"].sessions
	b.mu.Lock()
	ada := b.visitors["ada"].session
	b.dismiss("ada", b.visitors["ada"])
	left := len(b.visitors)
	b.mu.Unlock()
	receive(t, ada.lost, "the session to end")
	if left != 1 {
		t.Errorf("%d visitors left", left)
	}
	if _, err := p.Call(t.Context(), Call{Backend: "be", Tool: "echo", Caller: Caller{Name: "ada"}}); err != nil {
		t.Error(err)
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	const planted = "s3cret-value"
	call := Call{Backend: "be", Caller: Caller{Name: "ada", Token: planted, Expires: time.Now()}}
	headers := Headers{"Authorization": planted}
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	logger.Info("call", "call", call, "headers", headers, "token", call.Caller.Token)
	logger = slog.New(slog.NewJSONHandler(&log, nil))
	logger.Info("call", "call", call, "headers", headers, "token", call.Caller.Token)
	encoded := perduretest.Must(json.Marshal([]any{call.Caller, headers}))(t)
	shown := fmt.Sprintf("%v %+v %#v %s %q %x\n%s\n%s", call, call, call, headers, headers, call.Caller.Token, encoded, log.String())
	if strings.Contains(shown, planted) || strings.Contains(shown, fmt.Sprintf("%x", planted)) {
		t.Errorf("the secret is shown: %s", shown)
	}
}

// TestAttackSecretsInAnswers: what a backend was given in confidence is in no text of it.
func TestAttackSecretsInAnswers(t *testing.T) {
	t.Parallel()
	c := Config{Secrets: []Secret{"s3cret-argument", "short"}, Env: map[string]string{"A": "s3cret-variable", "B": "debug"}, Headers: Headers{"Authorization": "Bearer s3cret-header"}}
	text := c.secrets(Headers{"X-Key": "s3cret-credential"}).without("s3cret-argument s3cret-variable s3cret-header s3cret-credential short debug")
	if want := "[secret] [secret] [secret] [secret] short debug"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
}

// TestHeadersOverTLS calls a server whose certificate only the bundle of the
// backend knows, with headers of the configuration and a credential.
func TestHeadersOverTLS(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]bool{}
	handler := eras[0].handler(newTestServer())
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.Header.Get("X-Tenant")+", "+r.Header.Get("Authorization")] = true
		mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	config := httpConfig(server.URL)
	config.CACertificates = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	config.Headers = Headers{"X-Tenant": "acme", "Authorization": "Bearer static"}
	config.Credentials = &tokens{shared: true, current: map[string]string{"": "issued"}}
	p := open(t, config)
	if _, err := p.Call(t.Context(), Call{Backend: "be", Tool: "echo"}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 1 || !seen["acme, Bearer issued"] {
		t.Errorf("requests had %v", seen)
	}

	config.CACertificates = []byte("no certificate")
	if _, err := New([]Config{config}, Aggregation{}, nil); err == nil || !strings.Contains(err.Error(), "no certificate in PEM") {
		t.Errorf("a bundle without certificates: %v", err)
	}
}
