package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/runs"
)

// A client is what is known, in one request, of who sent it and of what it can
// be sent.
type client struct {
	who      auth.Identity
	caller   runs.Caller // who, as runs know it
	callerID string      // a digest of caller.Subject, for tokens and derived IDs
	dialect  dialect
	version  string
	canAsk   bool     // shows elicitations to its user, in form mode
	canOpen  bool     // opens pages for its user: elicitations in URL mode
	tasks    bool     // polls tasks, in the way of its era
	streams  bool     // takes several messages in answer to one request
	overHTTP bool     // otherwise stdio: streams end with the process
	session  *session // nil = it has none
	scope    string   // in which the ids of its requests are its own; "" = it cannot cancel them
}

// Limits of what clients choose and tokens repeat.
const (
	maxID       = 256     // bytes of a JSON-RPC id or a progress token
	maxAnswerID = 8 << 10 // bytes of the id of an answer, which is that of a question; deep runs have long ones
	maxKey      = 256     // bytes of an idempotency key
	maxClientID = 100     // bytes of a client's name and version
)

// A message is one JSON-RPC message of a client.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`
}

// isCall reports whether a message is a proper tools/call.
func (m *message) isCall() bool {
	return m.Method == string(mcp.MethodToolsCall) && m.isRequest() && m.JSONRPC == mcp.JSONRPC_VERSION
}

// isList says whether a message asks for the list of tools.
func (m *message) isList() bool { return m.Method == string(mcp.MethodToolsList) && m.isRequest() }

func (m *message) isRequest() bool { return m.Method != "" && !isNull(m.ID) }

// hasLongID reports whether the id is longer than a client's may be.
func (m *message) hasLongID() bool {
	if m.isResponse() {
		return len(m.ID) > maxAnswerID
	}
	return len(m.ID) > maxID
}

func (m *message) isResponse() bool {
	return m.Method == "" && !isNull(m.ID) && (len(m.Result) > 0 || len(m.Error) > 0)
}

// invalidRequest is the error for JSON that is no message; nil = it is one, or it is no
// JSON, which mcp-go reports. A notification may have a null id. Invalid UTF-8 would
// come back, for example in a progress token, as something clients cannot read.
func invalidRequest(body []byte, m *message) []byte {
	id, why := json.RawMessage("null"), ""
	named := len(m.ID) > 0 && strings.ContainsRune(`"-0123456789`, rune(m.ID[0]))
	switch {
	case !utf8.Valid(body):
		if why = "the message is not UTF-8 text"; named && utf8.Valid(m.ID) && !m.hasLongID() {
			id = m.ID
		}
	case bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) && json.Valid(body):
		why = "batches are not supported: send each message by itself"
	case m.Method == "" || len(m.ID) == 0 || named:
		return nil
	case isNull(m.ID) && strings.HasPrefix(m.Method, "notifications/"):
		return nil
	default:
		why = "the id of a request must be a string or a number"
	}
	return mustEncode(envelope{JSONRPC: mcp.JSONRPC_VERSION, ID: id, Error: &rpcError{Code: mcp.INVALID_REQUEST, Message: why}})
}

// Params are the parameters of all requests that the gateway looks into.
type params struct {
	// tools/call
	Name           string                     `json:"name"`
	Arguments      json.RawMessage            `json:"arguments"`
	RequestState   string                     `json:"requestState"`
	InputResponses map[string]json.RawMessage `json:"inputResponses"`
	Task           json.RawMessage            `json:"task"` // 2025-11-25
	// tasks/*
	TaskID string `json:"taskId"`
	Cursor string `json:"cursor"`
	// resources/read
	URI string `json:"uri"`
	// subscriptions/listen
	Notifications struct {
		TaskIDs []json.RawMessage `json:"taskIds"`
	} `json:"notifications"`
	// notifications/cancelled
	RequestID json.RawMessage `json:"requestId"`
	// initialize
	ProtocolVersion string                 `json:"protocolVersion"`
	Capabilities    mcp.ClientCapabilities `json:"capabilities"`
	ClientInfo      mcp.Implementation     `json:"clientInfo"`

	Meta meta `json:"_meta"`
}

type meta struct {
	ProgressToken   json.RawMessage         `json:"progressToken"`
	ProtocolVersion string                  `json:"io.modelcontextprotocol/protocolVersion"`
	Capabilities    *mcp.ClientCapabilities `json:"io.modelcontextprotocol/clientCapabilities"`
	ClientInfo      mcp.Implementation      `json:"io.modelcontextprotocol/clientInfo"`
	IdempotencyKey  string                  `json:"perdure/idempotency-key"`
	DryRun          bool                    `json:"perdure/dry-run"`
	// Version reports which version of a composite tool is called, as
	// definitions.Reference has it. "" = the one that is offered.
	Version     string `json:"perdure/version"`
	Traceparent string `json:"traceparent"`
	Tracestate  string `json:"tracestate"`
}

// shed drops all but what following a run takes. Its client may have made each of the
// others as large as a request.
func (p *params) shed() {
	*p = params{Name: p.Name, Meta: meta{ProgressToken: p.Meta.ProgressToken, IdempotencyKey: p.Meta.IdempotencyKey}}
}

// hasLongNames reports whether what shed keeps is longer than a client may have it.
func (p *params) hasLongNames() bool {
	return len(p.Meta.ProgressToken) > maxID || len(p.Meta.IdempotencyKey) > maxKey
}

// unreadable reports what is wrong with params that could not be read.
func unreadable(err error) string {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) || wrong.Field == "" {
		return "invalid params: " + err.Error()
	}
	want := map[reflect.Kind]string{reflect.String: "a string", reflect.Bool: "true or false", reflect.Slice: "an array"}[wrong.Type.Kind()]
	if wrong.Field == "_meta.perdure/version" {
		want += ` such as "1.2.0", "^1" or "1"`
	}
	return fmt.Sprintf("invalid params: %s is %s, and must be %s", strings.TrimPrefix(wrong.Field, "_meta."), wrong.Value, cmp.Or(want, "an object"))
}

// newSession is the session that an initialize request asks for.
func newSession(callerID, nonce string, p *params) *session {
	version := mcp.NegotiateLegacyVersion(p.ProtocolVersion)
	return &session{
		claims:  claims{CallerID: callerID},
		Nonce:   nonce,
		Version: version,
		CanAsk:  canAsk(p.Capabilities),
		CanOpen: canOpen(p.Capabilities) && version >= mcp.ProtocolVersion20251125,
		Client:  clientName(p.ClientInfo),
	}
}

// canAsk reports whether a client shows forms: an elicitation capability
// without modes means form.
func canAsk(c mcp.ClientCapabilities) bool {
	return c.Elicitation != nil && (c.Elicitation.Form != nil || c.Elicitation.URL == nil)
}

// canOpen reports whether a client opens pages (since 2025-11-25).
func canOpen(c mcp.ClientCapabilities) bool {
	return c.Elicitation != nil && c.Elicitation.URL != nil
}

func clientName(i mcp.Implementation) string {
	name := i.Name
	if i.Version != "" {
		name += "/" + i.Version
	}
	if len(name) > maxClientID {
		name = strings.ToValidUTF8(name[:maxClientID], "")
	}
	return strings.Clone(name) // which keeps nothing of a long one
}

func isNull(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}
