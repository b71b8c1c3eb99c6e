package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/runs"
)

// Modern is 2026-07-28: each request reports what its client is and can; what the
// client has to find out ends the request, which it sends again.
type modern struct{}

// modernClient is the client of a request of 2026-07-28.
func modernClient(who auth.Identity, p *params) *client {
	c := &client{who: who, caller: callerOf(who, clientName(p.Meta.ClientInfo)), callerID: callerIDOf(who),
		dialect: modern{}, version: p.Meta.ProtocolVersion}
	if p.Meta.Capabilities != nil {
		c.canAsk, c.canOpen = canAsk(*p.Meta.Capabilities), canOpen(*p.Meta.Capabilities)
		c.tasks = declaresTasks(*p.Meta.Capabilities)
	}
	return c
}

func (modern) admits(r *http.Request, p *params) bool {
	if !mcp.IsModernProtocol(p.Meta.ProtocolVersion) || !mcp.IsValidProtocolVersion(p.Meta.ProtocolVersion) || p.Meta.Capabilities == nil {
		return false
	}
	return r == nil || p.Meta.ProtocolVersion == r.Header.Get(mcp.HeaderProtocolVersion) && r.Header.Get(mcp.HeaderLastEventID) == ""
}

func (modern) misrouted(tools *toolset, r *http.Request, m *message, p *params) error {
	if err := mcp.ValidateStandardHeaders(r.Header.Get, p.Meta.ProtocolVersion, mcp.MCPMethod(m.Method), m.Params); err != nil {
		return err
	}
	if tool := tools.served(p.Name); tool != nil && m.isCall() {
		return mcp.ValidateParamHeadersLookup(func(name string) (string, bool) {
			return r.Header.Get(name), len(r.Header.Values(name)) > 0
		}, tool, m.Params)
	}
	// What mcp-go does not know.
	if _, known := modernTaskMethods[m.Method]; !known {
		return nil
	}
	if name, ok := mcp.DecodeHeaderValue(r.Header.Get(mcp.HeaderName)); !ok || name != p.TaskID {
		return mcp.HeaderMismatchError{Header: mcp.HeaderName, Reason: "it must be the same as params.taskId"}
	}
	return nil
}

// A request over HTTP is cancelled by closing its stream; mcp-go would cancel any
// request with the id of a notification.
func (modern) converses() bool { return false }

func (modern) requestName(*client, json.RawMessage) string { return "" }

func (modern) start(ctx context.Context, j *joins, x *exchange, req runs.StartRequest) (runs.Started, error) {
	if j.window <= 0 {
		return j.runs.Start(ctx, req)
	}
	started, err := j.startOrJoin(ctx, x, req)
	return started, repeatable(err)
}

func (modern) sendsAgain() bool        { return true }
func (modern) prime(*rendering)        {}
func (modern) place(*rendering) string { return "" }
func (modern) resumable(*client) bool  { return false }
func (modern) keepsQuestions() bool    { return false }
func (modern) refers(*rendering) bool  { return false }

func (d modern) ask(s *stream, now []*gate) (answered bool) {
	if d.tasked(s.rendering) {
		return s.handOutTask()
	}
	return s.asker.requireInput(now)
}

func (modern) taskRequest(*client, *params) json.RawMessage { return nil }

func (modern) tasked(r *rendering) bool { return r.x.tasks && r.patience == nil }

var modernTaskMethods = map[string]taskMethod{
	string(mcp.MethodTasksGet):    (*tasks).modernTask,
	updateTask:                    (*tasks).updateTask,
	string(mcp.MethodTasksCancel): (*tasks).cancelModernTask,
}

func (modern) taskMethods(*client) (methods map[string]taskMethod, lists bool) {
	return modernTaskMethods, false
}

func (modern) listens(m *message, p *params) bool {
	return m.Method == string(mcp.MethodSubscriptionsListen) && len(p.Notifications.TaskIDs) > 0
}

func (modern) status(code int) int {
	switch code {
	case mcp.INTERNAL_ERROR:
		return http.StatusOK
	case mcp.METHOD_NOT_FOUND:
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}

func (modern) finish(server mcp.Implementation, r *result) *result {
	if r.ResultType == "" {
		r.ResultType = string(mcp.ResultTypeComplete)
	}
	return r.set(mcp.MetaKeyServerInfo, map[string]string{"name": server.Name, "version": server.Version})
}

// list says as well how long the list may be kept, and by whom.
func (d modern) list(server mcp.Implementation, scope mcp.CacheScope) any {
	return struct {
		*result
		TTLMs      int64          `json:"ttlMs"`
		CacheScope mcp.CacheScope `json:"cacheScope"`
	}{d.finish(server, &result{}), listLife.Milliseconds(), scope}
}

// noResource is as in server/resources of 2026-07-28.
func (modern) noResource() int { return mcp.INVALID_PARAMS }

func (modern) clientInput(tokens *sealer, x *exchange, tool string) (*backends.ClientInput, error) {
	input := &backends.ClientInput{Capabilities: json.RawMessage(`{}`)}
	if has := x.params.Meta.Capabilities; has != nil {
		// Not what needs more than this one call, as tasks do.
		input.Capabilities = mustEncode(mcp.ClientCapabilities{Elicitation: has.Elicitation, Sampling: has.Sampling, Roots: has.Roots})
	}
	if len(x.params.InputResponses) > 0 {
		input.Responses = mustEncode(x.params.InputResponses)
	}
	if x.params.RequestState == "" {
		return input, nil
	}
	var st passedState
	if err := tokens.open(passedPurpose, x.params.RequestState, x.callerID, &st); err != nil {
		return nil, err
	}
	if st.Tool != tool || st.Arguments != x.arguments {
		return nil, errForged
	}
	input.State, input.Round = st.State, st.Round
	return input, nil
}

func (modern) passes(e *backends.RPCError) bool {
	return e.Code == mcp.MISSING_REQUIRED_CLIENT_CAPABILITY
}

// pass adds the member that this revision requires to the result of an older
// backend, without touching anything else in it.
func (modern) pass(raw json.RawMessage) json.RawMessage {
	var has struct {
		ResultType *string `json:"resultType"`
	}
	raw = bytes.TrimSpace(raw)
	if json.Unmarshal(raw, &has) != nil || has.ResultType != nil || len(raw) < 2 {
		return raw
	}
	head := []byte(`{"resultType":"` + string(mcp.ResultTypeComplete) + `"`)
	if rest := bytes.TrimSpace(raw[1:]); rest[0] != '}' {
		head = append(head, ',')
	}
	return append(head, raw[1:]...)
}
