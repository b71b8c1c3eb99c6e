// Package store keeps what must outlive a process, must not be in a history,
// and belongs to no run: the credentials that callers have left for the
// backends of their runs (Grants), and the definitions that were published
// (Registry).
//
// There are two of each: in PostgreSQL for replicas that share one, and in files
// for a process by itself. Secrets are kept sealed.
package store

import (
	"context"
	"time"
)

// A Key names a grant: whose it is, and for which backend.
type Key struct {
	Principal string // issuer and subject, as runs keep their caller
	Backend   string
}

// A Grant is what is kept for a key. The zero Grant is that there is none.
type Grant struct {
	// Secret is in clear here and sealed wherever it is kept; nil = none.
	Secret []byte
	// Expires is when the secret is of no use any more; zero = not known.
	Expires time.Time
	// Wanted says that a run waits for the secret.
	Wanted bool
}

func (g Grant) empty() bool { return len(g.Secret) == 0 && !g.Wanted }

func (g Grant) expired(now time.Time) bool { return !g.Expires.IsZero() && !now.Before(g.Expires) }

// Grants keep grants. They are safe for concurrent use, by any number of
// processes as far as these share the store.
type Grants interface {
	// Get gives the grant of a key. A secret that has expired, or that no key of
	// this process opens, is none.
	Get(ctx context.Context, key Key) (Grant, error)
	// Change replaces the grant of a key by what f makes of it, and lets no
	// other Change of that key begin until it has ended. If f fails, nothing is
	// changed, and its error is returned.
	Change(ctx context.Context, key Key, f func(ctx context.Context, was Grant) (Grant, error)) error
	// Latest gives the key of the secret for a backend that was changed last;
	// false = none.
	Latest(ctx context.Context, backend string) (Key, bool, error)
	// Wanted gives the backends for which runs of a principal wait, sorted.
	Wanted(ctx context.Context, principal string) ([]string, error)
	// Close ends the use of the store.
	Close()
}

const (
	pruneEvery = time.Hour
	// forgetAfter is when a grant goes that nobody has changed since: a refresh
	// token that was not used for so long is of no use at most servers.
	forgetAfter = 90 * 24 * time.Hour
)

// every calls f now and then until the context ends.
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
