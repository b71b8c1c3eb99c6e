package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure/gateway/auth"
)

// An unseenError reports that a tool cannot be known yet, since its backend has not
// answered since this process was started.
type unseenError struct{ tool, backend string }

func (e *unseenError) Error() string {
	return fmt.Sprintf("%s: backend %s has not answered since this process was started; nothing was executed", e.tool, e.backend)
}

// unseen is the error of a direct call of a tool that the caller may call and whose
// backend has not answered yet; nil = no such backend.
func (r *rights) unseen(who auth.Identity, name string) error {
	backend, ok := r.tools.unseen(name)
	if !ok || !r.policy.May(who, auth.Call, auth.Object{Tool: name}) {
		return nil
	}
	return &unseenError{tool: name, backend: backend}
}

// unseen reports which backend may offer a tool that is not there, if one has not
// answered yet.
func (t *toolset) unseen(name string) (backend string, ok bool) { return t.backends.Unseen(name) }

// UnseenBackends are those that have not answered yet.
type unseenBackends struct {
	backends Catalogue
	deposits *deposits
}

// await waits for the backend whose absence made a call fail, and reports whether it
// has answered, so that the call may be tried again. The backend is tried with what the
// request brings, as some list their tools only for callers.
func (n *unseenBackends) await(ctx context.Context, who auth.Identity, err error) bool {
	var unseen *unseenError
	if !errors.As(err, &unseen) {
		return false
	}
	n.deposits.deposit(ctx, who, unseen.backend)
	return n.backends.Await(ctx, unseen.backend)
}
