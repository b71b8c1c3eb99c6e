package service

import (
	"cmp"
	"log/slog"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/workflows"
)

// Callers authenticates requests to a gateway with a public URL.
func Callers(a config.Auth, public WebURL, log *slog.Logger) (auth.Authenticator, error) {
	switch {
	case a.TokenFile != "":
		return auth.OpenTokenFile(a.TokenFile, log)
	case a.OIDC != nil:
		return auth.NewOIDC(oidcAt(a.OIDC, public, log))
	}
	return auth.Everybody{}, nil
}

// oidcAt sets the resource of tokens unless the configuration does: the MCP endpoint at
// the public URL.
func oidcAt(l *config.OIDC, public WebURL, log *slog.Logger) auth.OIDCOptions {
	o := l.OIDCOptions
	o.Logger, o.LoginClient = log, l.ClientID
	if o.Resource == "" {
		o.Resource = string(cmp.Or(public, "http://localhost")) + Endpoint // no requests reach a worker
	}
	if o.Audience == "" {
		o.Audience = o.Resource
	}
	return o
}

// admits reports the same for a composite tool. A script that a caller sent may call
// what the caller may.
func admits(a *config.Auth, ref workflows.DefinitionRef, d *definitions.Definition) bool {
	who := acting(ref.Caller, ref.As)
	if runs.IsSentScript(runs.RunID(ref.RunID)) {
		return gateway.MayCall(&a.Policy, who, d)
	}
	return gateway.MayCallFrom(&a.Policy, ref.From, who, d)
}

// acting is the identity with whose permission a run calls: its caller, or a composite
// tool; "" = none.
func acting(caller workflows.Caller, as string) auth.Identity {
	if as != "" {
		return auth.Composite(as)
	}
	return auth.FromCaller(caller.Subject, caller.Groups)
}
