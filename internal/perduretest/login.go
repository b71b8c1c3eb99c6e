package perduretest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"strings"
)

// A Login is how somebody signs in with a browser: there is no form, the issuer
// knows them already.
type Login struct {
	Subject          string
	ClientID, Secret string
	Claims           Claims           // of the ID token, beside those of its subject; a nil one leaves its claim out
	Return           func(url.Values) // changes what the browser brings back; nil = nothing
	Scope            string           // that is granted, as the answer says it; "" = it says nothing
	Refuse           bool             // to give a token for the code
}

// authorize sends the browser back with a code.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.Query()
	if asked.Get("response_type") != "code" || asked.Get("code_challenge_method") != "S256" || !strings.Contains(asked.Get("scope"), "openid") {
		i.t.Errorf("the issuer is asked for %v", asked)
	}
	code := rand.Text()
	i.mu.Lock()
	i.codes[code] = asked
	i.mu.Unlock()
	back := url.Values{"code": {code}, "state": {asked.Get("state")}, "iss": {i.URL}}
	if i.Login.Return != nil {
		i.Login.Return(back)
	}
	http.Redirect(w, r, asked.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

// exchange gives an ID token for a code, once, to the client that asked for it.
func (i *Issuer) exchange(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		i.t.Error(err)
	}
	i.mu.Lock()
	asked, known := i.codes[r.PostForm.Get("code")]
	delete(i.codes, r.PostForm.Get("code"))
	i.mu.Unlock()
	id, secret, _ := r.BasicAuth()
	verifier := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
	challenge := base64.RawURLEncoding.EncodeToString(verifier[:])
	if i.Login.Refuse || !known || id != i.Login.ClientID || secret != i.Login.Secret ||
		challenge != asked.Get("code_challenge") || r.PostForm.Get("redirect_uri") != asked.Get("redirect_uri") {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		i.answer(w, map[string]string{"error": "invalid_grant", "error_description": "what was sent: " + r.PostForm.Encode()})
		return
	}
	claims := Claims{"nonce": asked.Get("nonce")}
	maps.Copy(claims, i.Login.Claims)
	given := map[string]any{"access_token": "an access token", "token_type": "Bearer", "id_token": i.TokenOf("JWT", i.Login.Subject, i.Login.ClientID, claims)}
	if i.Login.Scope != "" {
		given["scope"] = i.Login.Scope
	}
	i.answer(w, given)
}
