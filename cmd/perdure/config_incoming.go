package main

import (
	"net/url"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/credentials"
)

type incomingAuth struct {
	Type  string        `yaml:"type"`
	OIDC  *incomingOIDC `yaml:"oidc"`
	Authz *peerAuthz    `yaml:"authz"`

	// Ours.
	TokenFile string `yaml:"tokenFile"`
}

type incomingOIDC struct {
	Issuer            string   `yaml:"issuer"`
	ClientID          string   `yaml:"clientId"`
	ClientSecretEnv   string   `yaml:"clientSecretEnv"`
	Audience          string   `yaml:"audience"`
	Resource          string   `yaml:"resource"`
	Scopes            []string `yaml:"scopes"`
	JWKSURL           string   `yaml:"jwksUrl"`
	IntrospectionURL  string   `yaml:"introspectionUrl"`
	CABundlePath      string   `yaml:"caBundlePath"`
	InsecureAllowHTTP bool     `yaml:"insecureAllowHttp"`

	// Private addresses are not refused here, so these change nothing.
	ProtectedResourceAllowPrivateIP bool `yaml:"protectedResourceAllowPrivateIp"`
	JwksAllowPrivateIP              bool `yaml:"jwksAllowPrivateIp"`

	// Ours.
	ClientSecretFile string               `yaml:"clientSecretFile"`
	GroupsClaim      string               `yaml:"groupsClaim"`
	ClockSkew        definitions.Duration `yaml:"clockSkew"`
}

// A peerAuthz is ToolHive's authorization by Cedar policies.
type peerAuthz struct {
	Type                    string   `yaml:"type"`
	Policies                []string `yaml:"policies"`
	EntitiesJSON            string   `yaml:"entitiesJson"`
	PrimaryUpstreamProvider string   `yaml:"primaryUpstreamProvider"`
	GroupClaimName          string   `yaml:"groupClaimName"`
	RoleClaimName           string   `yaml:"roleClaimName"`
	GroupEntityType         string   `yaml:"groupEntityType"`
}

// An authorization is ours: who may do what.
type authorization struct {
	Rules      []*accessRule `yaml:"rules"`
	Operators  []*grant      `yaml:"operators"`
	Approvers  []*grant      `yaml:"approvers"`
	Publishers []*publisher  `yaml:"publishers"`
	Metrics    []string      `yaml:"metrics"`
}

type accessRule struct {
	Grant      grant    `yaml:",inline"`
	Composites []string `yaml:"composites"`
}

type publisher struct {
	Grant grant    `yaml:",inline"`
	Uses  []string `yaml:"uses"`
}

type grant struct {
	Tools    []string `yaml:"tools"`
	Groups   []string `yaml:"groups"`
	Subjects []string `yaml:"subjects"`
}

// An authSettings is who may call, and how they show who they are.
type authSettings struct {
	TokenFile string     // "" = no tokens of our own
	OIDC      *loginOIDC // nil = no identity provider
	Approvals approvalSettings
	Policy    auth.Policy
	Ruled     bool // something is said of who may what
}

// A loginOIDC is an identity provider, for tokens and for signing in.
type loginOIDC struct {
	auth.OIDCOptions                    // Resource and Audience may be empty: then they are for the public URL to say
	ClientID         string             // with which people sign in; "" = they cannot
	ClientSecret     credentials.Source // of that client; empty = it has none
}

func (r *configReader) auth(c *configFile) authSettings {
	out := authSettings{Ruled: c.IncomingAuth != nil || c.Authorization != nil, Approvals: r.approvals(c)}
	r.notEmpty("incomingAuth", c.IncomingAuth == nil)
	r.notEmpty("authorization", c.Authorization == nil)
	if c.IncomingAuth != nil {
		r.incomingAuth(c.IncomingAuth, &out)
	}
	if c.Authorization != nil {
		out.Policy = r.authorization(c.Authorization)
		if (c.IncomingAuth == nil || c.IncomingAuth.Type == "anonymous") && out.Approvals.TokenFile == "" {
			r.warnf(keyPath{"authorization"}, "auth", "everybody is %s and in no group, since incomingAuth lets them in so; use type oidc or token", auth.Anonymous)
		}
	}
	if out.OIDC != nil {
		out.Policy.Issuer = out.OIDC.Issuer
	}
	return out
}

// notEmpty checks that a key has something below it if it is there: with all of
// that commented out, a server would be open that somebody wanted closed.
func (r *configReader) notEmpty(key string, empty bool) {
	if _, given := lookup(r.root, keyPath{key}); given && empty {
		r.errorf(keyPath{key}, "auth", "is empty, and would let in everybody; say who may call, or leave the key out")
	}
}

func (r *configReader) incomingAuth(a *incomingAuth, out *authSettings) {
	p := keyPath{"incomingAuth"}
	switch a.Type {
	case "anonymous":
	case "token":
		if a.TokenFile == "" {
			r.errorf(p.to("tokenFile"), "auth", "is missing: the file that lists the tokens")
		}
		out.TokenFile = a.TokenFile
	case "oidc":
		out.OIDC = r.oidc(p.to("oidc"), a.OIDC)
	case "local":
		r.errorf(p.to("type"), "auth", "%q is not supported; use anonymous, token or oidc", a.Type)
	default:
		r.errorf(p.to("type"), "auth", "%q is not a type of authentication; use anonymous, token or oidc", a.Type)
	}
	if a.OIDC != nil && a.Type != "oidc" {
		r.errorf(p.to("oidc"), "auth", "belongs to type oidc, not to %s", a.Type)
	}
	if a.TokenFile != "" && a.Type != "token" {
		r.errorf(p.to("tokenFile"), "auth", "belongs to type token, not to %s", a.Type)
	}
	if a.Authz != nil && a.Authz.Type != "" && a.Authz.Type != "none" {
		r.errorf(p.to("authz", "type"), "auth", "%q is not supported, so nothing is served that the file wants protected; write the policies as rules of the key authorization", a.Authz.Type)
	}
}

func (r *configReader) oidc(p keyPath, o *incomingOIDC) *loginOIDC {
	if o == nil {
		r.errorf(p, "auth", "is missing: the issuer of the tokens")
		return nil
	}
	r.webAddress(p.to("issuer"), o.Issuer, o.InsecureAllowHTTP)
	if strings.ContainsAny(o.Issuer, "?#") {
		r.errorf(p.to("issuer"), "auth", "%q has a query or a fragment, which an issuer cannot have", o.Issuer)
	}
	if o.JWKSURL != "" {
		r.webAddress(p.to("jwksUrl"), o.JWKSURL, o.InsecureAllowHTTP)
	}
	resource := o.Resource
	if resource == "" && isWebAddress(o.Audience) {
		resource = o.Audience
	}
	if resource != "" && !isWebAddress(resource) {
		r.errorf(p.to("resource"), "auth", "%q is not the URL of the MCP endpoint, as clients know it", resource)
	}
	if o.IntrospectionURL != "" {
		r.warnf(p.to("introspectionUrl"), "no-effect", "has no effect here: only tokens that are JWTs are taken")
	}
	if o.CABundlePath != "" {
		r.warnf(p.to("caBundlePath"), "no-effect", "has no effect here; set SSL_CERT_FILE in the environment")
	}
	if o.ClockSkew < 0 {
		r.errorf(p.to("clockSkew"), "auth", "is negative")
	}
	return &loginOIDC{
		OIDCOptions: auth.OIDCOptions{
			Issuer: o.Issuer, JWKSURL: o.JWKSURL, Audience: o.Audience, Resource: resource, Scopes: o.Scopes,
			GroupsClaim: o.GroupsClaim, Skew: time.Duration(o.ClockSkew),
		},
		ClientID:     o.ClientID,
		ClientSecret: r.source(p, "clientSecret", "", o.ClientSecretEnv, o.ClientSecretFile),
	}
}

func isWebAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// webAddress checks an address from which something comes that is relied on.
func (r *configReader) webAddress(p keyPath, address string, plain bool) {
	u, err := url.Parse(address)
	switch {
	case address == "":
		r.errorf(p, "auth", "is missing")
	case err != nil || !isWebAddress(address):
		r.errorf(p, "auth", "%q is not an https URL", address)
	case u.Scheme == "http" && !plain && !isLocal(u.Hostname()):
		r.errorf(p, "auth", "%q is not an https URL, and anybody on the way could sign tokens; insecureAllowHttp: true takes it nevertheless", address)
	}
}

func (r *configReader) authorization(a *authorization) auth.Policy {
	p := keyPath{"authorization"}
	var policy auth.Policy
	if _, given := lookup(r.root, p.to("rules")); given {
		policy.Rules = []auth.Rule{} // with no rule that allows something, all is denied
	}
	for i, rule := range a.Rules {
		at := p.to("rules", i)
		r.grant(at, &rule.Grant, len(rule.Composites) > 0)
		r.patterns(at.to("composites"), rule.Composites)
		policy.Rules = append(policy.Rules, auth.Rule{Grant: rule.Grant.policy(), Composites: rule.Composites})
	}
	policy.Operators = r.grants(p.to("operators"), a.Operators)
	policy.Approvers = r.grants(p.to("approvers"), a.Approvers)
	policy.Metrics = a.Metrics
	for i, g := range a.Publishers {
		at := p.to("publishers", i)
		r.grant(at, &g.Grant, false)
		r.patterns(at.to("uses"), g.Uses)
		policy.Publishers = append(policy.Publishers, auth.Publisher{Grant: g.Grant.policy(), Uses: g.Uses})
	}
	return policy
}

func (r *configReader) grants(p keyPath, list []*grant) []auth.Grant {
	var out []auth.Grant
	for i, g := range list {
		r.grant(p.to(i), g, false)
		out = append(out, g.policy())
	}
	return out
}

// grant checks that a grant is for something and for somebody.
func (r *configReader) grant(p keyPath, g *grant, named bool) {
	if len(g.Tools) == 0 {
		r.errorf(p.to("tools"), "auth", `is missing: names of tools, or patterns such as repo_*; "*" is all of them`)
	}
	r.patterns(p.to("tools"), g.Tools)
	if len(g.Groups)+len(g.Subjects) == 0 && !named {
		r.errorf(p, "auth", `names nobody: give it groups or subjects; the group "*" is everybody`)
	}
}

func (r *configReader) patterns(p keyPath, patterns []string) {
	for i, pattern := range patterns {
		if err := auth.CheckPattern(pattern); err != nil {
			r.errorf(p.to(i), "auth", "%v", err)
		}
	}
}

func (g *grant) policy() auth.Grant {
	return auth.Grant{Tools: g.Tools, Groups: g.Groups, Subjects: g.Subjects}
}
