package gateway

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/runs"
)

// Sessions are the revisions up to 2025-11-25: a client declares its capabilities once,
// is asked while its call runs, and comes back to a stream that broke.
type sessions struct{}

// sessionClient is the client of a request in a session.
func sessionClient(who auth.Identity, s *session) *client {
	return &client{who: who, caller: callerOf(who, s.Client), callerID: callerIDOf(who), dialect: sessions{},
		version: s.Version, canAsk: s.CanAsk, canOpen: s.CanOpen, tasks: knowsTasks(s.Version),
		session: s, scope: s.Nonce}
}

func (sessions) misrouted(*toolset, *http.Request, *message, *params) error { return nil }
func (sessions) converses() bool                                            { return true }
func (sessions) sendsAgain() bool                                           { return false }
func (sessions) keepsQuestions() bool                                       { return true }
func (sessions) tasked(*rendering) bool                                     { return false }
func (sessions) listens(*message, *params) bool                             { return false }
func (sessions) status(int) int                                             { return http.StatusOK }
func (sessions) finish(_ mcp.Implementation, r *result) *result             { return r }
func (sessions) list(mcp.Implementation, mcp.CacheScope) any                { return struct{}{} }
func (sessions) passes(*backends.RPCError) bool                             { return false }
func (sessions) pass(raw json.RawMessage) json.RawMessage                   { return raw }
func (sessions) clientInput(*sealer, *exchange, string) (*backends.ClientInput, error) {
	return nil, nil
}

func (sessions) admits(r *http.Request, _ *params) bool {
	if r == nil {
		return true
	}
	version := r.Header.Get(mcp.HeaderProtocolVersion)
	return version == "" || mcp.IsValidProtocolVersion(version)
}

// requestName is for what sessionRunID does not find: the run has another ID, or
// was started after it was looked for.
func (sessions) requestName(c *client, id json.RawMessage) string {
	if !c.overHTTP {
		return ""
	}
	return encode64(digest("request", c.callerID, c.scope, string(id))[:15])
}

func (sessions) start(ctx context.Context, j *joins, x *exchange, req runs.StartRequest) (runs.Started, error) {
	req.ID = sessionRunID(req.Definition.Name, x.client, x.id)
	return j.startNamed(ctx, x, req)
}

func (d sessions) prime(r *rendering) {
	if d.resumable(r.x.client) {
		r.x.out.prime(r.place(), r.on.timing.StreamRetry)
		return
	}
	r.x.out.comment()
}

func (sessions) place(r *rendering) string {
	if !r.x.overHTTP {
		return ""
	}
	return r.on.tokens.seal(eventPurpose, &r.at)
}

func (sessions) resumable(c *client) bool {
	return c.overHTTP && c.streams && c.version >= mcp.ProtocolVersion20251125
}

func (sessions) ask(s *stream, now []*gate) (answered bool) {
	if s.x.streams {
		for _, gt := range now {
			s.asker.elicit(gt)
		}
	}
	return false
}

// refers: the client knows the error for that, could not be asked while the call
// was under way, and its next call will find the same run.
func (sessions) refers(r *rendering) bool {
	return r.x.canOpen && !r.x.streams && r.x.params.Meta.IdempotencyKey != ""
}

// taskRequest is that of tasks in 2025-11-25.
func (sessions) taskRequest(c *client, p *params) json.RawMessage {
	if !c.tasks || isNull(p.Task) {
		return nil
	}
	return p.Task
}

var sessionTaskMethods = map[string]taskMethod{
	string(mcp.MethodTasksGet):    (*tasks).sessionTask,
	string(mcp.MethodTasksResult): (*tasks).taskResult,
	string(mcp.MethodTasksCancel): (*tasks).cancelSessionTask,
}

func (sessions) taskMethods(c *client) (methods map[string]taskMethod, lists bool) {
	if !c.tasks {
		return nil, false
	}
	return sessionTaskMethods, true
}

// noResource is as in server/resources of 2025-11-25.
func (sessions) noResource() int { return mcp.RESOURCE_NOT_FOUND }
