package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
)

// An exchange is one tools/call under way: who called what, and where the
// answer goes.
type exchange struct {
	*client
	attending
	id        json.RawMessage
	params    *params
	badParams error  // why params could not be read
	arguments string // digest of those of a tools/call, which outlives them
	out       outlet
	end       func()          // takes the call out of those under way; nil = it is not among them
	here      context.Context // ends when the client is gone

	mu       sync.Mutex
	answered bool          // the answer was written to the client
	failure  string        // the kind of error that was answered; "" = none
	ends     runs.RunID    // the run that ends when the call is cancelled; "" = none
	cancel   chan struct{} // closed when the client cancels the call; nil before calls.begin
}

// Attending is the relation of a request to the run that it waits for.
type attending struct {
	name     string // of the request, unique among replicas; "" = it waits for no run
	receipts bool   // the run can be found by its call alone, so that it counts whether the client got an answer
	outlives bool   // the run continues when the client is gone
	writes   bool   // a tool of the run may do more than read
	ended    bool   // the run has ended, and the client got or was to get its result
	asks     bool   // the client is asked something, and is to send the call again with the answer
	joined   bool   // the history of the run has that the request joined it
	watches  bool   // it waits for the run of another caller, whose call it does not represent
	seen     int64  // Seq of the last event of the run that was rendered
}

// newExchange is the exchange of a request whose client is connected until here ends.
func newExchange(here context.Context, c *client, id json.RawMessage, p *params, out outlet) *exchange {
	return &exchange{client: c, id: id, params: p, out: out, here: here}
}

// An envelope is a JSON-RPC message that the gateway writes.
type envelope struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

// notify sends a notification; place is its id in the stream, "" = none.
func (x *exchange) notify(place string, method mcp.MCPMethod, params any) {
	x.out.event(place, mustEncode(envelope{JSONRPC: mcp.JSONRPC_VERSION, Method: string(method), Params: params}))
}

// ask sends a request to the client, whose answer comes as a message of its own.
func (x *exchange) ask(place, id string, method mcp.MCPMethod, params any) {
	x.out.event(place, mustEncode(envelope{JSONRPC: mcp.JSONRPC_VERSION, ID: mustEncode(id), Method: string(method), Params: params}))
}

// respond sends the result of the call; parts may come from backends.
func (x *exchange) respond(place string, result any) {
	if isError(result) {
		x.failed(toolError)
	}
	body, err := encode(envelope{JSONRPC: mcp.JSONRPC_VERSION, ID: x.id, Result: result})
	if err != nil {
		x.fail(mcp.INTERNAL_ERROR, "the result is not JSON")
		return
	}
	x.answer(place, http.StatusOK, body)
}

func (x *exchange) answer(place string, status int, message []byte) {
	if x.out.answer(place, status, message) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.answered = true
	}
}

func (x *exchange) wasAnswered() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.answered
}

// fail answers with a JSON-RPC error, for calls that are not proper calls.
// What fails while a tool works is a result with isError.
func (x *exchange) fail(code int, message string) {
	x.failWith(&rpcError{Code: code, Message: message})
}

func (x *exchange) failWith(e *rpcError) { x.failAs(x.dialect.status(e.Code), e) }

// failAs is failWith with a status of HTTP, where nothing was sent before.
func (x *exchange) failAs(status int, e *rpcError) {
	x.failed(strconv.Itoa(e.Code))
	x.answer("", status, mustEncode(envelope{JSONRPC: mcp.JSONRPC_VERSION, ID: x.id, Error: e}))
}

// crowded answers a request that found no room in the budget of its caller.
func (x *exchange) crowded(run runs.RunID, err error) {
	if full := (*web.FullError)(nil); errors.As(err, &full) {
		x.out.header("Retry-After", full.RetryAfter())
	}
	x.failAs(http.StatusServiceUnavailable, errorResult(run, err).asError(err))
}

// refer answers with URL_ELICITATION_REQUIRED: the user has to answer on pages
// first, then the call can be repeated (2025-11-25, client/elicitation).
func (x *exchange) refer(pages []elicitParams) {
	x.answer("", http.StatusOK, mustEncode(envelope{JSONRPC: mcp.JSONRPC_VERSION, ID: x.id, Error: &rpcError{
		Code: mcp.URL_ELICITATION_REQUIRED, Message: "a person must answer first; open the page, then repeat the call with the same key",
		Data: map[string]any{"elicitations": pages}}}))
}

// failed notes the kind of error that is answered.
func (x *exchange) failed(kind string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failure = kind
}

// kindOfFailure is the kind of error that was answered; "" = none, or mcp-go has
// answered.
func (x *exchange) kindOfFailure() string {
	if x == nil {
		return ""
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.failure
}

// isError reports whether a result that goes to a client is one of a call that failed.
func isError(answer any) bool {
	r, ok := answer.(*result)
	return ok && r.IsError
}

// watch notes that the run is another caller's: an answer to this client is none to the
// call of that one.
func (x *exchange) watch() { x.watches, x.receipts = true, false }

// cancelled is closed when the client cancels the call.
func (x *exchange) cancelled() <-chan struct{} { return x.cancel }

// bind sets the run that ends with the call, and reports whether the run has to end at
// once, since the call was cancelled before.
func (x *exchange) bind(run runs.RunID) (cancelled bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ends = run
	return x.isCancelled() && !x.outlives
}

// stop cancels the call and returns the run that has to end with it, if any.
func (x *exchange) stop() runs.RunID {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.isCancelled() {
		close(x.cancel)
	}
	if x.ends != "" && x.outlives { // which is known once it is bound
		return ""
	}
	return x.ends
}

func (x *exchange) isCancelled() bool {
	select {
	case <-x.cancel:
		return true
	default:
		return false
	}
}

// endsRun reports whether a run ends when the call is cancelled.
func (x *exchange) endsRun() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ends != "" && !x.outlives
}

// isThere reports whether the client of a request waits for it.
func (x *exchange) isThere() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.isCancelled() && x.here.Err() == nil
}

// leftByClient reports whether the client has gone before it was answered, in a
// way that means in its era that the run is to end.
func (x *exchange) leftByClient(draining <-chan struct{}) bool {
	select {
	case <-draining:
		return false
	default:
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.dialect.sendsAgain() && x.ends != "" && !x.ended && !x.outlives && !x.isCancelled() && x.overHTTP
}

// cursorFor is the beginning of a run's stream.
func (x *exchange) cursorFor(s runs.Started) cursor {
	return cursor{
		claims:   claims{CallerID: x.callerID},
		Run:      s.ID,
		Tool:     x.params.Name,
		ID:       x.id,
		Token:    x.params.Meta.ProgressToken,
		Progress: -1,
		Attached: s.Attached,
		Owner:    s.Owner,
	}
}

// ownKey is the idempotency key of a direct call as the backend gets it, ""
// without one. A backend that sees all callers as one could otherwise give one
// of them the result of another who had the same key, or that of a run's call.
func (x *exchange) ownKey() string {
	if x.params.Meta.IdempotencyKey == "" {
		return ""
	}
	return encode64(digest("direct call", x.callerID, x.params.Meta.IdempotencyKey))
}
