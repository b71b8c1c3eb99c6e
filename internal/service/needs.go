package service

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/store"
)

// A need is probed every needInterval, and after a different answer every needAgain: it
// is unavailable, or back, after needTimes equal answers.
const (
	needInterval = 5 * time.Second
	needAgain    = time.Second
	needTimes    = 2
	needLimit    = 10 * time.Second // of one look: what is slow serves calls, if slowly, and all replicas would find it so
)

// Needs that others ask for by name.
const (
	temporalNeed = "Temporal"
	indexNeed    = "the index"
)

// A need is something without which a service takes no calls.
type need struct {
	name  string                      // such as Temporal
	means string                      // what follows while it is away
	probe func(context.Context) error // an error reports that it is unavailable
	fix   func(error) string          // what helps against an error, or ""; nil = that is not known
	spare func() bool                 // whether calls are taken without it for now; nil = they are not
	log   *slog.Logger

	mu    sync.Mutex
	err   error     // of the last outage; nil = available
	since time.Time // the outage
}

// watch probes the need until ctx ends.
func (n *need) watch(ctx context.Context) {
	for same := 0; ctx.Err() == nil; {
		err := n.look(ctx)
		if ctx.Err() != nil {
			return
		}
		pause := needInterval
		if (err == nil) == (n.away() == nil) {
			same = 0
		} else if same++; same < needTimes {
			pause = needAgain
		} else {
			n.turn(err)
			same = 0
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

func (n *need) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, needLimit)
	defer cancel()
	return n.probe(ctx)
}

// away reports why the need is not met; nil = it is.
func (n *need) away() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// blocks reports whether the service takes no calls for want of the need.
func (n *need) blocks() bool {
	return n.away() != nil && (n.spare == nil || !n.spare())
}

// turn records that the need is unavailable with an error, or back, and logs it once.
func (n *need) turn(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err = err; err != nil {
		n.since = time.Now()
		n.warn(err)
		return
	}
	n.log.Warn(n.name+" is back", "after", time.Since(n.since).Round(time.Second).String())
}

func (n *need) warn(err error) {
	about := []any{"error", err}
	if n.fix != nil {
		if fix := n.fix(err); fix != "" {
			about = append(about, "fix", fix)
		}
	}
	n.log.Warn(n.name+" is away: "+n.means, about...)
}

// newNeeds are the needs of the service.
func (s *Service) newNeeds() []*need {
	needs := []*need{{name: temporalNeed, means: "calls are answered with an error that says to try again, and runs wait", probe: s.probeTemporal, fix: runs.Fix, log: s.opts.Logger}}
	if db := s.database(); db != nil {
		needs = append(needs, &need{name: "the database", means: "calls and runs that need it (large values, credentials or headers of callers) wait or fail with an error that says to try again; others continue", probe: db.Probe, fix: store.Fix, log: s.opts.Logger})
	}
	if s.front != nil {
		needs = append(needs, &need{name: indexNeed, means: "Temporal does not find runs, so there are no lists, approvals pages and metrics of runs; calls and runs continue", probe: s.probeIndex, spare: func() bool { return true }, log: s.opts.Logger})
	}
	if issuer, ok := s.callers.(*auth.OIDC); ok && s.front != nil {
		needs = append(needs, &need{name: "the issuer", means: "tokens of callers are checked with its keys of before for 15 minutes, then requests get 503", probe: issuer.Probe, spare: issuer.Usable, log: s.opts.Logger})
	}
	return needs
}

// noteLost reports that Temporal has lost what it had kept, if that is so.
func (s *Service) noteLost(ctx context.Context) {
	run := s.runs.Lost(ctx)
	if run == "" {
		return
	}
	s.opts.Telemetry.HistoryLost()
	s.opts.Logger.Error("Temporal's database lacks what Temporal had written to it, such as after a failover to a standby that lagged; runs may do again what they have done", "run", run, "fix", lostFix)
}

// lostFix is what helps against a Temporal that remembers what its database lacks.
const lostFix = "stop the workers, restart all services of Temporal, look at the runs, and start the workers: Backup and restore in docs/operations.md"

// probeIndex probes the index of runs. While Temporal itself is away, nothing is known of
// the index: it is as it was.
func (s *Service) probeIndex(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, needLimit/2)
	defer cancel()
	err := s.runs.ProbeIndex(short)
	if err == nil || s.probeTemporal(ctx) == nil {
		return err
	}
	return s.away(indexNeed)
}

// away reports why the need of a name is not met; nil = it is, or there is none.
func (s *shared) away(name string) error {
	for _, n := range s.needs {
		if n.name == name {
			return n.away()
		}
	}
	return nil
}
