package approvals

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strings"

	"github.com/perdure/perdure/gateway/auth"
)

// login shows how to sign in, or sends the browser to the issuer. A one-time link
// leads here, too.
func (in *inbox) login(w http.ResponseWriter, r *http.Request) {
	to := r.URL.Query().Get("to")
	switch in.Login.Kind() {
	case auth.LoginOIDC:
		if err := in.Login.Begin(w, r, to); err != nil {
			in.Logger.Warn("signing in", "error", err)
			in.pages.problem(w, http.StatusBadGateway, auth.Identity{}, "Signing in does not work at the moment.",
				"The identity provider does not answer as it should. Nothing is lost: try again later.")
		}
	case auth.LoginLink:
		in.loginByLink(w, r, to)
	case auth.LoginToken:
		in.askToSignIn(w, http.StatusOK, to, "")
	default: // Authenticate returns the reason
		http.Redirect(w, r, Prefix, http.StatusSeeOther)
	}
}

func (in *inbox) askToSignIn(w http.ResponseWriter, status int, to, reason string) {
	to = in.Login.ReturnTo(to)
	of := strings.TrimPrefix(to, Prefix+"/")
	if !simpleID.MatchString(of) {
		of = ""
	}
	in.pages.show(w, status, "login", loginData{page: page{Title: "Sign in"}, Link: in.Login.Kind() == auth.LoginLink, To: to, Of: of, Reason: reason})
}

// simpleID are the IDs of runs that a shell takes as they are: who is not signed
// in may have been sent here by anybody, and is shown a command.
var simpleID = regexp.MustCompile(`^[A-Za-z0-9_.-]+/[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// loginByLink signs in by the code of a link, if there is one. What only looks
// where a link leads (HEAD) does not use it up.
func (in *inbox) loginByLink(w http.ResponseWriter, r *http.Request, to string) {
	code := r.URL.Query().Get("code")
	if code == "" || r.Method != http.MethodGet {
		in.askToSignIn(w, http.StatusOK, to, "")
		return
	}
	err := in.Login.SignInByLink(w, r, code)
	if err == nil {
		http.Redirect(w, r, in.Login.ReturnTo(to), http.StatusSeeOther)
		return
	}
	if _, err := in.Login.Authenticate(r); err == nil { // the same browser opens it again
		http.Redirect(w, r, in.Login.ReturnTo(to), http.StatusSeeOther)
		return
	}
	in.refuseSignIn(w, r, to, err, "This link has expired, or was used before.")
}

// loginByToken takes the form in which a token was entered.
func (in *inbox) loginByToken(w http.ResponseWriter, r *http.Request) {
	free, err := in.readForm(w, r, auth.Identity{}, maxForm)
	if err != nil {
		in.refuseForm(w, auth.Identity{}, err)
		return
	}
	defer free()
	if in.Login.Kind() != auth.LoginToken {
		in.pages.problem(w, http.StatusNotFound, auth.Identity{}, "A token signs nobody in here.", "Open the page again.")
		return
	}
	to := r.PostForm.Get("to")
	if err := in.Login.SignIn(w, r, r.PostForm.Get("access")); err != nil {
		in.refuseSignIn(w, r, to, err, "This token is not valid here.")
		return
	}
	http.Redirect(w, r, in.Login.ReturnTo(to), http.StatusSeeOther)
}

// refuseSignIn explains why a link or a token did not sign the user in.
func (in *inbox) refuseSignIn(w http.ResponseWriter, r *http.Request, to string, err error, reason string) {
	in.Logger.Info("refusing to sign in", "remote", r.RemoteAddr, "error", err)
	switch {
	case in.throttled(w, err):
	case errors.Is(err, auth.ErrCallerToken):
		in.askToSignIn(w, http.StatusForbidden, to, "With this token programs call. It does not open this page: who approves needs a token of their own.")
	default:
		in.askToSignIn(w, http.StatusUnauthorized, to, reason)
	}
}

// throttled answers who has tried too often.
func (in *inbox) throttled(w http.ResponseWriter, err error) bool {
	var often *auth.ThrottledError
	if !errors.As(err, &often) {
		return false
	}
	w.Header().Set("Retry-After", fmt.Sprint(int(math.Ceil(often.After.Seconds()))))
	in.pages.problem(w, http.StatusTooManyRequests, auth.Identity{}, "There were too many attempts to sign in.", "Wait a moment, and try again.")
	return true
}

// loginByIssuer takes up the browser that comes back from the issuer.
func (in *inbox) loginByIssuer(w http.ResponseWriter, r *http.Request) {
	to, err := in.Login.Complete(w, r)
	if err == nil {
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	in.Logger.Info("signing in", "remote", r.RemoteAddr, "error", err)
	var lacks *auth.MissingScopeError
	switch {
	case in.throttled(w, err):
	case errors.As(err, &lacks):
		in.pages.problem(w, http.StatusForbidden, auth.Identity{}, "You could not be signed in.",
			"You may not use this server: the identity provider has not granted the scope "+lacks.Scope+".")
	default:
		in.pages.problem(w, http.StatusForbidden, auth.Identity{}, "You could not be signed in.",
			"The sign-in took too long, was refused, or was begun in another browser. Open the page again.")
	}
}

func (in *inbox) logout(w http.ResponseWriter, r *http.Request, who auth.Identity) {
	free, err := in.readForm(w, r, who, maxForm)
	if err != nil {
		in.refuseForm(w, who, err)
		return
	}
	defer free()
	if !in.signedFor(r, who, leaving) {
		in.pages.problem(w, http.StatusForbidden, who, "You are still signed in.", "The form was open for too long. Open the page again, and sign out there.")
		return
	}
	in.Login.SignOut(w)
	in.pages.problem(w, http.StatusOK, auth.Identity{}, "You are signed out.", "The identity provider may still know you in this browser.")
}
