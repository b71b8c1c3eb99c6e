package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
)

// Results build tool results from the results of runs, and serve them as resources.
type results struct {
	runs     Runs
	rights   *rights
	tools    *toolset
	server   mcp.Implementation      // serverInfo in results
	linkOver int                     // size in bytes from which on an output is a link; 0 = never
	runURL   func(runs.RunID) string // nil = there is no page for runs
	awaits   bool                    // clients have a tool to wait for a run
	log      *slog.Logger
}

// finish adds the members that a result to a client must have.
func (rs *results) finish(c *client, r *result) *result { return c.dialect.finish(rs.server, r) }

// acknowledgement is the empty result of 2026-07-28.
func (rs *results) acknowledgement(x *exchange) *result { return rs.finish(x.client, &result{}) }

// ended is the result of a run that has ended, as the client gets it: the output,
// or a link to it where that is large. A tool with an output schema must give
// structured content, so its output is never linked.
func (rs *results) ended(c *client, id runs.RunID, o *runs.Outcome) *result {
	size := len(o.Output)
	if rs.linkOver == 0 || size <= rs.linkOver || o.Failure != nil || c.version < linksSince || !rs.tools.now().linkable(id) {
		return outcome(id, o)
	}
	r := &result{Content: []textBlock{
		{Type: "text", Text: "The result is large: read the resource that is linked."},
		{Type: linkType, link: resourceLink{
			Type: linkType, URI: resultScheme + url.PathEscape(string(id)) + resultSuffix,
			Name: "result of " + string(id), MIMEType: "application/json", Size: size,
		}},
	}}
	if len(o.Errors) > 0 {
		r.set(metaErrors, o.Errors)
	}
	return r
}

// pending makes the handle on a run.
func (rs *results) pending(id runs.RunID, open []runs.Elicitation, running []string) *handle {
	h := &handle{Status: statusRunning, RunID: id, Tool: toolOf(id), Running: running}
	if rs.awaits {
		h.Next = &nextCall{Tool: awaitTool, Arguments: map[string]any{"runId": id}}
	}
	for _, e := range open {
		switch {
		case e.Kind != runs.Credentials:
			h.Status = statusWaiting
		case h.Status == statusRunning:
			h.Status = statusNeeds
		}
		q := questionOf(e)
		if !e.Expires.IsZero() {
			q.Expires = &e.Expires
		}
		h.Questions = append(h.Questions, q)
	}
	if h.Status == statusWaiting {
		h.ApprovalURL = rs.page(id)
	}
	return h
}

// page is where a person answers for a run; "" = there is no page.
func (rs *results) page(id runs.RunID) string {
	if rs.runURL == nil {
		return ""
	}
	return rs.runURL(id)
}

// failed answers a request about a run with the error.
func (rs *results) failed(x *exchange, run runs.RunID, err error) {
	rs.log.Warn("a request about a run failed", "run", run, "error", err)
	if full := (*web.FullError)(nil); errors.As(err, &full) {
		x.failFull(run, err)
		return
	}
	x.failWith(errorResult(run, err).asError(err))
}

func (rs *results) refuse(x *exchange, why string) {
	x.respond("", rs.finish(x.client, failure(&runs.Error{Code: codes.InvalidArguments, Category: codes.CategoryValidation, Message: why})))
}

// decodeArguments reads the arguments of a built-in tool, or answers what is
// wrong with them.
func (rs *results) decodeArguments(x *exchange, into any) bool {
	dec := json.NewDecoder(bytes.NewReader(orEmpty(x.params.Arguments)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		rs.refuse(x, "invalid arguments: "+err.Error())
		return false
	}
	return true
}

// missingResult reports whether a message reads the result of a run that does not
// exist, or not for this client. Mcp-go has one code for all failures.
func (rs *results) missingResult(ctx context.Context, c *client, m *message, p *params) bool {
	if m.Method != string(mcp.MethodResourcesRead) || !m.isRequest() || rs.linkOver == 0 {
		return false
	}
	id, ok := resultRun(p.URI)
	if !ok {
		return false // mcp-go does not know the URI either, and answers so
	}
	run, err := rs.rights.permitted(ctx, c.who, auth.See, id)
	return errors.Is(err, runs.ErrNotFound) || err == nil && run.Status != runs.Completed
}

// readResult gives the result of a run to who may see it.
func (rs *results) readResult(ctx context.Context, request mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	run, ok := resultRun(request.Params.URI)
	if !ok {
		return nil, errNoResource
	}
	if _, err := rs.rights.permitted(ctx, identityFrom(ctx), auth.See, run); err != nil {
		return nil, unread(err)
	}
	o, err := rs.runs.Result(ctx, run)
	if err != nil {
		return nil, unread(err)
	}
	if o.Failure != nil {
		return nil, errNoResource
	}
	return []mcp.ResourceContents{mcp.TextResourceContents{URI: request.Params.URI, MIMEType: "application/json", Text: string(o.Output)}}, nil
}
