package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/web"
)

// An admission decides which HTTP requests are served, and for whom.
type admission struct {
	authenticate func(*http.Request) (auth.Identity, error)
	most         int // requests of one caller that are under way
	requests     counter
	bodies       *web.Bodies
	maxRequest   int64 // bytes of a body
	log          *slog.Logger
}

// admit finds out who sends a request, or answers it.
func (a *admission) admit(w http.ResponseWriter, r *http.Request) (auth.Identity, bool) {
	if a.cors(w, r) {
		return auth.Identity{}, false
	}
	who, err := a.authenticate(r)
	if err == nil && who.Subject == "" {
		err = errors.New("identity without a subject")
	}
	if err != nil {
		a.log.Info("refusing a request", "remote", r.RemoteAddr, "error", err)
		auth.Refuse(w, err)
		return auth.Identity{}, false
	}
	return who, true
}

// open admits and counts a request, or answers it. ctx is that of the request, in which
// its caller waits for room for what it reads; leave ends it.
func (a *admission) open(w http.ResponseWriter, r *http.Request) (ctx context.Context, who auth.Identity, leave func(), ok bool) {
	if who, ok = a.admit(w, r); !ok {
		return nil, who, nil, false
	}
	if leave, ok = a.enter(w, r, who); !ok {
		return nil, who, nil, false
	}
	return a.reading(r.Context(), web.Caller(who.Known(), r)), who, leave, true
}

// cors lets pages read what they get, and answers the question of a browser whether a
// page may send a request. web.Server has refused the pages that may not.
func (a *admission) cors(w http.ResponseWriter, r *http.Request) (answered bool) {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", sessionHeader+", WWW-Authenticate")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST")
	h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// read reads the body of a request; free gives its room back.
func (a *admission) read(w http.ResponseWriter, r *http.Request, who auth.Identity) (body []byte, free func(), err error) {
	return a.bodies.Read(w, r, web.Caller(who.Known(), r), a.maxRequest)
}

// enter counts a request of a caller, or answers 429 at the limit.
func (a *admission) enter(w http.ResponseWriter, r *http.Request, who auth.Identity) (leave func(), ok bool) {
	leave, err := a.count(web.Caller(who.Known(), r))
	if err != nil {
		e := &QuotaError{After: 5 * time.Second, Message: err.Error()}
		a.log.Info("refusing a request", "remote", r.RemoteAddr, "caller", who.Subject, "error", e)
		w.Header().Set("Retry-After", e.retryAfter())
		http.Error(w, e.Error(), http.StatusTooManyRequests)
	}
	return leave, err == nil
}

// weigh takes room for the work on a message that is read already; free gives it back.
func (a *admission) weigh(ctx context.Context, caller string, message []byte) (free func(), err error) {
	return a.bodies.Weigh(ctx, caller, message)
}

// reading is a context in which a caller waits for room for what it reads.
func (a *admission) reading(ctx context.Context, caller string) context.Context {
	return a.bodies.Within(ctx, caller)
}

// count counts a request of a caller; err is set at the limit.
func (a *admission) count(caller string) (leave func(), err error) {
	leave, ok := a.requests.enter(caller, a.most)
	if !ok {
		return nil, fmt.Errorf("%d of your requests are under way here, the quota of a caller (quotas.requests)", a.most)
	}
	return leave, nil
}

// note logs that a message of a caller is refused.
func (a *admission) note(caller string, err error) {
	a.log.Info("refusing a message", "caller", caller, "error", err)
}

// longest is how many bytes a message may have.
func (a *admission) longest() int64 { return a.maxRequest }

// A counter counts what each caller has under way in this process.
type counter struct {
	mu    sync.Mutex
	known map[string]int
}

// enter counts one more of a caller, unless that has as many as it may have.
func (c *counter) enter(caller string, most int) (leave func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[caller] >= most {
		return nil, false
	}
	if c.known == nil {
		c.known = map[string]int{}
	}
	c.known[caller]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.known[caller]--; c.known[caller] == 0 {
			delete(c.known, caller)
		}
	}, true
}
