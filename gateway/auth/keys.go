package auth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// How current the keys of an issuer are. A key that the issuer has withdrawn is
// refused after currentAge at the latest; while the issuer cannot be reached,
// after outageAge, when no token is taken any more.
const (
	renewAge   = 30 * time.Second // from which age on keys are fetched again beside a request
	currentAge = time.Minute      // from which age on a request waits for that
	outageAge  = 15 * time.Minute // up to which age keys count when they cannot be fetched
	minRefresh = 10 * time.Second // between two fetches, no matter who causes them
	fetchLimit = 10 * time.Second // of one fetch
	maxAnswer  = 1 << 20          // bytes of what the issuer answers
)

// algorithms are those with which tokens may be signed: none is not, and
// neither are those whose key both sides know.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

func algorithmNames() []string {
	var names []string
	for _, algorithm := range algorithms {
		names = append(names, string(algorithm))
	}
	return names
}

var (
	errNoKeys     = errors.New("cannot fetch the keys of the issuer")
	errUnknownKey = errors.New("the token is not signed with a key of the issuer")
)

// A keySet has the keys of an issuer. It fetches them when they are needed and
// not current any more, and when a token names one that it does not have, but
// never more often than every minRefresh.
//
// go-oidc's RemoteKeySet fetches for each unknown key, so that anybody can make
// it fetch, and never forgets a key.
type keySet struct {
	issuer string
	url    string // "" = from the issuer's discovery document
	client *http.Client
	log    *slog.Logger
	now    func() time.Time

	mu      sync.Mutex
	keys    []jose.JSONWebKey
	issued  *oidc.Provider // the last discovery document; nil = none yet
	fetched time.Time      // when the keys came; zero = never
	tried   time.Time      // when they were last asked for
	err     error          // of the last fetch; nil = it got keys
	flight  chan struct{}  // closed when the fetch under way ends; nil = none
}

func newKeySet(issuer, url string, client *http.Client, log *slog.Logger) *keySet {
	return &keySet{issuer: issuer, url: url, client: client, log: log, now: time.Now}
}

// VerifySignature returns the payload of a token that a current key of the
// issuer has signed.
func (k *keySet) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	jws, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil || len(jws.Signatures) != 1 {
		return nil, errors.New("not a token with one signature")
	}
	if err := k.ready(ctx); err != nil {
		return nil, err
	}
	keys, _ := k.known()
	if payload, ok := verified(jws, keys); ok {
		return payload, nil
	}
	if err := wait(ctx, k.refresh()); err != nil { // the issuer may have a new key
		return nil, err
	}
	keys, _ = k.known()
	if payload, ok := verified(jws, keys); ok {
		return payload, nil
	}
	return nil, errUnknownKey
}

// ready makes sure that the keys are current, or nearly so while the issuer
// cannot be reached.
func (k *keySet) ready(ctx context.Context) error {
	switch _, age := k.known(); {
	case age < renewAge:
		return nil
	case age < currentAge:
		k.refresh()
		return nil
	}
	if err := wait(ctx, k.refresh()); err != nil {
		return err
	}
	if !k.usable() {
		return errNoKeys
	}
	return nil
}

// endpoints are those of the issuer in its discovery document, which is fetched with the
// keys: however many people sign in, a hanging issuer is asked once at a time.
func (k *keySet) endpoints(ctx context.Context) (*oidc.Provider, error) {
	if issued, _ := k.discovered(); issued != nil {
		return issued, nil
	}
	if err := wait(ctx, k.refresh()); err != nil {
		return nil, err
	}
	return k.discovered()
}

func (k *keySet) discovered() (*oidc.Provider, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.issued == nil {
		return nil, cmp.Or(k.err, errNoKeys)
	}
	return k.issued, nil
}

// usable reports whether tokens can be checked with the keys.
func (k *keySet) usable() bool {
	_, age := k.known()
	return age < outageAge
}

// probe keeps the keys current without a request, and reports why they are not.
func (k *keySet) probe(ctx context.Context) error {
	if _, age := k.known(); age >= renewAge {
		_ = wait(ctx, k.refresh()) // what the keys are then counts
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.fetched.IsZero() && k.now().Sub(k.fetched) < currentAge {
		return nil
	}
	return cmp.Or(k.err, errNoKeys)
}

func wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func verified(jws *jose.JSONWebSignature, keys []jose.JSONWebKey) ([]byte, bool) {
	id := jws.Signatures[0].Header.KeyID
	for _, key := range keys {
		if id != "" && key.KeyID != id || key.Use == "enc" {
			continue
		}
		if payload, err := jws.Verify(&key); err == nil {
			return payload, true
		}
	}
	return nil, false
}

// known are the keys, and how old they are.
func (k *keySet) known() (keys []jose.JSONWebKey, age time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fetched.IsZero() {
		return nil, math.MaxInt64
	}
	return k.keys, k.now().Sub(k.fetched)
}

// bounded is a client of an issuer that reads no more than maxAnswer of an answer:
// go-oidc reads all of a discovery document.
func bounded(c *http.Client) *http.Client {
	b := *c
	b.Transport = boundedTransport{c.Transport}
	return &b
}

type boundedTransport struct{ http.RoundTripper } // nil = http.DefaultTransport

// RoundTrip implements http.RoundTripper.
func (t boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	next := t.RoundTripper
	if next == nil {
		next = http.DefaultTransport
	}
	response, err := next.RoundTrip(r)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxAnswer)
	}
	return response, err
}

var done = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// refresh fetches the keys, if it is time to; what it returns is closed when
// that has ended.
func (k *keySet) refresh() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.flight != nil {
		return k.flight
	}
	if !k.tried.IsZero() && k.now().Sub(k.tried) < minRefresh {
		return done
	}
	k.tried = k.now()
	k.flight = make(chan struct{})
	go k.fetch(k.flight)
	return k.flight
}

func (k *keySet) fetch(flight chan struct{}) {
	asked := k.now()
	ctx, cancel := context.WithTimeout(oidc.ClientContext(context.Background(), k.client), fetchLimit)
	defer cancel()
	keys, err := k.get(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.err
	if k.err = err; err == nil {
		k.keys, k.fetched = keys, asked
	} else if before == nil { // one line for each outage
		k.log.Warn("cannot fetch the keys of the token issuer", "issuer", k.issuer, "error", err,
			"keys of before", len(k.keys))
	}
	k.flight = nil
	close(flight)
}

// get finds out where the keys are, and gets them.
func (k *keySet) get(ctx context.Context) ([]jose.JSONWebKey, error) {
	url := k.url
	if url == "" {
		provider, err := oidc.NewProvider(ctx, k.issuer)
		if err != nil {
			return nil, fmt.Errorf("discovery: %w", err)
		}
		k.mu.Lock()
		k.issued = provider
		k.mu.Unlock()
		var doc struct {
			URL string `json:"jwks_uri"`
		}
		if err := provider.Claims(&doc); err != nil || doc.URL == "" {
			return nil, errors.New("discovery: the document has no jwks_uri")
		}
		url = doc.URL
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := k.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(body, &set); err != nil || response.StatusCode != http.StatusOK || set.Keys == nil {
		return nil, fmt.Errorf("%s answers %s, and no key set", url, response.Status)
	}
	return set.Keys, nil
}
