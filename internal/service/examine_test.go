package service

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/store"
	"github.com/perdure/perdure/internal/web"
)

// The clock that is furthest from ours counts.
func TestExamineClock(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		clocks []remote
		status CheckStatus
	}{
		{nil, CheckSkipped},
		{[]remote{{"a", -clockWarning / 2}, {"b", 0}}, CheckOK},
		{[]remote{{"a", 0}, {"b", -clockWarning}}, CheckWarning},
		{[]remote{{"a", clockFailure}, {"b", clockWarning}}, CheckFailed},
	} {
		x := &examination{clocks: tc.clocks}
		x.clock(t.Context())
		if got := x.checks[0]; got.Status != tc.status || tc.status == CheckFailed && !strings.Contains(got.Found, "a") {
			t.Errorf("%v: %+v", tc.clocks, got)
		}
	}
}

// A namespace that keeps runs for less than gateways rely on is a warning.
func TestExamineRetention(t *testing.T) {
	t.Parallel()
	for kept, status := range map[time.Duration]CheckStatus{0: CheckOK, time.Hour: CheckWarning, 24 * time.Hour: CheckOK} {
		x := &examination{}
		x.namespace("default", &runs.Inspection{Exists: true, Retention: kept, Index: errors.New("away")})
		if got := x.checks[0]; got.Name != "namespace" || got.Status != status {
			t.Errorf("%s: %+v", kept, got)
		}
	}
}

// A build that starts runs, or has some, and no workers is a warning, and so is one that
// nobody has promoted where all workers have one.
func TestExamineBuilds(t *testing.T) {
	t.Parallel()
	build := func(state runs.BuildState, workers int) runs.Build {
		return runs.Build{ID: "v1", State: state, Workers: workers}
	}
	for _, tc := range []struct {
		build  runs.Build
		plain  int
		status CheckStatus
	}{
		{build(runs.BuildCurrent, 1), 0, CheckOK}, {build(runs.BuildCurrent, 0), 1, CheckWarning}, {build(runs.BuildRamping, 0), 1, CheckWarning},
		{build(runs.BuildDraining, 0), 1, CheckWarning}, {build(runs.BuildDrained, 0), 1, CheckOK}, {build(runs.BuildInactive, 1), 1, CheckOK},
		{build(runs.BuildInactive, 1), 0, CheckWarning},
	} {
		x := &examination{}
		x.builds(&runs.Inspection{Builds: []runs.Build{tc.build}, Plain: tc.plain})
		if got := x.checks[0]; got.Name != "builds" || got.Status != tc.status {
			t.Errorf("%+v, and %d workers without: %+v", tc.build, tc.plain, got)
		}
	}
}

// A client certificate that has expired, or soon will, is reported.
func TestExamineCertificate(t *testing.T) {
	t.Parallel()
	pair := perduretest.Must(web.OpenPair(filepath.Join(t.TempDir(), "pair.pem")))(t)
	cfg := pair.Client()
	end := cfg.Certificates[0].Leaf.NotAfter
	for now, status := range map[time.Time]CheckStatus{end.Add(-30 * 24 * time.Hour): CheckOK, end.Add(-time.Hour): CheckWarning, end.Add(time.Hour): CheckFailed} {
		x := &examination{}
		x.certificate(cfg, now)
		if got := x.checks[0]; got.Name != "client certificate" || got.Status != status {
			t.Errorf("at %s: %+v", now, got)
		}
	}
	x := &examination{}
	x.certificate(nil, end)
	if len(x.checks) > 0 {
		t.Errorf("without a certificate: %+v", x.checks)
	}
}

// TestSlowBackends shows that a backend that is slow to start is waited for, and that this
// is reported meanwhile.
func TestSlowBackends(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer slow.Close()
	pool, err := backends.New([]backends.Config{{Name: "slow", Transport: backends.StreamableHTTP, URL: slow.URL}}, backends.Aggregation{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	pool.Start(t.Context())
	told := 0
	awaitTold(t.Context(), pool, 20*time.Millisecond, time.Minute, func(names []string, _ time.Duration) {
		if told++; told == 2 {
			close(release)
		}
		if !slices.Equal(names, []string{"slow"}) {
			t.Errorf("told of %q", names)
		}
	})
	if s := pool.Status()[0]; told < 2 || !s.Tried || s.Error == "" {
		t.Errorf("told %d times, then %+v", told, s)
	}
}

// Doctor reports runs that are quarantined, and signals that wait for a key.
func TestExamineHeldRuns(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		at     runs.Inspection
		name   string
		status CheckStatus
		fix    string
	}{
		{runs.Inspection{Exists: true, Pauses: true}, "quarantine", CheckOK, ""},
		{runs.Inspection{Exists: true, Pauses: true, Quarantined: -1}, "quarantine", CheckOK, ""},
		{runs.Inspection{Exists: true}, "quarantine", CheckWarning, "frontend.WorkflowPauseEnabled"},
		{runs.Inspection{Exists: true, Pauses: true, Quarantined: 2}, "quarantine", CheckFailed, "perdure runs list --status quarantined"},
		{runs.Inspection{Exists: true, Unchecked: 1}, "signals", CheckFailed, "all gateways and workers"},
	} {
		x := &examination{}
		x.namespace("default", &tc.at)
		i := slices.IndexFunc(x.checks, func(c Check) bool { return c.Name == tc.name })
		if i < 0 || x.checks[i].Status != tc.status || !strings.Contains(x.checks[i].Fix, tc.fix) {
			t.Errorf("%+v: %+v", tc.at, x.checks)
		}
	}
}

// What doctor advises fits what is wrong.
func TestDoctorAdvises(t *testing.T) {
	t.Parallel()
	turnsDown := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer turnsDown.Close()
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer refuses.Close()
	strange := httptest.NewTLSServer(http.NotFoundHandler())
	defer strange.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for url, want := range map[string]string{
		turnsDown.URL: "takes no calls now",
		refuses.URL:   "refuses the credentials",
		strange.URL:   "renew its certificate",
		gone.URL:      "start it",
	} {
		pool, err := backends.New([]backends.Config{{Name: "b", Transport: backends.StreamableHTTP, URL: url}}, backends.Aggregation{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		pool.Start(t.Context())
		awaitTried(t.Context(), pool, 10*time.Second)
		if s := pool.Status()[0]; !strings.Contains(backendFix(s.Err, false), want) {
			t.Errorf("%s: the advice is %q, want %q", s.Error, backendFix(s.Err, false), want)
		}
	}
	for err, want := range map[error]string{
		fmt.Errorf("reading: %w", fs.ErrPermission): "chown",
		fmt.Errorf("reading: %w", fs.ErrNotExist):   "from a copy",
		errors.New("no ID"):                         "write lines",
	} {
		if got := keyFileFix(err, "write lines"); !strings.Contains(got, want) {
			t.Errorf("%v: the advice is %q, want %q", err, got, want)
		}
	}
}

// TestDoctorShowsEveryRule: each rule that matches no tool is a line of its own.
func TestDoctorShowsEveryRule(t *testing.T) {
	t.Parallel()
	found, diags := config.Load(config.Sources{Config: "perdure.yaml", Text: []byte(`
backends:
  - {name: gh, command: gh, effects: [{tool: gett_issue, class: read}, {tool: get_issue, class: read}, {tool: lst_issues, class: read}]}
`)})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	x := &examination{found: found}
	x.rules(found.Unmatched([]backends.Tool{{Name: "gh_get_issue", Backend: "gh", Original: "get_issue"}}, nil))
	var lines []string
	for _, k := range x.checks {
		lines = append(lines, fmt.Sprint(k.Name, " ", k.Status, " ", k.Found))
	}
	all := strings.Join(lines, "\n")
	if len(lines) != 2 || !strings.Contains(all, `"gett_issue" matches no tool`) || !strings.Contains(all, `"lst_issues" matches no tool`) {
		t.Error(all)
	}
}

// TestDoctorKnowsCompositeTools shows when doctor knows which composite tools rules may
// name: from files, what a dev or a database has published, and a server that runs.
func TestDoctorKnowsCompositeTools(t *testing.T) {
	t.Parallel()
	data, files := t.TempDir(), config.Sources{Definitions: []string{"tools"}}
	published, err := OpenRegistryFile(data)
	if err != nil {
		t.Fatal(err)
	}
	defer published.Close()
	err = published.Edit(t.Context(), "ada", store.Mark{}, func(store.News) ([]store.Edit, error) {
		return []store.Edit{{Action: store.Published, Version: store.Version{Name: "published", Version: "1.0.0"}}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		of    Installation
		store *store.Inspection
		want  []string // nil = not known
	}{
		"no files, no server":             {of: Installation{Data: data}},
		"files, nothing published":        {of: Installation{Config: files, Data: t.TempDir()}, want: []string{}},
		"files, published":                {of: Installation{Config: files, Data: data}, want: []string{"published"}},
		"a server":                        {of: Installation{Offered: []string{"a"}, Data: data}, want: []string{"a", "published"}},
		"a database":                      {of: Installation{Database: "postgres://"}, store: &store.Inspection{Published: []string{"b"}}, want: []string{"b"}},
		"a database that does not answer": {of: Installation{Database: "postgres://", Config: files}},
	} {
		x := &examination{Installation: tc.of, store: tc.store}
		if got := x.offered(t.Context()); !slices.Equal(got, tc.want) || (got == nil) != (tc.want == nil) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
