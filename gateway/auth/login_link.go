package auth

import (
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure/internal/web"
)

// LinkLife is how long a one-time link can be used.
const LinkLife = 10 * time.Minute

var errUsedLink = errors.New("the link was used before, has expired, or is not from here")

func linkStamps(key []byte) *Stamps {
	return NewStamps("one-time sign-in link", LinkLife, key, nil)
}

// NewLinkCode makes the code of a one-time link for a server with this key.
// Nothing that is reached by HTTP gives one out: who makes one can read the
// key.
func NewLinkCode(key []byte) string {
	nonce := rand.Text()
	return nonce + "." + linkStamps(key).Sign(time.Now(), nonce)
}

// links takes each code once.
type links struct {
	stamps  *Stamps
	started time.Time // codes of before may have been used already

	mu   sync.Mutex
	used map[string]time.Time // when, by nonce
}

func newLinks(key []byte, now time.Time) *links {
	return &links{stamps: linkStamps(key), started: now.Truncate(time.Second), used: map[string]time.Time{}}
}

// take reports whether a code is good, which it is once.
func (l *links) take(now time.Time, code string) bool {
	nonce, stamp, _ := strings.Cut(code, ".")
	made, valid := l.stamps.Verify(now, stamp, nonce)
	if !valid || made.Before(l.started) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for old, at := range l.used {
		if now.Sub(at) > 2*LinkLife {
			delete(l.used, old)
		}
	}
	if _, used := l.used[nonce]; used {
		return false
	}
	l.used[nonce] = now
	return true
}

// SignInByLink signs in the person at the terminal, with the code of a one-time
// link.
func (l *Login) SignInByLink(w http.ResponseWriter, r *http.Request, code string) error {
	if l.Kind() != LoginLink {
		return errors.New("sign-in with a link is not available here")
	}
	if err := onThisMachine(r); err != nil {
		return err
	}
	if err := l.attempts.attempt(l.now(), web.Peer(r.RemoteAddr)); err != nil {
		return err
	}
	if !l.links.take(l.now(), code) {
		return errUsedLink
	}
	return l.enter(w, browserSession{Subject: Anonymous, Link: true})
}
