package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/runs"
)

// Results of runs are resources, where Options.LinkOver says so.
const (
	resultScheme   = "perdure://runs/"
	resultSuffix   = "/result"
	resultTemplate = resultScheme + "{id}" + resultSuffix
)

// linksSince is the first version whose clients take links in results.
const linksSince = "2025-06-18"

// ended is the result of a run that has ended, as the client gets it: the output,
// or a link to it where that is large. A tool with an output schema must give
// structured content, so its output is never linked.
func (g *Gateway) ended(c *client, id runs.RunID, o *runs.Outcome) *result {
	size := len(o.Output)
	if g.opts.LinkOver == 0 || size <= g.opts.LinkOver || o.Failure != nil || c.version < linksSince || !g.listing.Load().linkable(id) {
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

// linkable reports whether no client was told of a schema of a run's output. The
// run is of a definition, whatever names and versions of it are offered.
func (l *listing) linkable(id runs.RunID) bool {
	name, _, _ := strings.Cut(string(id), "/")
	known := runs.IsSentScript(id)
	for _, c := range l.composites {
		if c.def.Name != name {
			continue
		}
		if c.def.Output != nil {
			return false
		}
		known = true
	}
	return known
}

const linkType = "resource_link"

type resourceLink struct {
	Type     string `json:"type"`
	URI      string `json:"uri"`
	Name     string `json:"name"`
	MIMEType string `json:"mimeType"`
	Size     int    `json:"size"`
}

// MarshalJSON writes a text, or a link.
func (b textBlock) MarshalJSON() ([]byte, error) {
	if b.Type == linkType {
		return json.Marshal(b.link)
	}
	type plain textBlock
	return encode(plain(b))
}

// missingResult reports whether a message asks for the result of a run that there
// is not, or not for this client. Mcp-go has one code for all that fails.
func (g *Gateway) missingResult(ctx context.Context, c *client, m *message, p *params) bool {
	if m.Method != string(mcp.MethodResourcesRead) || !m.isRequest() || g.opts.LinkOver == 0 {
		return false
	}
	id, ok := resultRun(p.URI)
	if !ok {
		return false // mcp-go knows no such URI either, and says so
	}
	run, err := g.permitted(ctx, c.who, auth.See, id)
	return errors.Is(err, runs.ErrNotFound) || err == nil && run.Status != runs.Completed
}

func noResource(c *client) *rpcError {
	return &rpcError{Code: c.dialect.noResource(), Message: errNoResource.Error()}
}

// resultRun is the run whose result a URI names.
func resultRun(uri string) (runs.RunID, bool) {
	escaped, found := strings.CutPrefix(uri, resultScheme)
	escaped, whole := strings.CutSuffix(escaped, resultSuffix)
	id, err := url.PathUnescape(escaped)
	return runs.RunID(id), found && whole && err == nil
}

// readResult gives the result of a run to who may see it.
func (g *Gateway) readResult(ctx context.Context, request mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	run, ok := resultRun(request.Params.URI)
	if !ok {
		return nil, errNoResource
	}
	if _, err := g.permitted(ctx, identityFrom(ctx), auth.See, run); err != nil {
		return nil, unread(err)
	}
	o, err := g.opts.Runs.Result(ctx, run)
	if err != nil {
		return nil, unread(err)
	}
	if o.Failure != nil {
		return nil, errNoResource
	}
	return []mcp.ResourceContents{mcp.TextResourceContents{URI: request.Params.URI, MIMEType: "application/json", Text: string(o.Output)}}, nil
}

var errNoResource = errors.New("no such result of yours")

func unread(err error) error {
	if errors.Is(err, runs.ErrNotFound) {
		return errNoResource
	}
	return errors.New("the result cannot be read at the moment; try again")
}
