package auth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// WellKnown is where the metadata of a protected resource is, by RFC 9728; the
// path of the resource follows.
const WellKnown = "/.well-known/oauth-protected-resource"

// OIDCOptions set whose tokens are taken, and which of them. Issuer, Audience and
// Resource are required.
type OIDCOptions struct {
	Issuer   string // URL, as tokens have it in iss
	JWKSURL  string // of the issuer's keys; "" = from its discovery document
	Audience string // that tokens must be for (aud)
	// Resource is the URL of the MCP endpoint as clients know it. Clients receive it
	// and request tokens for it (RFC 8707).
	Resource string
	Scopes   []string // that every token must have
	// GroupsClaim is where tokens have the groups of their subject: a claim, or
	// a path to one such as realm_access.roles. "" = groups.
	GroupsClaim string
	// LoginClient is the client ID with which people sign in to pages at the same
	// issuer. "" = people cannot sign in with it.
	LoginClient string
	Skew        time.Duration // that clocks may differ by; 0 = 30 s
	Client      *http.Client  // nil = http.DefaultClient
	Logger      *slog.Logger  // nil = none
}

// OIDC authenticates bearer tokens of an OpenID provider: the resource server
// of OAuth 2.1. Nothing is asked of the provider before the first token or Probe.
type OIDC struct {
	opts     OIDCOptions
	metadata string // URL of the metadata of the resource
	keys     *keySet
	verifier *oidc.IDTokenVerifier
}

// NewOIDC checks the options and no more.
func NewOIDC(o OIDCOptions) (*OIDC, error) {
	resource, err := url.Parse(o.Resource)
	if err != nil || resource.Host == "" || resource.Fragment != "" {
		return nil, fmt.Errorf("%q is not the URL of a resource", o.Resource)
	}
	if issuer, err := url.Parse(o.Issuer); err != nil || issuer.Host == "" || strings.ContainsAny(o.Issuer, "#?") {
		return nil, fmt.Errorf("%q is not the URL of an issuer", o.Issuer)
	}
	if o.Audience == "" {
		return nil, errors.New("an audience is needed")
	}
	o.GroupsClaim, o.Skew = cmp.Or(o.GroupsClaim, "groups"), cmp.Or(o.Skew, 30*time.Second)
	o.Client = bounded(cmp.Or(o.Client, http.DefaultClient))
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	a := &OIDC{opts: o}
	a.metadata = resource.Scheme + "://" + resource.Host + WellKnown + strings.TrimSuffix(resource.EscapedPath(), "/")
	a.keys = newKeySet(o.Issuer, o.JWKSURL, o.Client, o.Logger)
	a.verifier = oidc.NewVerifier(o.Issuer, a.keys, &oidc.Config{
		SkipClientIDCheck:    true, // audiences are checked here
		SupportedSigningAlgs: algorithmNames(),
		Now:                  func() time.Time { return time.Now().Add(-o.Skew) },
	})
	return a, nil
}

// Probe fetches the issuer's keys where those known are older than 30 s, and reports
// why they are older than a minute after that; nil = they are not.
func (a *OIDC) Probe(ctx context.Context) error { return a.keys.probe(ctx) }

// Usable reports whether tokens can be checked: during an outage of the issuer, for 15
// minutes with the keys of before.
func (a *OIDC) Usable() bool { return a.keys.usable() }

// Authenticate takes a token that is signed by the issuer, for our audience,
// valid now, and has the scopes. One without the scopes is refused with 403,
// any other with 401; while the issuer's keys are not known, all with 503.
func (a *OIDC) Authenticate(r *http.Request) (Identity, error) {
	raw, err := bearer(r)
	if err != nil {
		return Identity{}, &Refusal{Err: err, Challenge: a.challenge("", "")}
	}
	if strings.Count(raw, ".") != 2 { // known without the issuer
		return Identity{}, a.refuse(errNoJWT)
	}
	if err := a.keys.ready(r.Context()); err != nil {
		return Identity{}, &Refusal{Status: http.StatusServiceUnavailable, Err: err,
			Message: "tokens cannot be checked at the moment, because their issuer cannot be reached"}
	}
	token, c, err := a.verify(r.Context(), raw)
	if err != nil {
		return Identity{}, a.refuse(err)
	}
	who := Identity{
		Subject: token.Subject, Issuer: a.opts.Issuer, Groups: textsAt(token, a.opts.GroupsClaim),
		Scopes: c.scopes(), Client: cmp.Or(c.ClientID, c.Party), Expires: token.Expiry, Token: raw,
	}
	if scope, lacks := lacking(a.opts.Scopes, who.Scopes); lacks {
		return Identity{}, &Refusal{Status: http.StatusForbidden, Message: "the token lacks the scope " + scope,
			Challenge: a.challenge(insufficientScope, "the token lacks the scope "+scope)}
	}
	return who, nil
}

// lacking is the first scope that is required and was not granted.
func lacking(required, granted []string) (scope string, lacks bool) {
	i := slices.IndexFunc(required, func(scope string) bool { return !slices.Contains(granted, scope) })
	if i < 0 {
		return "", false
	}
	return required[i], true
}

// verify checks everything of a token but its scopes.
func (a *OIDC) verify(ctx context.Context, raw string) (*oidc.IDToken, *claims, error) {
	token, err := a.verifier.Verify(ctx, raw)
	if err != nil {
		return nil, nil, err
	}
	var c claims
	if err := token.Claims(&c); err != nil {
		return nil, nil, err
	}
	if !a.isAccessToken(raw, token, &c) {
		return nil, nil, errIDToken
	}
	return token, &c, a.check(token, &c)
}

// Claims are those that go-oidc does not read.
type claims struct {
	Scope     texts   `json:"scope"`     // RFC 9068
	Scopes    texts   `json:"scp"`       // some providers' word for it
	ClientID  string  `json:"client_id"` // RFC 9068
	Party     string  `json:"azp"`
	NotBefore float64 `json:"nbf"` // seconds; 0 = ever
	Expiry    float64 `json:"exp"` // go-oidc also takes one in quotes, which is no number (RFC 7519, section 2)

	// Those of ID tokens (OpenID Connect Core 1.0, sections 2 and 3).
	Type       string `json:"typ"` // Keycloak: Bearer, ID, Refresh, …
	Nonce      any    `json:"nonce"`
	AccessHash any    `json:"at_hash"`
	CodeHash   any    `json:"c_hash"`
	StateHash  any    `json:"s_hash"`
}

func (c *claims) scopes() []string { return slices.Concat(c.Scope, c.Scopes) }

// Texts are a list of strings, or the words of one.
type texts []string

// UnmarshalJSON omits what is neither.
func (t *texts) UnmarshalJSON(raw []byte) error {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	*t = nil
	switch v := v.(type) {
	case string:
		*t = strings.Fields(v)
	case []any:
		for _, item := range v {
			if s, ok := item.(string); ok {
				*t = append(*t, s)
			}
		}
	}
	return nil
}

var (
	errAudience  = errors.New("the token is for another audience")
	errNoSubject = errors.New("the token has no subject")
	errTooEarly  = errors.New("the token is not valid yet")
	errIDToken   = errors.New("the token is not an access token; an ID token is not accepted here")
	errNoJWT     = errors.New("the token is not a JWT")
)

// isAccessToken distinguishes access tokens from ID tokens and others of the same
// issuer: by their type (RFC 9068, section 2.1), and where that is only JWT by what ID
// tokens alone have.
func (a *OIDC) isAccessToken(raw string, token *oidc.IDToken, c *claims) bool {
	jws, err := jose.ParseSignedCompact(raw, algorithms)
	if err != nil {
		return false // it was parsed before
	}
	typ, _ := jws.Signatures[0].Protected.ExtraHeaders[jose.HeaderType].(string)
	switch strings.TrimPrefix(strings.ToLower(typ), "application/") {
	case "at+jwt":
		return true
	case "", "jwt":
	default:
		return false
	}
	if c.Type != "" {
		return strings.EqualFold(c.Type, "Bearer")
	}
	if c.Nonce != nil || c.AccessHash != nil || c.CodeHash != nil || c.StateHash != nil {
		return false
	}
	// The audience of an ID token is the client at which one signs in.
	forLogin := a.opts.LoginClient != "" && slices.Contains(token.Audience, a.opts.LoginClient)
	return !forLogin || len(c.scopes()) > 0 || c.ClientID != ""
}

func (a *OIDC) check(token *oidc.IDToken, c *claims) error {
	switch {
	case !slices.ContainsFunc(token.Audience, a.isOurs):
		return errAudience
	case token.Subject == "":
		return errNoSubject
	case float64(time.Now().Add(a.opts.Skew).Unix()) < c.NotBefore:
		return errTooEarly
	}
	return nil
}

// isOurs compares audiences; providers differ over a slash at the end of a URL.
func (a *OIDC) isOurs(audience string) bool {
	return audience != "" && strings.TrimSuffix(audience, "/") == strings.TrimSuffix(a.opts.Audience, "/")
}

// refuse reports no more about a token than helps its holder.
func (a *OIDC) refuse(err error) *Refusal {
	var expired *oidc.TokenExpiredError
	message := "the token is not valid"
	switch {
	case errors.As(err, &expired):
		message = "the token has expired"
	case errors.Is(err, errAudience), errors.Is(err, errNoSubject), errors.Is(err, errTooEarly), errors.Is(err, errIDToken):
		message = err.Error()
	}
	return &Refusal{Err: err, Message: message, Challenge: a.challenge(invalidToken, message)}
}

// challenge shows a client where to get a token, and for what (RFC 9728, section 5.1).
func (a *OIDC) challenge(code, description string) string {
	return challenge("error", code, "error_description", description,
		"resource_metadata", a.metadata, "scope", strings.Join(a.opts.Scopes, " "))
}

// textsAt is the list at a path of claims, or the single text; nil if missing.
func textsAt(token *oidc.IDToken, path string) []string {
	var all map[string]json.RawMessage
	if token.Claims(&all) != nil {
		return nil
	}
	raw, ok := all[path] // a claim may have dots in its name, as a URL has
	for names := strings.Split(path, "."); !ok && len(names) > 0; names = names[1:] {
		if raw = all[names[0]]; len(names) == 1 {
			break
		}
		all = nil
		if json.Unmarshal(raw, &all) != nil {
			return nil
		}
	}
	var one string
	if json.Unmarshal(raw, &one) == nil && one != "" {
		return []string{one} // the name of a group may have spaces
	}
	var list texts
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}

// ServeHTTP answers with the metadata of the resource (RFC 9728), at the
// well-known address and at those with the path of the resource or /mcp behind
// it. Pages of any origin may read it.
func (a *OIDC) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", "GET")
	h.Set("Access-Control-Allow-Headers", "*")
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	resource, _ := url.Parse(a.opts.Resource) // was parsed before
	ours := []string{WellKnown, WellKnown + "/mcp", WellKnown + strings.TrimSuffix(resource.Path, "/")}
	if (r.Method != http.MethodGet && r.Method != http.MethodHead) || !slices.Contains(ours, r.URL.Path) {
		http.NotFound(w, r)
		return
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "public, max-age=300")
	_ = json.NewEncoder(w).Encode(resourceMetadata{ // the client disconnected
		Resource: a.opts.Resource, Servers: []string{a.opts.Issuer}, Scopes: a.opts.Scopes, Methods: []string{"header"},
	})
}

type resourceMetadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported,omitempty"`
	Methods  []string `json:"bearer_methods_supported"`
}
