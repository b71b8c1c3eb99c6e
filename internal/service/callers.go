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

// Callers finds out who sends a request, to a gateway with a public URL.
func Callers(a config.Auth, public WebURL, log *slog.Logger) (auth.Authenticator, error) {
	switch {
	case a.TokenFile != "":
		return auth.OpenTokenFile(a.TokenFile, log)
	case a.OIDC != nil:
		return auth.NewOIDC(oidcAt(a.OIDC, public, log))
	}
	return auth.Everybody{}, nil
}

// at says what is ours, where the configuration does not: tokens are then for
// the MCP endpoint at the public URL.
func oidcAt(l *config.OIDC, public WebURL, log *slog.Logger) auth.OIDCOptions {
	o := l.OIDCOptions
	o.Logger, o.LoginClient = log, l.ClientID
	if o.Resource == "" {
		o.Resource = string(cmp.Or(public, "http://localhost")) + Endpoint // nobody calls a worker
	}
	if o.Audience == "" {
		o.Audience = o.Resource
	}
	return o
}

// admits says the same of a composite tool. A script that somebody has sent calls
// what its sender may call by themselves.
func admits(a *config.Auth, ref workflows.DefinitionRef, d *definitions.Definition) bool {
	who := acting(ref.Caller, ref.As)
	if runs.IsSentScript(runs.RunID(ref.RunID)) {
		return gateway.MayCall(&a.Policy, who, d)
	}
	return gateway.MayCallFrom(&a.Policy, ref.From, who, d)
}

// acting is by whose right a run calls: that of its caller, or of a composite
// tool; "" = none.
func acting(caller workflows.Caller, as string) auth.Identity {
	if as != "" {
		return auth.Composite(as)
	}
	return auth.FromPrincipal(caller.Subject, caller.Groups)
}
