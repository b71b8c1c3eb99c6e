// Package backends keeps the connections to the MCP servers that perdure calls
// and shows their tools as one catalogue.
//
// Pool.Call is the only function in the program that calls a backend tool: activities of
// runs and the direct proxy use it.
package backends

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// A Transport is how a backend is reached.
type Transport string

// The transports.
const (
	StreamableHTTP Transport = "streamable-http"
	SSE            Transport = "sse"
	Stdio          Transport = "stdio" // a child process
)

// A Config describes one backend.
type Config struct {
	Name      string
	Transport Transport
	URL       string            // streamable-http, sse
	Command   string            // stdio
	Args      []string          // stdio
	Env       map[string]string // stdio; added to a minimal environment (PATH, HOME, …)
	Dir       string            // stdio; working directory, "" = ours
	User      string            // stdio; name or number of the user it runs as, "" = ours
	Group     string            // stdio; the same of its group, "" = that of User

	Secrets          []Secret      // in URL, Command, Args and Dir; no text of the backend shows them
	Headers          Headers       // streamable-http, sse; every request has them, below those of Credentials
	CACertificates   []byte        // streamable-http, sse; PEM, trusted besides those of the system; nil = none
	Credentials      Credentials   // streamable-http, sse; nil = none
	Effects          []EffectRule  // first match wins; none = unsafe
	TrustAnnotations bool          // the backend's own hints give classes if no rule matches
	Timeout          time.Duration // of one request; 0 = none but the caller's context
	MaxResultBytes   int64         // of one answer; 0 = 64 MB; over it, or with too many values, the call fails with ErrTooLarge
	Limited          bool          // calls are limited, by their callers
}

// An EffectRule gives the tools that match a class.
type EffectRule struct {
	Tool        string          // glob over the tool's original name, e.g. get_*
	Class       string          // read, idempotent, keyed, unsafe
	KeyArgument string          // for keyed: the argument that takes the key; "" = _meta only
	OnUnknown   string          // for unsafe: fail or ask; "" = fail
	Probe       json.RawMessage // for unsafe: how to find out whether a call was executed, a definitions.Probe; nil = not
}

// A Tool is one entry of the catalogue.
type Tool struct {
	Name         string // exposed, after conflict resolution and overrides
	Backend      string
	Original     string // its name at the backend
	Title        string
	Description  string
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage // nil if the backend gives none
	Annotations  Annotations
	Effect       string // class, never empty
	KeyArgument  string
	OnUnknown    string          // of an unsafe tool: what follows an unknown outcome, fail or ask; "" = fail
	Probe        json.RawMessage // the same: how to find out, a definitions.Probe; nil = not
	Hidden       bool            // not shown to clients; steps may call it
	Limited      bool            // from its backend's Config

	byHints bool // Effect follows from Annotations
}

// Annotations are a tool's own hints. A nil hint was not given.
type Annotations struct {
	Title           string
	ReadOnlyHint    *bool
	DestructiveHint *bool
	IdempotentHint  *bool
	OpenWorldHint   *bool
}

// A Call is one call of a backend tool.
type Call struct {
	Backend        string
	Tool           string          // original name
	Arguments      json.RawMessage // object
	IdempotencyKey string          // sent in _meta as perdure/idempotency-key; "" = none
	KeyArgument    string          // argument that takes the key as well; "" = none
	Caller         Caller          // whose credentials the call carries
	// Trace goes into _meta and into HTTP headers, for the spans of the backend:
	// traceparent and tracestate. nil = the call is not traced.
	Trace map[string]string
	// Progress gets the backend's progress notifications. It must not block. nil = the
	// backend is not asked for progress.
	Progress func(Progress)
	// MaySend is called when there is a session for the call, just before it is sent. If
	// it gives an error, the call is not sent. nil = the call is always sent.
	MaySend func(ctx context.Context) error
	// ClientInput is for a call whose client can answer the backend's elicitations, by calling
	// again. nil = it cannot, and a tool that asks fails.
	ClientInput *ClientInput
}

// ClientInput is what a backend that asks during a call gets of the client (2026-07-28,
// multi round-trip requests). Older backends do not get it.
type ClientInput struct {
	Capabilities json.RawMessage // ClientCapabilities of the client
	Responses    json.RawMessage // inputResponses; nil = none
	State        string          // requestState that came with the questions; "" = none
	Round        int             // earlier rounds of this call
}

// maxRounds is how often a backend may ask during one call.
const maxRounds = 50

// Progress is one progress notification of a backend.
type Progress struct {
	Progress, Total float64 // Total is 0 if unknown
	Message         string
}

// A Result is the answer of a backend tool, as the backend gave it.
type Result struct {
	IsError    bool
	Structured json.RawMessage // structuredContent; nil if none
	Content    []Content
	Raw        json.RawMessage // the whole result object, for the direct proxy
	// Asks: this is no result yet, but questions to the client of a call with ClientInput, in
	// Raw.
	Asks bool
}

// Content is one content block.
type Content struct {
	Type     string // text, image, audio, resource, resource_link
	Text     string // text; or the text of an embedded resource
	Data     string // image, audio, blob resource: base64
	MIMEType string
	URI      string
}

// An Outcome is that of a call without a result.
type Outcome int

const (
	// Unknown: the request may have been executed.
	Unknown Outcome = iota
	// NotSent: nothing was written to the wire, or the backend refused the
	// request before executing it. Repeating it is safe.
	NotSent
	// Refused: the backend answered with a protocol error. The outcome is
	// known; whether repeating helps is not.
	Refused
	// CredentialsNeeded: nothing was executed, for lack of a credential. A
	// *CredentialsError is in the chain.
	CredentialsNeeded
)

// A CallError is the error of a call that gave no result.
type CallError struct {
	Backend, Tool string
	Outcome       Outcome
	Err           error

	// Away: by its HTTP status the backend is unavailable or overloaded (502, 503,
	// 504), or called too often (429).
	Away bool
	// RetryAfter is the pause that such an answer asks for; 0 = none.
	RetryAfter time.Duration
}

func (e *CallError) Error() string {
	return "calling " + e.Tool + " of backend " + e.Backend + ": " + e.Err.Error()
}

func (e *CallError) Unwrap() error { return e.Err }

// An RPCError is the JSON-RPC error with which a backend answered a call. It is
// in the chain of the call's error.
type RPCError struct {
	Code    int
	Message string
	Data    any // as JSON decodes it; nil = none
}

func (e *RPCError) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }
