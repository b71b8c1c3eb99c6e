package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/runs"
)

// fakeCredentials take a token that is good, and tell for which backends runs
// of its caller waited.
type fakeCredentials struct {
	mu     sync.Mutex
	good   string            // the token that helps
	wanted map[string]string // backend by caller, until it is given
	left   []string          // "CALLER TOKEN BACKEND…"
	kept   []string          // "CALLER RUN" of KeepForwarded, and what was kept
}

func (c *fakeCredentials) OfCallers(string) bool { return true }

func (c *fakeCredentials) KeepForwarded(_ context.Context, caller, run string, what backends.Forwarded) (as string, drop func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tool, _, _ := strings.Cut(run, "/")
	c.kept = append(c.kept, fmt.Sprintf("%s %s %s %s", caller, tool, string(what.Headers["X-Tenant"]), what.Meta["acme.example/trip"]))
	return "perdure/run/" + what.Mark() + "/" + run, func() {}, nil
}

func (c *fakeCredentials) Deposit(_ context.Context, who backends.Caller, needed []string) (good, given []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = append(c.left, strings.Join(append([]string{who.Name, string(who.Token)}, needed...), " "))
	if string(who.Token) != c.good {
		return nil, nil
	}
	if backend := c.wanted[who.Name]; backend != "" {
		delete(c.wanted, who.Name)
		return append(needed, backend), []string{backend}
	}
	return needed, nil
}

func (c *fakeCredentials) want(caller, backend string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted[caller] = backend
}

func (c *fakeCredentials) seen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.left)
}

// withTokens makes callers have the token of the header X-Token.
func withTokens(c *fakeCredentials) func(*gateway.Options) {
	return func(o *gateway.Options) {
		o.Credentials = c
		o.Authenticate = func(r *http.Request) (auth.Identity, error) {
			return auth.Identity{Subject: "user-" + r.Header.Get("X-Caller"), Token: r.Header.Get("X-Token")}, nil
		}
	}
}

// lacking is a run that needs a credential for its second step.
func lacking(c *fakeCredentials) func(*play) {
	return func(p *play) {
		p.step("a")
		c.want(p.f.snapshot(p.id).run.Caller, "be")
		p.open(runs.Elicitation{ID: "b/credentials#1", StepID: "b", Kind: runs.Credentials, Backend: "be", Message: "b needs a credential for backend be"})
		if p.answered("b/credentials#1").Action != "accept" {
			return
		}
		p.complete(`{"done":true}`)
	}
}

func impatient(o *gateway.Options) { o.Patience = 100 * time.Millisecond }

// A run leaves what its backends need before it starts, and what it waits for
// then has a status of its own.
func TestNeedsCredentials(t *testing.T) {
	t.Parallel()
	creds := &fakeCredentials{good: "fresh", wanted: map[string]string{}}
	w := newWorld(t, map[string]func(*play){"simple": lacking(creds)}, withTokens(creds), impatient)
	m := connect(t, w.url, "ann", "2025-11-25", `{"elicitation":{}}`).call("1", "simple", `{}`, "", "X-Token", "old").result(false)
	if err := hasAll(string(m.Result.Structured), `"status":"needs_credentials"`, "b needs a credential for backend be"); err != nil {
		t.Error(err)
	}
	if err := hasAll(m.text(), "sign in again", "perdure_run_await", "b needs a credential"); err != nil {
		t.Error(err)
	}
	if seen := creds.seen(); !slices.Contains(seen, "user-ann old be") {
		t.Errorf("left were %q", seen)
	}
	connect(t, w.url, "bob", "2025-11-25", `{}`).call("1", "perdure_run_list", `{}`, "", "X-Token", "fresh").result(false)
	if run := w.runs.snapshot(w.runs.only(t)); run.won != 0 {
		t.Error("the run went on with somebody else's credential")
	}
}

// The run continues with the next request of its caller that has the credential,
// whichever that is.
func TestRunGoesOnWithCredentials(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]func(c *wire, run runs.RunID) *response{
		"await": func(c *wire, run runs.RunID) *response {
			return c.call("2", "perdure_run_await", fmt.Sprintf(`{"runId":%q}`, run), "", "X-Token", "fresh")
		},
		"the same call again": func(c *wire, _ runs.RunID) *response {
			return c.call("3", "simple", `{}`, `{"perdure/idempotency-key":"k"}`, "X-Token", "fresh")
		},
		"any tool": func(c *wire, run runs.RunID) *response {
			c.call("4", "perdure_run_list", `{}`, "", "X-Token", "fresh").result(false)
			return c.call("5", "perdure_run_await", fmt.Sprintf(`{"runId":%q}`, run), "", "X-Token", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			creds := &fakeCredentials{good: "fresh", wanted: map[string]string{}}
			w := newWorld(t, map[string]func(*play){"simple": lacking(creds)}, withTokens(creds), impatient)
			c := connect(t, w.url, "ann", "2025-11-25", `{}`)
			c.call("1", "simple", `{}`, `{"perdure/idempotency-key":"k"}`, "X-Token", "old").result(false)
			run := w.runs.only(t)
			request(c, run).next()
			w.runs.wait(t.Context(), func() bool { return w.runs.runs[run].stopped })
			c.call("9", "perdure_run_await", fmt.Sprintf(`{"runId":%q}`, run), "").result(false).structuredIs(t, `{"done":true}`)
		})
	}
}

// A client that follows its run sees what it waits for, and its own token is
// tried when the run needs it, once.
func TestTokenOfTheRequestIsTried(t *testing.T) {
	t.Parallel()
	creds := &fakeCredentials{good: "fresh", wanted: map[string]string{}}
	w := newWorld(t, map[string]func(*play){"simple": lacking(creds)}, withTokens(creds))
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	r := c.call("1", "simple", `{}`, `{"progressToken":"p"}`, "X-Token", "fresh")
	told := false
	for m := r.message(); ; m = r.message() {
		told = told || strings.Contains(string(m.Params), "needs credentials: b needs a credential for backend be")
		if m.Result != nil {
			m.structuredIs(t, `{"done":true}`)
			break
		}
	}
	if !told {
		t.Error("the client was not told what the run waits for")
	}
}

func TestCredentialsOfDirectCalls(t *testing.T) {
	t.Parallel()
	creds := &fakeCredentials{wanted: map[string]string{}}
	w := newWorld(t, nil, withTokens(creds))
	w.catalogue.call = func(_ context.Context, call backends.Call) (*backends.Result, error) {
		if call.Caller.Name != "user-ann" || call.Caller.Token != "t" {
			t.Errorf("called for %q with %q", call.Caller.Name, string(call.Caller.Token))
		}
		return nil, &backends.CallError{Backend: "be", Tool: "echo", Outcome: backends.CredentialsNeeded,
			Err: &backends.CredentialsError{Reason: "there is no credential"}}
	}
	m := connect(t, w.url, "ann", "2025-11-25", `{}`).call("1", "be_echo", `{}`, "", "X-Token", "t").result(true)
	if err := hasAll(m.text(), "there is no credential", "Nothing was executed"); err != nil {
		t.Error(err)
	}
	if err := hasAll(string(m.Result.Meta["perdure/error"]), `"credentials_needed"`, `"credentials"`); err != nil {
		t.Error(err)
	}
}
