package auth

import "time"

// SetClock changes what time it is for the keys of an issuer.
func (a *OIDC) SetClock(now func() time.Time) { a.keys.now = now }

// LookAgain makes a token file look at its file with the next token.
func (f *TokenFile) LookAgain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looked = time.Time{}
}

// SetClock changes what time it is for a login.
func (l *Login) SetClock(now func() time.Time) {
	l.now = now
	if l.issuer != nil {
		l.issuer.keys.now = now
	}
}

// NewLoginAt makes a login at another time than now.
func NewLoginAt(o LoginOptions, now func() time.Time) (*Login, error) { return newLogin(o, now) }
