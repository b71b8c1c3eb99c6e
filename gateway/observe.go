package gateway

import (
	"context"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/codes"
)

// An Operation is a client's request, passed to Options.Observe. Clients choose nothing
// in it but the ID of the request.
type Operation struct {
	Method  string // of MCP; "other" for one that does not exist
	Tool    string // that tools/call calls; "" = none that is offered to the client
	Version string // of the protocol; "" = not known yet
	// Traceparent and Tracestate are those in the _meta of the request (W3C
	// Trace Context); "" = none.
	Traceparent, Tracestate string

	RequestID string // as the client has it, a text or a number
	Session   string // names the session of the client, and opens none; "" = it has none
	OverHTTP  bool   // otherwise stdio
}

// toolError is the failure of a call whose result is an error of the tool.
const toolError = string(codes.ToolError)

// methods are those that a client may call.
var methods = map[string]bool{
	string(mcp.MethodInitialize): true, string(mcp.MethodPing): true,
	string(mcp.MethodToolsList): true, string(mcp.MethodToolsCall): true,
	string(mcp.MethodResourcesList): true, string(mcp.MethodResourcesRead): true, string(mcp.MethodResourcesTemplatesList): true,
	string(mcp.MethodPromptsList): true, string(mcp.MethodPromptsGet): true,
	string(mcp.MethodSubscriptionsListen): true,
}

// observed serves a message, and passes it to Options.Observe if it is a request.
func (rq *requests) observed(ctx context.Context, x *exchange, m *message, serve func(context.Context)) {
	if rq.observe == nil || !m.isRequest() {
		serve(ctx)
		return
	}
	ctx, end := rq.observe(ctx, rq.operation(x, m))
	serve(ctx)
	end(x.kindOfFailure()) // none where mcp-go has answered
}

func (rq *requests) operation(x *exchange, m *message) Operation {
	op := Operation{Method: "other", Version: x.version, Traceparent: x.params.Meta.Traceparent, Tracestate: x.params.Meta.Tracestate,
		RequestID: strings.Trim(string(m.ID), `"`), OverHTTP: x.overHTTP}
	if x.session != nil {
		op.Session = x.session.Nonce
	}
	if methods[m.Method] || isTaskMethod(m) {
		op.Method = m.Method
	}
	if name := x.params.Name; m.Method == string(mcp.MethodToolsCall) && name != "" && rq.rights.offered(x.who, name) {
		op.Tool = name
	}
	return op
}
