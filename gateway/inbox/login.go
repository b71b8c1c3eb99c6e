package inbox

import (
	"net/http"

	"github.com/perdure/perdure/gateway/auth"
)

// login shows how to sign in, or sends the browser to the issuer.
func (in *inbox) login(w http.ResponseWriter, r *http.Request) {
	to := r.URL.Query().Get("to")
	switch in.Login.Kind() {
	case auth.LoginToken:
		in.askForToken(w, http.StatusOK, to, "")
	case auth.LoginOIDC:
		if err := in.Login.Begin(w, r, to); err != nil {
			in.Logger.Warn("signing in", "error", err)
			in.pages.problem(w, http.StatusBadGateway, auth.Identity{}, "Signing in does not work at the moment.",
				"The identity provider does not answer as it should. Nothing is lost: try again later.")
		}
	default:
		http.Redirect(w, r, in.Login.ReturnTo(to), http.StatusSeeOther)
	}
}

func (in *inbox) askForToken(w http.ResponseWriter, status int, to, reason string) {
	in.pages.show(w, status, "login", loginData{page: page{Title: "Sign in"}, To: in.Login.ReturnTo(to), Reason: reason})
}

// loginByToken takes the form in which a token was entered.
func (in *inbox) loginByToken(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		in.refuseForm(w, auth.Identity{}, err)
		return
	}
	if in.Login.Kind() != auth.LoginToken {
		in.pages.problem(w, http.StatusNotFound, auth.Identity{}, "One does not sign in here with a token.", "Open the page again.")
		return
	}
	to := r.PostForm.Get("to")
	if err := in.Login.SignIn(w, r, r.PostForm.Get("access")); err != nil {
		in.Logger.Info("signing in with a token", "remote", r.RemoteAddr, "error", err)
		in.askForToken(w, http.StatusUnauthorized, to, "This token is not valid here.")
		return
	}
	http.Redirect(w, r, in.Login.ReturnTo(to), http.StatusSeeOther)
}

// loginByIssuer takes up the browser that comes back from the issuer.
func (in *inbox) loginByIssuer(w http.ResponseWriter, r *http.Request) {
	to, err := in.Login.Complete(w, r)
	if err != nil {
		in.Logger.Info("signing in", "remote", r.RemoteAddr, "error", err)
		in.pages.problem(w, http.StatusForbidden, auth.Identity{}, "You could not be signed in.",
			"The sign-in took too long, was refused, or was begun in another browser. Open the page again.")
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

func (in *inbox) logout(w http.ResponseWriter, r *http.Request, who auth.Identity) {
	if r.ParseForm() != nil || !in.forms.verify(in.now(), r.PostForm.Get("token"), who.Principal(), leaving) {
		in.pages.problem(w, http.StatusForbidden, who, "You are still signed in.", "The form was open for too long. Open the page again, and sign out there.")
		return
	}
	in.Login.SignOut(w)
	in.pages.problem(w, http.StatusOK, auth.Identity{}, "You are signed out.", "The identity provider may still know you in this browser.")
}
