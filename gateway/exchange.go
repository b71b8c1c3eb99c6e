package gateway

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
)

// An exchange is one message of a client under way: who sent it, how it is answered and,
// of a call, how it is tied to a run.
type exchange struct {
	*client
	response
	cancellation
	attending
	params    *params
	badParams error              // why params could not be read
	forwarded backends.Forwarded // what backends get of the request
	arguments string             // digest of those of a tools/call, which outlives them
	release   func()             // of the request, which may be large, while its answer is waited for
	connected context.Context    // ends when the client is gone
}

// newExchange is the exchange of a request whose client stays until connected ends.
func newExchange(connected context.Context, c *client, id json.RawMessage, p *params, out outlet) *exchange {
	return &exchange{client: c, response: response{id: id, out: out, status: c.dialect.status}, params: p, release: func() {}, connected: connected}
}

// failNoTool answers a call of a tool that does not exist, or that this caller may not see.
func (x *exchange) failNoTool() {
	x.fail(mcp.INVALID_PARAMS, fmt.Sprintf("tool %q not found", x.params.Name))
}

// isThere reports whether the client of a request waits for it.
func (x *exchange) isThere() bool { return !x.isCancelled() && !web.Left(x.connected) }

// leftByClient reports whether the client has gone before it was answered, in a
// way that means in its era that the run is to end.
func (x *exchange) leftByClient(draining <-chan struct{}) bool {
	select {
	case <-draining:
		return false
	default:
	}
	return x.dialect.sendsAgain() && x.endsRun() && !x.runEnded && !x.isCancelled() && x.overHTTP
}

// cursorFor is the beginning of a run's stream.
func (x *exchange) cursorFor(s runs.Started) cursor {
	return cursor{
		claims:   claims{CallerID: x.callerID},
		Run:      s.ID,
		Tool:     x.params.Name,
		ID:       x.id,
		Token:    x.params.Meta.ProgressToken,
		Progress: -1,
		Attached: s.Attached,
		Owner:    s.Owner,
	}
}

// ownKey is the idempotency key of a direct call as the backend gets it, ""
// without one. A backend that sees all callers as one could otherwise give one
// of them the result of another who had the same key, or that of a run's call.
func (x *exchange) ownKey() string {
	if x.params.Meta.IdempotencyKey == "" {
		return ""
	}
	return encode64(digest("direct call", x.callerID, x.params.Meta.IdempotencyKey))
}
