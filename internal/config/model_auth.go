package config

import (
	"strings"

	"github.com/perdure/perdure/definitions"
)

// An incomingAuth is how callers show who they are.
type incomingAuth struct {
	Type  string        `yaml:"type" enum:"anonymous,token,oidc" unsupported:"local" required:"" help:"How callers show who they are."`
	OIDC  *incomingOIDC `yaml:"oidc" help:"The issuer of the tokens; for type oidc."`
	Authz *peerAuthz    `yaml:"authz" help:"Cedar policies of ToolHive, which are refused unless they allow everything; write rules under authorization."`

	// Ours.
	TokenFile string `yaml:"tokenFile" help:"File that lists the tokens; for type token."`
}

// An incomingOIDC is an identity provider.
type incomingOIDC struct {
	Issuer            string   `yaml:"issuer" required:"the URL of the issuer of the tokens" help:"URL of the issuer."`
	ClientID          string   `yaml:"clientId" help:"Client with which people sign in by a browser."`
	ClientSecretEnv   string   `yaml:"clientSecretEnv" help:"Variable that has the secret of the client."`
	Audience          string   `yaml:"audience" help:"Audience that tokens must be for. Default: resource."`
	Resource          string   `yaml:"resource" help:"URL of the MCP endpoint, as clients know it. Default: audience, if that is a URL, else --public-url with /mcp."`
	Scopes            []string `yaml:"scopes" help:"Scopes that every token must have."`
	JWKSURL           string   `yaml:"jwksUrl" help:"Where the keys of the issuer are. Default: where its metadata says."`
	IntrospectionURL  string   `yaml:"introspectionUrl" ignored:"only tokens that are JWTs are taken" help:"Where opaque tokens are looked up."`
	CABundlePath      string   `yaml:"caBundlePath" ignored:"set SSL_CERT_FILE in the environment" help:"Certificates to trust."`
	InsecureAllowHTTP bool     `yaml:"insecureAllowHttp" default:"false" help:"Take an issuer without TLS that is not on this machine."`

	ProtectedResourceAllowPrivateIP bool `yaml:"protectedResourceAllowPrivateIp" help:"Changes nothing: private addresses are allowed."`
	JwksAllowPrivateIP              bool `yaml:"jwksAllowPrivateIp" help:"Changes nothing: private addresses are allowed."`

	// Ours.
	ClientSecretFile string               `yaml:"clientSecretFile" help:"File that has the secret of the client."`
	GroupsClaim      string               `yaml:"groupsClaim" default:"groups" help:"Claim with the groups of a caller, or a path such as realm_access.roles."`
	ClockSkew        definitions.Duration `yaml:"clockSkew" min:"0s" default:"30s" help:"How far clocks may differ."`
}

// A peerAuthz is ToolHive's authorization by Cedar policies.
type peerAuthz struct {
	Type                    string   `yaml:"type" help:"none, or a type of policies, which is refused."`
	Policies                []string `yaml:"policies" help:"Cedar policies."`
	EntitiesJSON            string   `yaml:"entitiesJson" help:"Cedar entities."`
	PrimaryUpstreamProvider string   `yaml:"primaryUpstreamProvider" help:"Provider of ToolHive."`
	GroupClaimName          string   `yaml:"groupClaimName" help:"Claim with groups."`
	RoleClaimName           string   `yaml:"roleClaimName" help:"Claim with roles."`
	GroupEntityType         string   `yaml:"groupEntityType" help:"Cedar type of groups."`
}

// allowsAll reports whether the policies are the one that allows everything, so
// that they protect nothing.
func (p *peerAuthz) allowsAll() bool {
	for _, policy := range p.Policies {
		if strings.Join(strings.Fields(policy), "") != "permit(principal,action,resource);" {
			return false
		}
	}
	return len(p.Policies) > 0
}

// An authorization says who may do what.
type authorization struct {
	Rules      []*accessRule `yaml:"rules" help:"Who may call which tools. With rules, what none of them allows is denied."`
	Operators  []*grant      `yaml:"operators" help:"Who may see, cancel and settle runs of which tools."`
	Approvers  []*grant      `yaml:"approvers" help:"Who may see and answer runs of which tools."`
	Publishers []*publisher  `yaml:"publishers" help:"Who may publish which composite tools."`
	Metrics    []string      `yaml:"metrics" help:"Who may read /metrics: subjects, and groups as group:NAME."`
}

// An accessRule allows calls.
type accessRule struct {
	Grant      grant    `yaml:",inline"`
	Composites []string `yaml:"composites" help:"Composite tools that call by their own right (runAs: composite), by name or pattern."`
}

// A publisher may publish.
type publisher struct {
	Grant grant    `yaml:",inline"`
	Uses  []string `yaml:"uses" help:"Tools that the published composite tools may call, by name or pattern."`
}

// A grant is for tools and for somebody.
type grant struct {
	Tools    []string `yaml:"tools" required:"names of tools, or patterns such as repo_*; \"*\" is all of them" help:"Names of tools as clients see them, or patterns such as repo_*."`
	Groups   []string `yaml:"groups" help:"Groups; \"*\" is everybody."`
	Subjects []string `yaml:"subjects" meant:"allow,users,people,callers" help:"Subjects; one of another issuer is written in full."`
}

// approvals say how people sign in to the approvals page.
type approvals struct {
	TokenFile    string `yaml:"tokenFile" help:"File with tokens of people, with which no program calls."`
	CallerTokens bool   `yaml:"callerTokens" default:"false" help:"Tokens with which programs call open the page as well."`
}

// An outgoingAuth says which credentials backends get.
type outgoingAuth struct {
	Source   string                   `yaml:"source" enum:"inline" unsupported:"discovered,mixed" default:"inline" help:"Where the strategies are."`
	Default  *authStrategy            `yaml:"default" help:"Strategy for all backends that are reached by HTTP."`
	Backends map[string]*authStrategy `yaml:"backends" help:"Strategies for single backends, by name."`
}

// An authStrategy is how one backend is authenticated to.
type authStrategy struct {
	Type            string           `yaml:"type" enum:"unauthenticated,header_injection,client_credentials,token_exchange,pass_through" unsupported:"upstream_inject,aws_sts,obo,xaa" required:"" help:"What the backend gets; see operations.md."`
	HeaderInjection *headerInjection `yaml:"headerInjection" help:"The header; for header_injection."`
	TokenExchange   *tokenExchange   `yaml:"tokenExchange" help:"The token endpoint; for token_exchange."`
	UpstreamInject  map[string]any   `yaml:"upstreamInject" help:"A strategy of ToolHive, which is refused."`
	AwsSts          map[string]any   `yaml:"awsSts" help:"A strategy of ToolHive, which is refused."`
	OBO             map[string]any   `yaml:"obo" help:"A strategy of ToolHive, which is refused."`
	XAA             map[string]any   `yaml:"xaa" help:"A strategy of ToolHive, which is refused."`

	// Ours.
	ClientCredentials *oauthClient `yaml:"clientCredentials" help:"The token endpoint and the client; for client_credentials."`
}

// A headerInjection is a header that every request has.
type headerInjection struct {
	HeaderName     string `yaml:"headerName" required:"" help:"Name of the header."`
	HeaderValue    string `yaml:"headerValue" help:"Its value."`
	HeaderValueEnv string `yaml:"headerValueEnv" help:"Variable that has the value."`

	// Ours.
	HeaderValueFile string `yaml:"headerValueFile" help:"File that has the value, read again for every request."`
}

// An oauthClient is a client of a token endpoint.
type oauthClient struct {
	TokenURL         string   `yaml:"tokenUrl" required:"the URL of the token endpoint" help:"URL of the token endpoint."`
	ClientID         string   `yaml:"clientId" help:"The client."`
	ClientSecret     string   `yaml:"clientSecret" help:"Its secret."`
	ClientSecretEnv  string   `yaml:"clientSecretEnv" help:"Variable that has the secret."`
	ClientSecretFile string   `yaml:"clientSecretFile" help:"File that has the secret."` // ours
	Audience         string   `yaml:"audience" help:"Audience that is asked for."`
	Scopes           []string `yaml:"scopes" help:"Scopes that are asked for."`
}

// A tokenExchange is that of RFC 8693.
type tokenExchange struct {
	Client              oauthClient `yaml:",inline"`
	SubjectTokenType    string      `yaml:"subjectTokenType" help:"Type of the caller's token: access_token, id_token, jwt, or a URI."`
	SubjectProviderName string      `yaml:"subjectProviderName" help:"A provider of ToolHive's own authorization server, which is refused."`
	RequestedTokenType  string      `yaml:"requestedTokenType" help:"Type of the token that is asked for."` // ours
}
