package auth

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// How often one address may try to sign in with what could be guessed, and with one
// sign-in begun at an issuer. A browser does it once in hours; who shares an address
// with others, as behind a proxy, shares this.
const (
	attemptsAtOnce = 30
	attemptEvery   = 2 * time.Second // after those
	maxPeers       = 10_000          // that are remembered
)

// A ThrottledError refuses an attempt to sign in after too many.
type ThrottledError struct{ After time.Duration }

func (e *ThrottledError) Error() string {
	return fmt.Sprintf("too many attempts to sign in; try again in %s", e.After.Round(time.Second))
}

// A throttle counts the attempts of each peer: an address, or a sign-in begun.
type throttle struct {
	mu    sync.Mutex
	peers map[string]*rate.Limiter
}

// attempt counts one of a peer.
func (t *throttle) attempt(now time.Time, peer string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	reserved := t.of(now, peer).ReserveN(now, 1)
	wait := reserved.DelayFrom(now)
	if wait <= 0 {
		return nil
	}
	reserved.CancelAt(now)
	return &ThrottledError{After: wait}
}

func (t *throttle) of(now time.Time, peer string) *rate.Limiter {
	if known := t.peers[peer]; known != nil {
		return known
	}
	if len(t.peers) >= maxPeers {
		t.forget(now)
	}
	if len(t.peers) >= maxPeers { // the others share what is counted for none
		peer = ""
	}
	if t.peers[peer] == nil {
		if t.peers == nil {
			t.peers = map[string]*rate.Limiter{}
		}
		t.peers[peer] = rate.NewLimiter(rate.Every(attemptEvery), attemptsAtOnce)
	}
	return t.peers[peer]
}

// forget drops the peers without an attempt for a while.
func (t *throttle) forget(now time.Time) {
	for peer, limiter := range t.peers {
		if limiter.TokensAt(now) >= attemptsAtOnce {
			delete(t.peers, peer)
		}
	}
}
