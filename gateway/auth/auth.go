// Package auth finds out who sent a request, and what they may do.
//
// An Authenticator finds out who it was (Identity); a Policy decides what they may do
// (May). Nothing else in perdure checks permission.
package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"
)

// Anonymous is the subject of all callers where none must authenticate.
const Anonymous = "anonymous"

// An Identity is who sent a request.
type Identity struct {
	Subject string // at its issuer; never empty
	Issuer  string // URL of who vouches for the subject; "" = this installation
	Groups  []string
	Scopes  []string
	Client  string    // the program that sent it, if its credentials name it
	Expires time.Time // zero = never
	// Token is the bearer token as it came. It is for being exchanged while
	// the request lasts; it is never stored, logged or marshalled.
	Token string `json:"-"`
}

// compositeIssuer vouches for composite tools that act in their own right. No
// token can name it: issuers of tokens are URLs.
const compositeIssuer = "perdure:composite"

// Composite is the identity of a composite tool that runs as itself and not as
// its caller.
func Composite(name string) Identity { return Identity{Issuer: compositeIssuer, Subject: name} }

const (
	// issuerEnd is between issuer and subject in the name of a caller. No issuer has
	// it: OpenID Connect Discovery 1.0 forbids fragments there, and subjects
	// without an issuer must not have it (Plain).
	issuerEnd = "#"
	// maxCaller is what search attributes hold, with room for the longer
	// writing of some characters.
	maxCaller = 200
)

// Plain reports whether a name can be a subject without an issuer.
func Plain(name string) bool { return name != "" && !strings.Contains(name, issuerEnd) }

// Caller names exactly one identity: the subject, or with an issuer ISSUER#SUBJECT, so
// that equal subjects of two issuers are two callers. It is what runs keep as their
// caller. One of more than 200 bytes is cut, and ends with a digest of the whole.
func (who Identity) Caller() string {
	p := who.Subject
	if who.Issuer != "" {
		p = who.Issuer + issuerEnd + who.Subject
	}
	if len(p) <= maxCaller {
		return p
	}
	sum := sha256.Sum256([]byte(p))
	digest := hex.EncodeToString(sum[:16])
	return strings.ToValidUTF8(p[:maxCaller-len(digest)-1], "") + "." + digest
}

// Known is the Caller of an authenticated identity; "" = not authenticated.
func (who Identity) Known() string {
	if who.Issuer == "" && who.Subject == Anonymous {
		return ""
	}
	return who.Caller()
}

// FromCaller is the inverse of Caller, as far as a policy needs it: the identity that
// is known of a caller once its request is over.
func FromCaller(caller string, groups []string) Identity {
	issuer, subject, ok := strings.Cut(caller, issuerEnd)
	if !ok {
		issuer, subject = "", caller
	}
	return Identity{Issuer: issuer, Subject: subject, Groups: groups}
}

// An Authenticator identifies the sender of a request. Its error is answered 401 unless
// it is a *Refusal with another status; the text of any other error is not shown to the
// client.
type Authenticator interface {
	Authenticate(*http.Request) (Identity, error)
}

// Everybody authenticates every request as Anonymous.
type Everybody struct{}

// Authenticate never fails.
func (Everybody) Authenticate(*http.Request) (Identity, error) {
	return Identity{Subject: Anonymous}, nil
}
