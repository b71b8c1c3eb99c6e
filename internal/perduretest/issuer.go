package perduretest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// An Issuer is an identity provider on this machine.
type Issuer struct {
	URL     string
	Fetches atomic.Int64 // of the keys
	Down    atomic.Bool  // every request is answered 503

	// Login is who signs in with a browser, and how. It is set before the first
	// one does.
	Login Login

	t     testing.TB
	mu    sync.Mutex
	keys  []jose.JSONWebKey     // the last one signs
	codes map[string]url.Values // what was asked for, by code

	withdrawn bool // no key is published
}

// NewIssuer starts an issuer with one key, until the test ends.
func NewIssuer(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{t: t, codes: map[string]url.Values{}}
	i.Rotate()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.answer(w, map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys",
			"authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
			"id_token_signing_alg_values_supported": []string{string(jose.ES256)}})
	})
	mux.HandleFunc("GET /authorize", i.authorize)
	mux.HandleFunc("POST /token", i.exchange)
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		i.Fetches.Add(1)
		i.mu.Lock()
		defer i.mu.Unlock()
		set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
		for _, key := range i.keys {
			if i.withdrawn {
				break
			}
			set.Keys = append(set.Keys, key.Public())
		}
		i.answer(w, set)
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.Down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	i.URL = server.URL
	return i
}

func (i *Issuer) answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(body); err != nil {
		i.t.Logf("issuer: %v", err)
	}
}

// Rotate replaces the keys by a new one.
func (i *Issuer) Rotate() {
	i.t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = []jose.JSONWebKey{{Key: secret, KeyID: rand.Text(), Algorithm: string(jose.ES256), Use: "sig"}}
}

// Withdraw leaves the issuer without any key that it publishes; the last one still
// signs.
func (i *Issuer) Withdraw() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.withdrawn = true
}

// Claims of a token.
type Claims map[string]any

// Token gives a token for a subject and an audience that is good for an hour,
// except for what the claims say otherwise; a nil one leaves its claim out.
func (i *Issuer) Token(subject, audience string, more Claims) string {
	i.t.Helper()
	return i.TokenOf("at+jwt", subject, audience, more)
}

// TokenOf gives a token of another type than an access token, as its header has
// it; "" = the header has none.
func (i *Issuer) TokenOf(typ, subject, audience string, more Claims) string {
	i.t.Helper()
	i.mu.Lock()
	key := i.keys[len(i.keys)-1]
	i.mu.Unlock()
	return i.sign(jose.SigningKey{Algorithm: jose.ES256, Key: key}, typ, subject, audience, more)
}

// TokenBy gives a token that is signed by a key of another's.
func (i *Issuer) TokenBy(key jose.SigningKey, subject, audience string, more Claims) string {
	i.t.Helper()
	return i.sign(key, "at+jwt", subject, audience, more)
}

func (i *Issuer) sign(key jose.SigningKey, typ, subject, audience string, more Claims) string {
	i.t.Helper()
	now := time.Now()
	claims := Claims{"iss": i.URL, "sub": subject, "aud": audience, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "jti": rand.Text()}
	maps.Copy(claims, more)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	payload, err := json.Marshal(claims)
	if err != nil {
		i.t.Fatal(err)
	}
	options := &jose.SignerOptions{}
	if typ != "" {
		options = options.WithType(jose.ContentType(typ))
	}
	signer, err := jose.NewSigner(key, options)
	if err != nil {
		i.t.Fatal(err)
	}
	jws, err := signer.Sign(payload)
	if err != nil {
		i.t.Fatal(err)
	}
	token, err := jws.CompactSerialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return token
}
