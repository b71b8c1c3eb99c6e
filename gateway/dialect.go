package gateway

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/runs"
)

// A dialect is what differs between the eras of MCP clients. Each is a value in a file
// of its own, beside the constructor of its clients; no other code checks the era of a
// client.
type dialect interface {
	// admits reports whether a request names its revision as it should; r is nil on
	// stdio. mcp-go answers the others.
	admits(r *http.Request, p *params) bool
	// misrouted reports which header of a call or a task request contradicts its body.
	misrouted(tools *toolset, r *http.Request, m *message, p *params) error
	// converses reports whether a client answers questions and cancels calls by
	// messages of their own.
	converses() bool
	// requestName is the name by which a replica that hears of a cancellation finds
	// the run that a request waits for; "" for requests that are not cancelled by
	// id, or only where they are handled.
	requestName(c *client, id json.RawMessage) string

	// start starts the run of a call that has no key, or finds the one of the same
	// call that was sent before.
	start(ctx context.Context, j *joins, x *exchange, req runs.StartRequest) (runs.Started, error)
	// sendsAgain reports whether a client ends a call by closing its stream, and comes
	// back by sending the call again.
	sendsAgain() bool

	// prime is what a client gets before anything happens.
	prime(r *rendering)
	// place is the id of the next event: where the client comes back to; "" = it
	// cannot.
	place(r *rendering) string
	// resumable reports whether a client comes back with the id of the last event when
	// a stream ends before its response.
	resumable(c *client) bool
	// ask asks a client what it has not been asked yet, and reports whether the call is
	// answered by that.
	ask(s *stream, now []*gate) (answered bool)
	// keepsQuestions reports whether a question outlives the stream that has asked it.
	keepsQuestions() bool
	// refers reports whether a client can be asked to open a page and call again.
	refers(r *rendering) bool

	// taskRequest is the wish of a call to be a task; nil = it has none.
	taskRequest(c *client, p *params) json.RawMessage
	// tasked reports whether the client of a call gets a task instead of waiting.
	tasked(r *rendering) bool
	// taskMethods are the methods of requests that name a task, and whether a client
	// can list its tasks; nil = it has none.
	taskMethods(c *client) (methods map[string]taskMethod, lists bool)
	// listens reports whether a client wants notifications of tasks.
	listens(m *message, p *params) bool

	// status is that of HTTP for a JSON-RPC error.
	status(code int) int
	// finish adds the members that a result must have.
	finish(server mcp.Implementation, r *result) *result
	// list is what the result with a list of tools has beside them: a JSON object.
	list(server mcp.Implementation, scope mcp.CacheScope) any
	// noResource is the code of the error for a resource that there is not.
	noResource() int

	// clientInput is what a direct call passes to its backend, which may ask its user;
	// nil = it may not.
	clientInput(tokens *sealer, x *exchange, tool string) (*backends.ClientInput, error)
	// passes reports whether a backend's error is for the client to deal with.
	passes(e *backends.RPCError) bool
	// pass makes a backend's result one for the client.
	pass(raw json.RawMessage) json.RawMessage
}
