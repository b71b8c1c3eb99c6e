package approvals_test

import (
	"context"
	"encoding/json"
	"errors"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway/approvals"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
)

// fakeRuns are runs in memory, which check answers as runs.Client does.
type fakeRuns struct {
	mu      sync.Mutex
	runs    []*runs.Detail
	answers []runs.Answer // that were taken
	down    bool
}

func (f *fakeRuns) add(d *runs.Detail) *runs.Detail {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d.Tool == "" {
		d.Tool, _, _ = strings.Cut(string(d.ID), "/")
	}
	d.Started = time.Now().Add(-time.Minute)
	for i := range d.Elicitations {
		e := &d.Elicitations[i]
		e.Opened = time.Now().Add(-3 * time.Minute)
		if e.State == "" {
			e.State = "open"
		}
		if e.StepPath == "" {
			e.StepPath = runs.StepPath(strings.TrimSuffix(e.ID, "#1"))
		}
	}
	f.runs = append(f.runs, d)
	return d
}

func (f *fakeRuns) find(id runs.RunID) (*runs.Detail, error) {
	if f.down {
		return nil, runs.ErrUnavailable
	}
	for _, d := range f.runs {
		if d.ID == id {
			c := *d
			c.Elicitations = slices.Clone(d.Elicitations)
			return &c, nil
		}
	}
	return nil, runs.ErrNotFound
}

func (f *fakeRuns) Get(_ context.Context, id runs.RunID) (*runs.Run, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, err := f.find(id)
	if err != nil {
		return nil, err
	}
	return &d.Run, nil
}

func (f *fakeRuns) CalledWith(_ context.Context, id runs.RunID) (runs.CalledWith, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, err := f.find(id)
	if err != nil {
		return runs.CalledWith{}, err
	}
	return runs.CalledWith{Arguments: d.Arguments, Script: d.Script}, nil
}

func (f *fakeRuns) Result(_ context.Context, id runs.RunID) (*runs.Outcome, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, err := f.find(id)
	if err != nil {
		return nil, err
	}
	if d.Outcome == nil {
		return nil, runs.ErrNotFinished
	}
	return d.Outcome, nil
}

func (f *fakeRuns) Answer(_ context.Context, id runs.RunID, a runs.Answer) (runs.Decision, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.runs {
		for i := range d.Elicitations {
			if e := &d.Elicitations[i]; d.ID == id && e.ID == a.ElicitationID {
				return f.take(e, a)
			}
		}
	}
	return runs.Decision{}, runs.ErrNoSuchGate
}

func (f *fakeRuns) take(e *runs.Elicitation, a runs.Answer) (runs.Decision, error) {
	if e.State == "dropped" {
		return runs.Decision{}, runs.ErrNoSuchGate
	}
	if e.State != "open" {
		return runs.Decision{Action: e.Action, By: e.By}, nil
	}
	if !slices.Contains([]string{"accept", "decline", "cancel"}, a.Action) {
		return runs.Decision{}, &runs.InvalidAnswerError{Reason: "unknown action"}
	}
	if a.Action == "accept" {
		if err := definitions.CheckAnswer(e.Schema, a.Content); err != nil {
			return runs.Decision{}, &runs.InvalidAnswerError{Reason: err.Error()}
		}
	}
	e.State, e.Action, e.By, e.Schema = "answered", a.Action, a.By, nil
	f.answers = append(f.answers, a)
	return runs.Decision{Won: true, Action: a.Action, By: a.By}, nil
}

// ListPage pages by number.
func (f *fakeRuns) ListPage(_ context.Context, filter runs.Filter, from string) (page []runs.Run, next string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return nil, "", runs.ErrUnavailable
	}
	start := 0
	if from != "" {
		if start, err = strconv.Atoi(from); err != nil {
			return nil, "", errors.New("no such page")
		}
	}
	for i := start; i < len(f.runs); i++ {
		d := f.runs[i]
		if filter.Caller != "" && d.Caller != filter.Caller || filter.Waiting && len(d.Open()) == 0 {
			continue
		}
		if len(page) == filter.Limit {
			return page, strconv.Itoa(i), nil
		}
		page = append(page, d.Run)
	}
	return page, "", nil
}

func (f *fakeRuns) taken() []runs.Answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.answers)
}

// people are known by tokens that are their names.
type people struct {
	mu     sync.Mutex
	groups map[string][]string // by name
	away   bool                // nobody can tell who is who
}

func (p *people) Authenticate(r *http.Request) (auth.Identity, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	groups, ok := p.groups[name]
	if p.away {
		return auth.Identity{}, &auth.Refusal{Status: http.StatusServiceUnavailable}
	}
	if !ok {
		return auth.Identity{}, errors.New("no such token")
	}
	return auth.Identity{Subject: name, Groups: groups}, nil
}

// world is the page with everything around it.
type world struct {
	*testing.T
	runs   *fakeRuns
	people *people
	url    string
}

var testKey = []byte("a key that all replicas share, and nobody else")

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, runs: &fakeRuns{}, people: &people{groups: map[string][]string{
		"alice": nil, "bob": nil, "carol": {"approvers"}, "olga": {"operators"},
	}}}
	w.url = w.replica()
	return w
}

// replica starts another server over the same runs, and gives its URL.
func (w *world) replica() string {
	w.Helper()
	quiet := slog.New(slog.DiscardHandler)
	login, err := auth.NewLogin(auth.LoginOptions{Path: approvals.Prefix, Key: testKey, Tokens: w.people, Logger: quiet})
	if err != nil {
		w.Fatal(err)
	}
	all := []string{"*"}
	h, err := approvals.New(approvals.Options{Runs: w.runs, Login: login, Key: testKey, Logger: quiet, Policy: &auth.Policy{
		Approvers: []auth.Grant{{Tools: all, Groups: []string{"approvers"}}},
		Operators: []auth.Grant{{Tools: all, Groups: []string{"operators"}}},
	}})
	if err != nil {
		w.Fatal(err)
	}
	server := httptest.NewServer(h)
	w.Cleanup(server.Close)
	return server.URL
}

// A browser keeps cookies, follows redirects and runs no JavaScript.
type browser struct {
	*testing.T
	url  string
	http *http.Client
}

// open gives somebody a browser, signed in unless the name is empty.
func (w *world) open(name string) *browser {
	w.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.Fatal(err)
	}
	b := &browser{T: w.T, url: w.url, http: &http.Client{Jar: jar, Timeout: time.Minute}}
	if name != "" {
		if status, body := b.post("/approvals/login", url.Values{"access": {name}}); status != http.StatusOK {
			w.Fatalf("signing in: %d %s", status, body)
		}
	}
	return b
}

func (b *browser) get(path string) (status int, body string) {
	b.Helper()
	return b.do(http.MethodGet, path, "", nil)
}

func (b *browser) post(path string, form url.Values, header ...string) (status int, body string) {
	b.Helper()
	return b.do(http.MethodPost, path, form.Encode(), append([]string{"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin"}, header...))
}

func (b *browser) do(method, path, body string, header []string) (int, string) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp := perduretest.Must(b.http.Do(req))(b)
	defer resp.Body.Close()
	text := perduretest.Must(io.ReadAll(resp.Body))(b)
	return resp.StatusCode, string(text)
}

var tokens = regexp.MustCompile(`name="token" value="([^"]+)">`)

// answer fills in the last form of a run's page and sends it.
func (b *browser) answer(id runs.RunID, question, action string, fields url.Values) (status int, body string) {
	b.Helper()
	form := b.form(id, question, action)
	for name, values := range fields {
		form["field."+name] = values
	}
	return b.post(approvals.Path(id), form)
}

// form is a form of a run's page as it comes, without its fields.
func (b *browser) form(id runs.RunID, question, action string) url.Values {
	b.Helper()
	_, body := b.get(approvals.Path(id))
	_, after, ok := strings.Cut(body, `name="question" value="`+html.EscapeString(question)+`"`)
	if !ok {
		b.Fatalf("there is no form for %s in %s", question, body)
	}
	return url.Values{"question": {question}, "action": {action}, "token": {tokens.FindStringSubmatch(after)[1]}}
}

func gate(id, message, schema string) runs.Elicitation {
	return runs.Elicitation{ID: id, Message: message, Schema: json.RawMessage(schema)}
}

func run(id, caller string, gates ...runs.Elicitation) *runs.Detail {
	return &runs.Detail{Run: runs.Run{ID: runs.RunID(id), Caller: caller, Status: "waiting", Elicitations: gates}}
}

func has(t *testing.T, body string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(body, part) {
			t.Errorf("the page lacks %q:\n%s", part, body)
		}
	}
}

func hasNot(t *testing.T, body string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(body, part) {
			t.Errorf("the page has %q:\n%s", part, body)
		}
	}
}
