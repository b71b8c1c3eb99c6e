package backends

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"sync"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// callParams are the params of tools/call.
type callParams struct {
	Name           string          `json:"name"`
	Arguments      json.RawMessage `json:"arguments,omitempty"`
	InputResponses json.RawMessage `json:"inputResponses,omitempty"`
	RequestState   string          `json:"requestState,omitempty"`
	Meta           map[string]any  `json:"_meta,omitempty"`
}

// callIDs is what the IDs of calls count from; mcp-go's client counts its own requests
// from 1.
const callIDs = 1 << 30

// call sends one tools/call with credentials. The exchange is never nil.
//
// It goes to the transport without mcp-go's client, which encodes and decodes each call
// several times, makes float64 of numbers, refuses unknown content, and has the same
// capabilities for all calls.
func (s *session) call(ctx context.Context, c Call, headers Headers) (*Result, *exchange, error) {
	ctx, x := newExchange(ctx)
	x.session = !mcp.IsModernProtocol(s.version)
	x.headers, x.traced = orNone(headers), c.Trace // not those of a call beside it
	s.headers.Store(&headers)
	params := s.paramsOf(c)
	if c.Progress != nil {
		given := sync.OnceValue(func() secrets { return s.cfg.secretsOf(c, headers) })
		token := s.progress.add(func(p Progress) {
			p.Message = given().without(p.Message)
			c.Progress(p)
		})
		defer s.progress.remove(token)
		params.Meta["progressToken"] = token
	}
	request := transport.JSONRPCRequest{
		JSONRPC: mcp.JSONRPC_VERSION, ID: mcp.NewRequestId(callIDs + s.requests.Add(1)),
		Method: string(mcp.MethodToolsCall), Params: params, Header: s.headersOf(params),
	}
	_, err := s.wire.SendRequest(ctx, request)
	if _, ok := s.wire.(*child); ok && err != nil && ctx.Err() != nil {
		s.cancelRequest(x, request.ID, ctx.Err())
	}
	raw, err := x.result(err)
	if err != nil {
		return nil, x, err
	}
	result, err := parseResult(raw)
	if err == nil && result.Asks && c.ClientInput == nil {
		return nil, x, errInputRequired
	}
	if err == nil && result.Asks && c.ClientInput.Round >= maxRounds {
		return nil, x, errAsksForEver
	}
	return result, x, err
}

// paramsOf are the params of a call. From 2026-07-28 on _meta has what the handshake had
// before, and the client's answers go with the call.
func (s *session) paramsOf(c Call) *callParams {
	p := &callParams{Name: c.Tool, Arguments: c.Arguments, Meta: map[string]any{}}
	for name, value := range c.Caller.Forwarded.Meta {
		p.Meta[name] = value
	}
	if c.IdempotencyKey != "" {
		p.Meta[metaIdempotencyKey] = c.IdempotencyKey
	}
	for name, value := range c.Trace {
		p.Meta[name] = value
	}
	if !mcp.IsModernProtocol(s.version) {
		return p
	}
	maps.Copy(p.Meta, map[string]any{
		mcp.MetaKeyProtocolVersion: s.version, mcp.MetaKeyClientInfo: self, mcp.MetaKeyClientCapabilities: mcp.ClientCapabilities{},
	})
	if in := c.ClientInput; in != nil {
		p.Meta[mcp.MetaKeyClientCapabilities] = in.Capabilities
		p.InputResponses, p.RequestState = in.Responses, in.State
	}
	return p
}

// headersOf are the headers of a call that proxies route by (SEP-2243); nil where the
// revision has none. Transports without headers ignore them.
func (s *session) headersOf(p *callParams) http.Header {
	if !mcp.RequiresStandardHeaders(s.version) {
		return nil
	}
	headers := http.Header{}
	headers.Set(mcp.HeaderMethod, string(mcp.MethodToolsCall))
	if name, ok := mcp.EncodeHeaderValue(p.Name); ok {
		headers.Set(mcp.HeaderName, name)
	}
	mirrored := s.mirrored.Load()
	if mirrored == nil || (*mirrored)[p.Name] == nil {
		return headers
	}
	encoded, err := json.Marshal(p)
	if err != nil {
		return headers // sending it fails likewise
	}
	for name, value := range mcp.GenerateParamHeaders((*mirrored)[p.Name], encoded) {
		headers.Set(name, value)
	}
	return headers
}
