package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/backends"
)

// Requests answer what this gateway answers by itself rather than mcp-go.
type requests struct {
	tools      *toolset
	rights     *rights
	lists      *lists
	unseen     *unseenBackends
	builtIn    map[string]builtInTool
	composites *composites
	proxy      *proxy
	tasks      *tasks
	results    *results
	forwarding backends.Forwarding
	observe    func(context.Context, Operation) (context.Context, func(failure string)) // nil = none
	log        *slog.Logger
}

// forward notes what backends get of a request: of its headers, nil = none, and of its
// params.
func (rq *requests) forward(x *exchange, header http.Header, params json.RawMessage) {
	if x.badParams == nil {
		x.forwarded, x.badParams = rq.forwarding.Of(header, params)
	}
}

// serve answers a request, unless mcp-go has to, which says what is wrong with a
// request that is not admitted. r is the request of HTTP; nil on stdio.
func (rq *requests) serve(ctx context.Context, x *exchange, m *message, r *http.Request) (answered bool) {
	switch {
	case listensToTasks(x.client, m, x.params):
		x.failWith(missingTasks)
	case !admits(x, m, r):
		return false
	case (m.isCall() || isTaskMethod(m)) && x.params.hasLongNames():
		x.fail(mcp.INVALID_PARAMS, fmt.Sprintf("progressToken and perdure/idempotency-key have at most %d bytes", maxID))
	case m.isCall():
		rq.call(ctx, x, m, r)
	case (isTaskMethod(m) || m.isList()) && rq.misrouted(x, m, r): // which has answered
	case isTaskMethod(m):
		rq.tasks.serve(ctx, x, m.Method)
	case m.isList():
		rq.lists.serve(ctx, x)
	case rq.results.missingResult(ctx, x.client, m, x.params):
		x.failWith(noResource(x.client))
	default:
		return false
	}
	return true
}

// admits reports whether a request names its revision as it should. On stdio only calls
// and lists have to.
func admits(x *exchange, m *message, r *http.Request) bool {
	return r == nil && !m.isCall() && !m.isList() || x.dialect.admits(r, x.params)
}

// misrouted answers a request whose headers contradict its body.
func (rq *requests) misrouted(x *exchange, m *message, r *http.Request) (answered bool) {
	if r == nil {
		return false
	}
	err := x.dialect.misrouted(rq.tools, r, m, x.params)
	if err != nil {
		x.fail(mcp.HEADER_MISMATCH, err.Error())
	}
	return err != nil
}

// call handles a tools/call whose client is admitted.
func (rq *requests) call(ctx context.Context, x *exchange, m *message, r *http.Request) {
	defer func() {
		if wrong := recover(); wrong != nil {
			rq.log.ErrorContext(ctx, "a call panicked", "error", wrong, "stack", string(debug.Stack()))
			x.fail(mcp.INTERNAL_ERROR, "internal error")
		}
	}()
	if x.badParams != nil {
		x.fail(mcp.INVALID_PARAMS, unreadable(x.badParams))
		return
	}
	if rq.exists(ctx, x) && !rq.misrouted(x, m, r) { // in this order: headers reveal nothing about a hidden tool
		rq.dispatch(ctx, x)
	}
}

// exists reports whether the tool of a call exists for its caller, for which its backend
// may have to answer first. Otherwise the call is answered.
func (rq *requests) exists(ctx context.Context, x *exchange) bool {
	name := x.params.Name
	if rq.rights.offered(x.who, name) {
		return true
	}
	err := rq.rights.unseen(x.who, name)
	came := rq.unseen.await(ctx, x.who, err)
	switch {
	case came && rq.rights.offered(x.who, name):
		return true
	case err != nil && !came:
		x.respond("", errorResult("", err))
	default:
		x.failNoTool()
	}
	return false
}

// notAdmitted is what mcp-go knows as the handler of every tool, for those calls
// that it answers because of how they come.
func notAdmitted(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return nil, errors.New("send initialize first, or name the revision of the protocol in _meta")
}

// dispatch does what a call asks for, by what kind of tool it names.
func (rq *requests) dispatch(ctx context.Context, x *exchange) {
	x.arguments = digestOfArguments(x.params.Arguments)
	l := rq.tools.now()
	c, err := rq.tools.composite(ctx, l, x.who, x.params)
	t, ofBackend := l.tools[x.params.Name]
	switch {
	case err != nil:
		rq.composites.notStarted(ctx, x, x.params.Name, err)
	case x.dialect.taskRequest(x.client, x.params) != nil && c == nil && x.params.Name != scriptTool:
		x.fail(mcp.METHOD_NOT_FOUND, fmt.Sprintf("tool %q cannot be called as a task", x.params.Name))
	case x.params.Meta.DryRun && !(x.params.Name == scriptTool && rq.tools.isBuiltIn(scriptTool)):
		rq.composites.dryRun(ctx, x, c)
	case c != nil:
		rq.composites.call(ctx, x, c)
	case rq.tools.isBuiltIn(x.params.Name):
		rq.builtIn[x.params.Name].call(ctx, x)
	case ofBackend:
		rq.proxy.call(ctx, x, t)
	default: // it was listed a moment ago
		x.failNoTool()
	}
}

// digestOfArguments is the same for arguments that are the same JSON.
func digestOfArguments(raw json.RawMessage) string {
	same, err := template.Canonical(orEmpty(raw))
	if err != nil {
		same = raw
	}
	return encode64(digest("arguments", string(same))[:12])
}
