package service

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/perduretest"
)

// A slow reader takes what it is sent when it is let.
type slowReader struct {
	*httptest.ResponseRecorder
	let chan struct{}
}

func (r slowReader) Write(p []byte) (int, error) { <-r.let; return r.ResponseRecorder.Write(p) }

// TestAttackStatus has a caller who reads nothing ask for the status, which is as long as
// what backends offer, again and again: it is made once. Others get theirs.
func TestAttackStatus(t *testing.T) {
	t.Parallel()
	pool := perduretest.Must(backends.New(nil, backends.Aggregation{}, slog.New(slog.DiscardHandler)))(t)
	s := &Service{shared: &shared{callers: bearers{}, pool: pool, opts: Options{Loaded: &config.Loaded{}}}}
	ask := func(w http.ResponseWriter, caller string) {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/readyz?verbose", nil)
		r.Header.Set("Authorization", "Bearer "+caller)
		s.health().ServeHTTP(w, r)
	}
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		var made []slowReader
		var all sync.WaitGroup
		for range 5 {
			w := slowReader{httptest.NewRecorder(), let}
			made = append(made, w)
			all.Go(func() { ask(w, "mallory") })
		}
		synctest.Wait()
		begun := 0
		for _, w := range made {
			if w.Header().Get("Content-Type") != "" {
				begun++
			}
		}
		if begun != 1 {
			t.Errorf("%d were made at once", begun)
		}
		other := httptest.NewRecorder()
		if ask(other, "bob"); !strings.Contains(other.Body.String(), `"ready"`) {
			t.Errorf("another caller gets %d: %s", other.Code, other.Body)
		}
		close(let)
		all.Wait()
		for _, w := range made {
			if !strings.Contains(w.Body.String(), `"ready"`) {
				t.Errorf("one got %d: %s", w.Code, w.Body)
			}
		}
	})
}
