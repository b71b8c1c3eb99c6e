package service

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/backends"
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
	x := &examination{Installation: Installation{Starting: func(names []string, _ time.Duration) {
		if told++; told == 2 {
			close(release)
		}
		if !slices.Equal(names, []string{"slow"}) {
			t.Errorf("told of %q", names)
		}
	}}}
	x.awaitBackends(t.Context(), pool, 20*time.Millisecond)
	if s := pool.Status()[0]; told < 2 || !s.Tried || s.Error == "" {
		t.Errorf("told %d times, then %+v", told, s)
	}
}
