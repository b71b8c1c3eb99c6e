package gateway

import (
	"cmp"
	"context"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/runs"
)

type identityKey struct{}

func withIdentity(ctx context.Context, who auth.Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, who)
}

func identityFrom(ctx context.Context) auth.Identity {
	who, _ := ctx.Value(identityKey{}).(auth.Identity)
	return who
}

// callerOf is an identity as a run keeps it. The client is the program's own
// clientInfo, unless the credentials name it.
func callerOf(who auth.Identity, client string) runs.Caller {
	return runs.Caller{Subject: who.Caller(), Groups: who.Groups, Client: cmp.Or(who.Client, client)}
}

// behalf is on whose behalf backends are called in a request.
func behalf(who auth.Identity) backends.Caller {
	return backends.Caller{Name: who.Caller(), Token: backends.Secret(who.Token), Expires: who.Expires}
}

// callerIDOf is an identity as tokens name it: the same for all clients of one
// caller, and not its name.
func callerIDOf(who auth.Identity) string {
	return encode64(digest("principal", who.Caller())[:12])
}
