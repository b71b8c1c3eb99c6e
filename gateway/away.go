package gateway

import (
	"fmt"

	"github.com/perdure/perdure/gateway/auth"
)

// An awayError says that a tool cannot be known yet, since its backend has not
// answered since this process was started.
type awayError struct{ tool, backend string }

func (e *awayError) Error() string {
	return fmt.Sprintf("%s: backend %s has not answered since this process was started; nothing was executed", e.tool, e.backend)
}

// away is the error of a direct call of a tool that somebody may call, if there is
// one, whose backend has not answered yet; nil = there is no such backend.
func (r *rights) away(who auth.Identity, name string) error {
	backend, ok := r.tools.unseen(name)
	if !ok || !r.policy.May(who, auth.Call, auth.Object{Tool: name}) {
		return nil
	}
	return &awayError{tool: name, backend: backend}
}

// unseen says which backend may offer a tool that is not there, if one has not
// answered yet.
func (t *toolset) unseen(name string) (backend string, ok bool) { return t.backends.Unseen(name) }
