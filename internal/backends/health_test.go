package backends

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
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
