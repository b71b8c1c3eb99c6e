package auth

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// A Refusal is why a request is not taken, and how that is answered.
type Refusal struct {
	Status    int    // of the answer; 0 = 401
	Challenge string // WWW-Authenticate of the answer; "" = Bearer with a 401, else none
	Message   string // for the sender of the request; "" = not authenticated
	Err       error  // for the log
}

func (r *Refusal) Error() string {
	if r.Err != nil {
		return fmt.Sprintf("%s: %v", r.message(), r.Err)
	}
	return r.message()
}

func (r *Refusal) Unwrap() error { return r.Err }

func (r *Refusal) message() string { return cmp.Or(r.Message, "not authenticated") }

// Refuse answers a request whose sender an Authenticator refused.
func Refuse(w http.ResponseWriter, err error) {
	refusal := &Refusal{}
	_ = errors.As(err, &refusal) // the text of any other error is not sent
	status := cmp.Or(refusal.Status, http.StatusUnauthorized)
	challenge := refusal.Challenge
	if challenge == "" && status == http.StatusUnauthorized {
		challenge = "Bearer"
	}
	if challenge != "" {
		w.Header().Set("WWW-Authenticate", challenge)
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	http.Error(w, refusal.message(), status)
}

// Codes of errors in challenges, of RFC 6750, section 3.1.
const (
	invalidToken      = "invalid_token"
	insufficientScope = "insufficient_scope"
)

// challenge is a WWW-Authenticate of RFC 6750 from names and values in turn; those
// without a value are omitted.
func challenge(params ...string) string {
	var parts []string
	for i := 0; i < len(params); i += 2 {
		if params[i+1] != "" {
			parts = append(parts, params[i]+`="`+quotable.Replace(params[i+1])+`"`)
		}
	}
	return strings.TrimSpace("Bearer " + strings.Join(parts, ", "))
}

// quotable makes text fit for a quoted string of RFC 9110.
var quotable = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\r", " ", "\n", " ")

// errNoToken is an error because there is no token, or not just one.
var errNoToken = errors.New("no bearer token")

// bearer is the token of a request. It is looked for in the header
// Authorization alone: a token in a URL gets into logs.
func bearer(r *http.Request) (string, error) {
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return "", errNoToken
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", errNoToken
	}
	return token, nil
}
