package config

import (
	"net/url"
	"strings"
	"time"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/web"
)

func (r *reader) auth(c *configuration) Auth {
	out := Auth{Ruled: c.IncomingAuth != nil || c.Authorization != nil, Approvals: r.approvals(c)}
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
func (r *reader) notEmpty(key string, empty bool) {
	if _, given := lookup(r.root, keyPath{key}); given && empty {
		r.errorf(keyPath{key}, "auth", "is empty, and would let in everybody; say who may call, or leave the key out")
	}
}

func (r *reader) incomingAuth(a *incomingAuth, out *Auth) {
	p := keyPath{"incomingAuth"}
	switch a.Type {
	case "token":
		if a.TokenFile == "" {
			r.errorf(p.to("tokenFile"), "auth", "is missing: the file that lists the tokens")
		}
		out.TokenFile = a.TokenFile
	case "oidc":
		out.OIDC = r.oidc(p.to("oidc"), a.OIDC)
	}
	if a.OIDC != nil && a.Type != "oidc" {
		r.errorf(p.to("oidc"), "auth", "belongs to type oidc, not to %s", a.Type)
	}
	if a.TokenFile != "" && a.Type != "token" {
		r.errorf(p.to("tokenFile"), "auth", "belongs to type token, not to %s", a.Type)
	}
	if a.Authz != nil && a.Authz.Type != "" && a.Authz.Type != "none" && !a.Authz.allowsAll() {
		r.errorf(p.to("authz", "type"), "auth", "%q is not supported, so nothing is served that the file wants protected; write the policies as rules of the key authorization", a.Authz.Type)
	}
}

func (r *reader) oidc(p keyPath, o *incomingOIDC) *OIDC {
	if o == nil {
		r.errorf(p, "auth", "is missing: the issuer of the tokens")
		return nil
	}
	if o.Issuer != "" {
		r.webAddress(p.to("issuer"), o.Issuer, o.InsecureAllowHTTP)
	}
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
	return &OIDC{
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
func (r *reader) webAddress(p keyPath, address string, plain bool) {
	u, err := url.Parse(address)
	switch {
	case err != nil || !isWebAddress(address):
		r.errorf(p, "auth", "%q is not an https URL", address)
	case u.Scheme == "http" && !plain && !web.OnLoopback(u.Host):
		r.errorf(p, "auth", "%q is not an https URL, and anybody on the way could sign tokens; insecureAllowHttp: true takes it nevertheless", address)
	}
}

func (r *reader) authorization(a *authorization) auth.Policy {
	p := keyPath{"authorization"}
	var policy auth.Policy
	if _, given := lookup(r.root, p.to("rules")); given {
		policy.Rules = []auth.Rule{} // with no rule that allows something, all is denied
	}
	for i, rule := range a.Rules {
		at := p.to("rules", i)
		r.grant(at, &rule.Grant, len(rule.Composites) > 0)
		r.named(at.to("tools"), rule.Grant.Tools)
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

func (r *reader) grants(p keyPath, list []*grant) []auth.Grant {
	var out []auth.Grant
	for i, g := range list {
		r.grant(p.to(i), g, false)
		r.named(p.to(i, "tools"), g.Tools)
		out = append(out, g.policy())
	}
	return out
}

// grant checks that a grant is for somebody, and what for.
func (r *reader) grant(p keyPath, g *grant, named bool) {
	r.patterns(p.to("tools"), g.Tools)
	if len(g.Groups)+len(g.Subjects) == 0 && !named {
		r.errorf(p, "auth", `has neither groups nor subjects; the group "*" means everybody`)
	}
	for i, subject := range g.Subjects {
		if strings.Contains(subject, "*") {
			r.warnf(p.to("subjects", i), "auth", `%q is no pattern and means a subject of that name alone; the group "*" means everybody`, subject)
		}
	}
}

func (r *reader) patterns(p keyPath, patterns []string) {
	for i, pattern := range patterns {
		if err := auth.CheckPattern(pattern); err != nil {
			r.errorf(p.to(i), "auth", "%v", err)
		}
	}
}

// named notes which tools a grant names, as clients see them.
func (r *reader) named(p keyPath, patterns []string) {
	for i, pattern := range patterns {
		r.names(p.to(i), "", pattern)
	}
}

func (g *grant) policy() auth.Grant {
	return auth.Grant{Tools: g.Tools, Groups: g.Groups, Subjects: g.Subjects}
}
