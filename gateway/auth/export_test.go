package auth

import "time"

// SetRefresh changes how often the keys of an issuer may be fetched, and how
// old they get.
func (a *OIDC) SetRefresh(every, maximum time.Duration) {
	a.keys.every, a.keys.maximum = every, maximum
}

// LookAgain makes a token file look at its file with the next token.
func (f *TokenFile) LookAgain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looked = time.Time{}
}
