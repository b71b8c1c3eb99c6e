package gateway

import (
	"context"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/registry"
	"github.com/perdure/perdure/internal/runs"
)

// AwaitIdle waits until no client waits for a run here.
func (g *Gateway) AwaitIdle() {
	for g.disconnects().served.busy() {
		time.Sleep(time.Millisecond)
	}
}

// AwaitStops waits until it is decided of each run whose client is gone.
func (g *Gateway) AwaitStops() { g.disconnects().stops.Wait() }

func (s *served) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		if len(r.waiting) > 0 {
			return true
		}
	}
	return false
}

// SetClock sets the clock by which tokens expire and calls arrive, before there is
// any request.
func (g *Gateway) SetClock(now func() time.Time) { g.endpoint.tokens.now = now }

// PendingStops are those of requests, for tests.
type PendingStops struct{ pendingStops }

func (l *PendingStops) Replace(id runs.RunID, cancel context.CancelFunc) func() {
	return l.replace(id, cancel)
}
func (l *PendingStops) Len() int { return len(l.runs) }

// QuotaStarts is how many starts, and callers, quota runs remember.
func QuotaStarts(r Runs) (starts, callers int) {
	q := r.(*quotaRuns)
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.starts), len(q.callers)
}

// NewQuotaRuns limits how many runs of all each caller may have. The backend crm wants the
// credentials of callers.
func NewQuotaRuns(all Runs, q Quotas) Runs {
	return newQuotaRuns(all, q.withDefaults(), func(backend string) bool { return backend == "crm" })
}

// SetDefinitions replaces the composite tools by definitions of files.
func (g *Gateway) SetDefinitions(defs []*definitions.Definition) {
	offers := make([]Offer, len(defs))
	for i, d := range defs {
		offers[i] = Offer{Entry: registry.Entry{Definition: d}}
	}
	g.SetOffers(offers)
}

func (g *Gateway) disconnects() *disconnects { return g.endpoint.requests.composites.disconnects }
