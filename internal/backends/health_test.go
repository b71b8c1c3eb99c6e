package backends

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A call waits for a backend that may only be slow, and not as long for one that has not
// answered a try for as long as a call waits.
func TestPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHealth(slog.New(slog.DiscardHandler))
		for _, step := range []struct {
			what string
			do   func()
			want time.Duration
		}{
			{"before the first try", func() {}, acquireTimeout},
			{"as it begins", h.noteTry, acquireTimeout},
			{"after 10 s of it", func() { time.Sleep(10 * time.Second) }, 5 * time.Second},
			{"after 20 s of it", func() { time.Sleep(10 * time.Second) }, hungTimeout},
			{"after it has failed", h.noteTried, hungTimeout},
			{"in the next", h.noteTry, hungTimeout},
			{"after that has failed at once", h.noteTried, acquireTimeout},
		} {
			if step.do(); h.patience() != step.want {
				t.Errorf("%s, a call waits for %s, want %s", step.what, h.patience(), step.want)
			}
		}
	})
}

// A call of a backend that hangs since the start is answered soon.
func TestAwaitHung(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended }))
	t.Cleanup(hangs.Close)
	t.Cleanup(func() { close(ended) })
	p := openUnready(t, httpConfig(hangs.URL))
	b := p.byName["be"]
	for b.health.patience() == acquireTimeout {
		time.Sleep(time.Millisecond)
	}
	b.health.mu.Lock()
	b.health.try = time.Now().Add(-acquireTimeout)
	b.health.mu.Unlock()
	began := time.Now()
	if p.Await(t.Context(), "be") {
		t.Fatal("it has answered")
	}
	if took := time.Since(began); took > acquireTimeout/2 {
		t.Errorf("the call waited for %s", took)
	}
}

// A backend that was up and answers no new connection is shown as down within seconds, long
// before the try to connect ends.
func TestBackendThatHangsIsDown(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	var hangs atomic.Bool
	handler := eras[0].handler(newTestServer())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hangs.Load() {
			<-ended
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(ended) })
	p := open(t, httpConfig(server.URL))
	hangs.Store(true)
	s, _ := p.byName["be"].sessions.take()
	p.byName["be"].sessions.release(s)
	s.lose()
	for began := time.Now(); p.Status()[0].Up; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 4*recallAfter {
			t.Fatal("it is still shown as up")
		}
	}
	if text := p.Status()[0].Error; !strings.Contains(text, "not answered a new connection") {
		t.Errorf("it is down as %q", text)
	}
}

// A backend that turns the handshake down is shown with the status that it has answered.
func TestHandshakeTurnedDown(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{
		http.StatusTooManyRequests:    "initialising: HTTP status 429 Too Many Requests",
		http.StatusServiceUnavailable: "initialising: HTTP status 503 Service Unavailable",
		http.StatusUnauthorized:       "initialising: HTTP status 401 Unauthorized",
		http.StatusForbidden:          "initialising: HTTP status 403 Forbidden",
		http.StatusNotFound:           "initialising: HTTP status 404 Not Found: server returned 4xx for initialize POST, likely a legacy SSE server",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(server.Close)
		p := openUnready(t, httpConfig(server.URL))
		for began := time.Now(); !p.Status()[0].Tried && time.Since(began) < patience; time.Sleep(time.Millisecond) {
		}
		if got := p.Status()[0].Error; got != want {
			t.Errorf("status %d is shown as %q, want %q", status, got, want)
		}
	}
}

// A backend that turns connections down is left alone for as long as it asks, whatever
// calls want it meanwhile.
func TestTurnedDownConnectionWaits(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		var tries atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			tries.Add(1)
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(status)
		}))
		t.Cleanup(server.Close)
		p := openUnready(t, httpConfig(server.URL))
		for began := time.Now(); !p.Status()[0].Tried && time.Since(began) < patience; time.Sleep(time.Millisecond) {
		}
		first := tries.Load()
		for began := time.Now(); time.Since(began) < time.Second; time.Sleep(10 * time.Millisecond) {
			select {
			case p.byName["be"].kick <- struct{}{}:
			default:
			}
		}
		if again := tries.Load() - first; first == 0 || again != 0 {
			t.Errorf("status %d: %d requests, and %d more in the pause that it asked for", status, first, again)
		}
	}
}

// However long a server says that its list of tools is valid, it is looked at often enough
// to notice that the backend is gone.
func TestTTLIsBounded(t *testing.T) {
	t.Parallel()
	for ttl, want := range map[time.Duration]time.Duration{0: defaultTTL, time.Second: minTTL, 2 * time.Minute: 2 * time.Minute, 24 * time.Hour: maxTTL} {
		if got := bounded(ttl); got != want {
			t.Errorf("a list that is valid for %s is read again after %s, want %s", ttl, got, want)
		}
	}
}
