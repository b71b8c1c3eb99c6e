// Package store keeps data that must outlive a process and must not be in a history:
// callers' credentials for backends and what backends have listed (Grants), published
// definitions (Registry), and large values of runs (Values).
//
// Each has two implementations: PostgreSQL for replicas, files for a single process.
// Secrets are kept sealed.
package store

import (
	"context"
	"strings"
	"time"
)

// A Key names a grant: of which caller, for which backend.
type Key struct {
	Caller  string // the caller: issuer and subject, as runs have it
	Backend string
}

// A Grant is what is kept for a key. The zero Grant means none.
type Grant struct {
	// Secret is in clear here and sealed in the store; nil = none.
	Secret []byte
	// Expires is when the secret expires; zero = unknown.
	Expires time.Time
	// Wanted: a run waits for the secret.
	Wanted bool
}

func (g Grant) empty() bool { return len(g.Secret) == 0 && !g.Wanted }

func (g Grant) expired(now time.Time) bool { return !g.Expires.IsZero() && !now.Before(g.Expires) }

// Grants keep grants. They are safe for concurrent use, by any number of processes that
// share the store.
type Grants interface {
	// Get gives the grant of a key. A secret that has expired, or that no key of this
	// process opens, is none.
	Get(ctx context.Context, key Key) (Grant, error)
	// Change replaces the grant of a key by the result of f. No other Change of that key
	// begins until it has ended. If f fails, nothing changes, and its error is returned.
	Change(ctx context.Context, key Key, f func(ctx context.Context, was Grant) (Grant, error)) error
	// Latest gives the key of the last changed secret for a backend; false = none.
	Latest(ctx context.Context, backend string) (Key, bool, error)
	// Wanted gives the backends that runs of a caller wait for, sorted.
	Wanted(ctx context.Context, caller string) ([]string, error)
	// SweepRuns removes the grants of runs (RunKey) that have ended. ended is called for
	// one run after the other, and for each at most once in RunSweepEvery by all processes
	// together. Where it fails, the grants of that run stay, the others are looked at all
	// the same, and the error names the run.
	SweepRuns(ctx context.Context, ended func(ctx context.Context, run string) (bool, error)) error
	// Close ends the use of the store.
	Close()
}

// RunSweepEvery is how often SweepRuns should be called.
const RunSweepEvery = time.Minute

// runPrefix begins the backend of a RunKey.
const runPrefix = "perdure/run/"

// RunKey names what a request of a caller has left for one run, and not for one backend. It
// is kept until the run has ended. request has no slash.
func RunKey(caller, run, request string) Key {
	return Key{Caller: caller, Backend: runPrefix + request + "/" + run}
}

// runOf is the run of a RunKey; false = it is none.
func runOf(k Key) (run string, ok bool) {
	rest, ok := strings.CutPrefix(k.Backend, runPrefix)
	if !ok {
		return "", false
	}
	_, run, ok = strings.Cut(rest, "/")
	return run, ok
}

// ListKey names the tools that a backend has listed last, which are of no caller. No
// backend is named like it, since names have no slash.
func ListKey(backend string) Key { return Key{Backend: "perdure/tools/" + backend} }

const (
	pruneEvery = time.Hour
	// forgetAfter is when an unchanged grant is deleted: most servers do not take a
	// refresh token that was unused for so long.
	forgetAfter = 90 * 24 * time.Hour
)

// every calls f after each pause until the context ends.
func every(ctx context.Context, pause time.Duration, f func(context.Context)) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		f(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
