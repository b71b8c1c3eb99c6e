package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/service"
	"github.com/perdure/perdure/workflows/record"
)

// A server is a connection to an MCP server.
type server struct {
	url       string
	client    *client.Client
	transport exactTransport
}

// connect opens a connection; the caller closes it.
func connect(ctx context.Context, to target, options ...client.ClientOption) (*server, error) {
	headers := map[string]string{}
	if to.token != "" {
		headers["Authorization"] = "Bearer " + to.token
	}
	if at, err := url.Parse(to.url); err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return nil, usagef("--url or PERDURE_URL: %q is not the URL of an MCP endpoint, such as http://%s%s", to.url, defaultListen, service.Endpoint)
	}
	streamable, err := transport.NewStreamableHTTP(to.url, transport.WithHTTPLogger(slog.New(slog.DiscardHandler)), transport.WithHTTPHeaders(headers))
	if err != nil {
		return nil, usagef("--url %q: %v", to.url, err)
	}
	t := exactTransport{backends.NewExactTransport(streamable)}
	options = append(options, client.WithMaxInputRoundTrips(math.MaxInt))
	s := &server{url: to.url, client: client.NewClient(t, options...), transport: t}
	if err := s.client.Start(ctx); err != nil {
		return nil, s.explain(err)
	}
	request := mcp.InitializeRequest{}
	request.Params.ClientInfo = mcp.Implementation{Name: "perdure", Version: programVersion()}
	if _, err := s.client.Initialize(ctx, request); err != nil {
		s.close()
		return nil, s.explain(err)
	}
	return s, nil
}

func (s *server) close() { _ = s.client.Close() }

// explain adds what to do to an error of the connection.
func (s *server) explain(err error) error {
	switch {
	case unauthorized(err):
		return errUnauthorized(s.url)
	case errors.Is(err, transport.ErrLegacySSEServer):
		return fmt.Errorf("%s is not an MCP endpoint; that of perdure ends in %s", s.url, service.Endpoint)
	}
	return unreached(s.url, err)
}

func unauthorized(err error) bool {
	var required *transport.AuthorizationRequiredError
	return errors.As(err, &required)
}

func errUnauthorized(at string) error {
	return fmt.Errorf("%s needs a valid bearer token; set PERDURE_TOKEN or --token-file", at)
}

// An unreachedError is one of the network, with what to do.
type unreachedError struct {
	what  string // has happened, and may be done
	flags string // that name another server; "" = another does not help
	err   error
}

func (e *unreachedError) Error() string {
	if e.flags == "" {
		return e.what
	}
	return e.what + " name another server with " + e.flags
}

func (e *unreachedError) Unwrap() error { return e.err }

// unreached is the error of a request that got no answer.
func unreached(at string, err error) error {
	const flags = "--url or --data"
	var lookup *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return &unreachedError{fmt.Sprintf("nothing listens at %s; start perdure dev, or", at), flags, err}
	case errors.As(err, &lookup):
		return &unreachedError{fmt.Sprintf("cannot find the host of %s: %s;", at, lookup.Err), flags, err}
	case errors.Is(err, http.ErrSchemeMismatch):
		return &unreachedError{fmt.Sprintf("%s is served without TLS; write http:// instead", at), "", err}
	}
	return fmt.Errorf("calling %s: %w", at, err)
}

// A remoteTool is an entry of tools/list, its schemas as they were sent.
type remoteTool struct {
	Name         string          `json:"name"`
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Annotations  json.RawMessage `json:"annotations,omitempty"`

	// From the status of a perdure server.
	Effect      string `json:"effect,omitempty"`
	KeyArgument string `json:"keyArgument,omitempty"`
	OnUnknown   string `json:"onUnknown,omitempty"` // for an unsafe tool; "" = fail
	Backend     string `json:"backend,omitempty"`
	Original    string `json:"original,omitempty"` // the backend's own name for it
	Hidden      bool   `json:"hidden,omitempty"`   // from clients; steps may call it

	Probe json.RawMessage `json:"probe,omitempty"` // for an unsafe tool
}

func (s *server) tools(ctx context.Context) ([]remoteTool, error) {
	if _, err := s.client.ListTools(ctx, mcp.ListToolsRequest{}); err != nil {
		return nil, s.explain(err)
	}
	var tools []remoteTool
	for _, page := range s.transport.Take(string(mcp.MethodToolsList)) {
		var list struct {
			Tools []remoteTool `json:"tools"`
		}
		if err := json.Unmarshal(page, &list); err != nil {
			return nil, fmt.Errorf("reading the tools of %s: %w", s.url, err)
		}
		tools = append(tools, list.Tools...)
	}
	return tools, nil
}

// unknownTool is the error for a name that the server does not offer.
func (s *server) unknownTool(name string, tools []remoteTool) error {
	if name == scriptTool {
		return fmt.Errorf("%s accepts no scripts from you; its configuration needs scripts: {agents: true} and, if it has permission rules, one that allows %s", s.url, name)
	}
	var names []string
	var all []definitions.Tool
	for _, t := range tools {
		_, plain, _ := strings.Cut(t.Name, "_") // without the prefix of its backend, if it has one
		names, all = append(names, t.Name), append(all, definitions.Tool{Name: t.Name, Original: cmp.Or(t.Original, plain)})
	}
	if hint := definitions.ToolHint(name, all); hint != "" {
		return fmt.Errorf("tool %q not found at %s%s; perdure tools lists all, perdure definitions why a composite tool is not available", name, s.url, hint)
	}
	known := template.ByNearness(name, names)
	const shown = 10
	if len(names) > shown {
		known = append(known[:shown], fmt.Sprintf("and %d others, see perdure tools", len(names)-shown))
	}
	return fmt.Errorf("tool %q not found at %s; known tools: %s; perdure definitions list shows why a composite tool is not available", name, s.url, strings.Join(known, ", "))
}

// A callResult is the result of tools/call as it was sent.
type callResult struct {
	IsError    bool            `json:"isError"`
	Structured json.RawMessage `json:"structuredContent"`
	Content    []struct {
		Type string `json:"type"`
		Text string `json:"text"`
		URI  string `json:"uri"`
	} `json:"content"`
	Meta struct {
		Run struct {
			ID          string `json:"id"`
			Status      string `json:"status"`
			ApprovalURL string `json:"approvalUrl"`
		} `json:"perdure/run"`
		Error struct {
			Code codes.Code `json:"code"`
		} `json:"perdure/error"`
		DryRun  bool           `json:"perdure/dry-run"`
		Effects record.Effects `json:"perdure/effects"`
		Undone  struct {
			Compensated   []string `json:"compensated"`
			Uncompensated []string `json:"uncompensated"`
		} `json:"perdure/undone"`
	} `json:"_meta"`
	raw json.RawMessage
}

// unfinished reports whether the result is only a handle on a run that continues.
func (r callResult) unfinished() bool {
	switch r.Meta.Run.Status {
	case "running", "waiting_for_approval", "needs_credentials":
		return true
	}
	return false
}

// link is the URI of a large result of a run; "" if the result is complete.
func (r callResult) link() string {
	for _, c := range r.Content {
		if c.Type == "resource_link" && strings.HasPrefix(c.URI, "perdure://runs/") {
			return c.URI
		}
	}
	return ""
}

// text is the text content of the result.
func (r callResult) text() string {
	var parts []string
	for _, c := range r.Content {
		if c.Type == "text" {
			parts = append(parts, c.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// Keys of _meta between perdure and its clients.
const (
	keyMeta     = "perdure/idempotency-key" // calls of one tool with the same key are the same call
	dryRunMeta  = "perdure/dry-run"         // true: plan the call, execute nothing
	versionMeta = "perdure/version"         // wanted version of a composite tool

	uncheckedMeta = "perdure/unchecked" // true, in an elicitation: content is not checked against its schema
)

// read returns the text of a resource.
func (s *server) read(ctx context.Context, uri string) (json.RawMessage, error) {
	var request mcp.ReadResourceRequest
	request.Params.URI = uri
	result, err := s.client.ReadResource(ctx, request)
	if err != nil {
		return nil, s.explain(err)
	}
	var text strings.Builder
	for _, c := range result.Contents {
		if c, ok := c.(mcp.TextResourceContents); ok {
			text.WriteString(c.Text)
		}
	}
	return json.RawMessage(text.String()), nil
}

// call calls a tool and waits for its result.
func (s *server) call(ctx context.Context, name string, arguments json.RawMessage, meta map[string]any) (callResult, error) {
	var request mcp.CallToolRequest
	request.Params.Name = name
	request.Params.Arguments = arguments
	request.Params.Meta = &mcp.Meta{ProgressToken: "call", AdditionalFields: meta}
	if _, err := s.client.CallTool(ctx, request); err != nil {
		return callResult{}, s.explain(err)
	}
	sent := s.transport.Take(string(mcp.MethodToolsCall))
	var result callResult
	if err := json.Unmarshal(sent[len(sent)-1], &result); err != nil {
		return callResult{}, fmt.Errorf("reading the result of %s: %w", name, err)
	}
	result.raw = sent[len(sent)-1]
	return result, nil
}

// connectionLost reports whether an error is one of the connection, and not an
// answer of the server.
func connectionLost(err error) bool {
	var lost *transport.Error
	return errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &lost) && !unauthorized(err) && !turnedDown(err)
}

var statusIn = regexp.MustCompile(`request failed with status (4\d\d)`) // an error of mcp-go

// turnedDown reports whether the same request would get the same answer again, such as 413
// of a proxy that limits bodies.
func turnedDown(err error) bool {
	status := statusIn.FindStringSubmatch(err.Error())
	passes := []string{"404", "408", "425", "429"} // the session is gone, it was too early, or there was too much
	return status != nil && !slices.Contains(passes, status[1])
}

// An exactTransport keeps results as they were sent, and passes the schemas of
// elicitations on as text.
type exactTransport struct{ *backends.ExactTransport }

// SendRequest keeps the result of the request, with the schemas of its elicitations.
func (t exactTransport) SendRequest(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	response, err := t.ExactTransport.SendRequest(ctx, request)
	if err == nil && response.Error == nil {
		response.Result = withExactSchemas(response.Result)
	}
	return response, err
}

// withExactSchemas replaces the schema of each elicitation by its JSON text: the
// client decodes objects into maps, which lose the order of fields. See exactSchema.
func withExactSchemas(raw json.RawMessage) json.RawMessage {
	var result map[string]json.RawMessage
	var questions map[string]map[string]json.RawMessage
	if json.Unmarshal(raw, &result) != nil || json.Unmarshal(result["inputRequests"], &questions) != nil {
		return raw
	}
	for _, question := range questions {
		var params map[string]json.RawMessage
		if json.Unmarshal(question["params"], &params) == nil && params["requestedSchema"] != nil {
			params["requestedSchema"] = mustJSON(string(params["requestedSchema"]))
			question["params"] = mustJSON(params)
		}
	}
	result["inputRequests"] = mustJSON(questions)
	return mustJSON(result)
}

// mustJSON encodes a value that was decoded from JSON.
func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// exactSchema is the schema of an elicitation as it was sent. Before 2026-07-28 an
// elicitation is a request of its own, whose order of fields is lost.
func exactSchema(schema any) (json.RawMessage, error) {
	if text, ok := schema.(string); ok {
		return json.RawMessage(text), nil
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		return nil, fmt.Errorf("reading the elicitation: %w", err)
	}
	return raw, nil
}
