package config

import (
	"net/url"
	"slices"
	"strings"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/credentials"
	"github.com/perdure/perdure/internal/web"
)

// outgoingAuth gives the strategies, by backend. The default is for those that
// have headers; a process that perdure starts has its environment instead.
func (r *reader) outgoingAuth(c *configuration) map[string]credentials.Strategy {
	strategies := map[string]credentials.Strategy{}
	a := c.OutgoingAuth
	if a == nil {
		return strategies
	}
	standard := r.strategy(c, keyPath{"outgoingAuth", "default"}, a.Default)
	for _, b := range c.Backends {
		if !b.isProcess() && standard != (credentials.Strategy{}) {
			strategies[b.Name] = standard
		}
	}
	for name, s := range a.Backends {
		at := keyPath{"outgoingAuth", "backends", name}
		r.known(c, at, name)
		delete(strategies, name)
		own := r.strategy(c, at, s)
		if own == (credentials.Strategy{}) {
			continue
		}
		strategies[name] = own
		if slices.ContainsFunc(c.Backends, func(b *backend) bool { return b.Name == name && b.isProcess() }) {
			r.errorf(at.to("type"), "auth", "backend %s has transport stdio, which has no headers; give the process its credentials by env or passEnv", name)
		}
	}
	return strategies
}

func (b *backend) isProcess() bool {
	return b.Transport == string(backends.Stdio) || b.Transport == "" && b.Command != ""
}

func (r *reader) strategy(c *configuration, p keyPath, s *authStrategy) (out credentials.Strategy) {
	if s == nil {
		return out
	}
	switch s.Type {
	case "header_injection":
		out.Header = r.header(p.to("headerInjection"), s.HeaderInjection)
	case "client_credentials":
		out.ClientCredentials = r.clientCredentials(p.to("clientCredentials"), s.ClientCredentials)
	case "token_exchange":
		r.needsCallers(c, p)
		out.TokenExchange = r.tokenExchange(p.to("tokenExchange"), s.TokenExchange)
	case "pass_through":
		r.needsCallers(c, p)
		r.warnf(p.to("type"), "auth", "the backend gets the caller's own token, and can act as the caller wherever that is valid; MCP forbids it unless the token was issued for the backend, too")
		out.PassThrough = true
	}
	return out
}

// needsCallers checks that callers have a token.
func (r *reader) needsCallers(c *configuration, p keyPath) {
	if c.IncomingAuth == nil || c.IncomingAuth.Type == "" || c.IncomingAuth.Type == "anonymous" {
		r.errorf(p.to("type"), "auth", "needs the token of the caller, and incomingAuth lets everybody in without one")
	}
}

func (r *reader) header(p keyPath, h *headerInjection) *credentials.Header {
	if h == nil {
		r.errorf(p, "auth", "is missing: the header to send")
		return nil
	}
	if h.HeaderName != "" {
		r.headerName(p.to("headerName"), h.HeaderName)
	}
	value := r.source(p, "headerValue", h.HeaderValue, h.HeaderValueEnv, h.HeaderValueFile)
	if value == (credentials.Source{}) {
		r.errorf(p, "auth", "headerValue, headerValueEnv or headerValueFile is missing")
	}
	return &credentials.Header{Name: h.HeaderName, Value: value}
}

// source is where a secret is; at most one of three keys says so: KEY, KEYEnv
// and KEYFile.
func (r *reader) source(p keyPath, key, inline, env, file string) credentials.Source {
	s := credentials.Source{Inline: backends.Secret(inline), Env: env, File: file}
	set := key
	for _, other := range []struct{ key, value string }{{key + "Env", env}, {key + "File", file}} {
		if other.value == "" {
			continue
		}
		if inline != "" || set != key {
			r.errorf(p.to(other.key), "auth", "cannot be given together with %s; keep one of them", set)
			return s
		}
		set = other.key
	}
	if value, ok := r.env(env); env != "" && (!ok || value == "") {
		r.errorf(p.to(set), "environment", notSet, env)
	} else if err := s.Check(); err != nil && env == "" {
		r.errorf(p.to(set), "auth", "%s", err)
	}
	return s
}

func (r *reader) clientCredentials(p keyPath, o *oauthClient) *credentials.ClientCredentials {
	if o == nil {
		r.errorf(p, "auth", "is missing: the token endpoint and the client")
		return nil
	}
	client := r.client(p, *o)
	if client.ID == "" {
		r.errorf(p.to("clientId"), "auth", "is missing")
	}
	if client.Secret == (credentials.Source{}) {
		r.errorf(p, "auth", "clientSecretEnv, clientSecretFile or clientSecret is missing")
	}
	return &credentials.ClientCredentials{Client: client}
}

func (r *reader) tokenExchange(p keyPath, x *tokenExchange) *credentials.TokenExchange {
	if x == nil {
		r.errorf(p, "auth", "is missing: the token endpoint")
		return nil
	}
	if x.SubjectProviderName != "" {
		r.errorf(p.to("subjectProviderName"), "auth", "names a provider of ToolHive's own authorization server, which is not here; what is exchanged is the caller's token")
	}
	out := &credentials.TokenExchange{Client: r.client(p, x.Client)}
	if out.ID == "" && out.Secret != (credentials.Source{}) {
		r.errorf(p.to("clientId"), "auth", "is missing; a secret belongs to a client")
	}
	out.SubjectTokenType = r.tokenType(p.to("subjectTokenType"), x.SubjectTokenType)
	out.RequestedTokenType = r.tokenType(p.to("requestedTokenType"), x.RequestedTokenType)
	return out
}

// tokenTypes begins the URIs of RFC 8693 section 3; configurations may leave
// it out.
const tokenTypes = "urn:ietf:params:oauth:token-type:"

func (r *reader) tokenType(p keyPath, name string) string {
	switch name {
	case "access_token", "refresh_token", "id_token", "jwt", "saml1", "saml2":
		return tokenTypes + name
	}
	if u, err := url.Parse(name); name != "" && (err != nil || u.Scheme == "") {
		r.errorf(p, "auth", "%q is not a type of token; use access_token, id_token, jwt, or a URI such as %saccess_token", name, tokenTypes)
	}
	return name
}

func (r *reader) client(p keyPath, o oauthClient) credentials.Client {
	u, err := url.Parse(o.TokenURL)
	switch {
	case o.TokenURL == "":
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		r.errorf(p.to("tokenUrl"), "auth", "is not an http or https URL")
	case u.User != nil:
		r.errorf(p.to("tokenUrl"), "auth", "holds a name or password; use clientId and clientSecretEnv")
	case u.Scheme == "http" && !web.OnLoopback(u.Host):
		r.warnf(p.to("tokenUrl"), "auth", "secrets and tokens are sent in clear; use https")
	}
	return credentials.Client{
		TokenURL: o.TokenURL, ID: o.ClientID, Audience: o.Audience, Scopes: o.Scopes,
		Secret: r.source(p, "clientSecret", o.ClientSecret, o.ClientSecretEnv, o.ClientSecretFile),
	}
}

// isIdempotencyKey reports whether net/http repeats requests with the header.
func isIdempotencyKey(name string) bool {
	return strings.HasSuffix(strings.ToLower(name), "idempotency-key")
}
