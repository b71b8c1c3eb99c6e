package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

const (
	minRefresh = 10 * time.Second // between two fetches of keys, whoever asks
	maxKeyAge  = 15 * time.Minute // after which keys are fetched again
	fetchLimit = 10 * time.Second // of one fetch
	maxKeys    = 1 << 20          // bytes of a key set
)

// algorithms are those with which tokens may be signed: none is not, and
// neither are those whose key both sides know.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

var (
	errNoKeys     = errors.New("the keys of the issuer could not be fetched yet")
	errUnknownKey = errors.New("the token is not signed with a key of the issuer")
)

// A keySet has the keys of an issuer. It fetches them when they are first
// needed, when they are old, and when a token names one that it does not have,
// but never more often than every minRefresh. While the issuer cannot be
// reached, the keys of before stay good.
//
// go-oidc's RemoteKeySet fetches for each unknown key, so that anybody can make
// it fetch, and never forgets a key.
type keySet struct {
	issuer  string
	url     string // "" = what the issuer's discovery document says
	client  *http.Client
	log     *slog.Logger
	every   time.Duration // minRefresh
	maximum time.Duration // maxKeyAge

	mu      sync.Mutex
	keys    []jose.JSONWebKey
	fetched time.Time     // when the keys came
	tried   time.Time     // when they were last asked for
	flight  chan struct{} // closed when the fetch under way ends; nil = none
}

// VerifySignature returns the payload of a token that a key of the issuer has
// signed.
func (k *keySet) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	jws, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil || len(jws.Signatures) != 1 {
		return nil, errors.New("not a token with one signature")
	}
	keys, old := k.known()
	if payload, ok := verified(jws, keys); ok {
		if old {
			k.refresh()
		}
		return payload, nil
	}
	select {
	case <-k.refresh():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	keys, _ = k.known()
	if payload, ok := verified(jws, keys); ok {
		return payload, nil
	}
	return nil, errUnknownKey
}

// ready makes sure that there are keys.
func (k *keySet) ready(ctx context.Context) error {
	if keys, _ := k.known(); len(keys) > 0 {
		return nil
	}
	select {
	case <-k.refresh():
	case <-ctx.Done():
		return ctx.Err()
	}
	if keys, _ := k.known(); len(keys) == 0 {
		return errNoKeys
	}
	return nil
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

func (k *keySet) known() (keys []jose.JSONWebKey, old bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys, time.Since(k.fetched) > k.maximum
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
	if time.Since(k.tried) < k.every {
		return done
	}
	k.tried = time.Now()
	k.flight = make(chan struct{})
	go k.fetch(k.flight)
	return k.flight
}

func (k *keySet) fetch(flight chan struct{}) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(context.Background(), k.client), fetchLimit)
	defer cancel()
	keys, err := k.get(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		k.keys, k.fetched = keys, time.Now()
	} else {
		k.log.Warn("the keys of the issuer of tokens cannot be fetched", "issuer", k.issuer, "error", err,
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
	body, err := io.ReadAll(io.LimitReader(response.Body, maxKeys))
	if err != nil {
		return nil, err
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(body, &set); err != nil || response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s, and no key set", url, response.Status)
	}
	if len(set.Keys) == 0 {
		return nil, fmt.Errorf("%s has no keys", url)
	}
	return set.Keys, nil
}
