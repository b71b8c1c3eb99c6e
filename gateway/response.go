package gateway

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
)

// A response is what the client of one request is sent.
type response struct {
	id     json.RawMessage
	out    outlet
	status func(code int) int // of HTTP for a JSON-RPC error

	mu       sync.Mutex
	answered bool   // the answer was written to the client
	failure  string // the kind of error that was answered; "" = none
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
func (r *response) notify(place string, method mcp.MCPMethod, params any) {
	r.out.event(place, mustEncode(envelope{JSONRPC: mcp.JSONRPC_VERSION, Method: string(method), Params: params}))
}

// elicit sends an elicitation to the client, whose answer comes as a message of its own.
func (r *response) elicit(place, id string, params elicitParams) {
	r.out.event(place, mustEncode(envelope{JSONRPC: mcp.JSONRPC_VERSION, ID: mustEncode(id), Method: string(mcp.MethodElicitationCreate), Params: params}))
}

// respond sends the result of the call; parts may come from backends.
func (r *response) respond(place string, res any) {
	if isError(res) {
		r.failed(toolError)
	}
	body, err := encode(envelope{JSONRPC: mcp.JSONRPC_VERSION, ID: r.id, Result: res})
	if err != nil {
		r.fail(mcp.INTERNAL_ERROR, "the result is not JSON")
		return
	}
	r.answer(place, http.StatusOK, body)
}

// isError reports whether a result that goes to a client is one of a call that failed.
func isError(answer any) bool {
	r, ok := answer.(*result)
	return ok && r.IsError
}

func (r *response) answer(place string, status int, message []byte) {
	if r.out.answer(place, status, message) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.answered = true
	}
}

func (r *response) wasAnswered() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answered
}

// fail answers with a JSON-RPC error, for calls that are not proper calls.
// What fails while a tool works is a result with isError.
func (r *response) fail(code int, message string) {
	r.failWith(&rpcError{Code: code, Message: message})
}

func (r *response) failWith(e *rpcError) { r.failAs(r.status(e.Code), e) }

// failAs is failWith with a status of HTTP, where nothing was sent before.
func (r *response) failAs(status int, e *rpcError) {
	r.failed(strconv.Itoa(e.Code))
	r.answer("", status, mustEncode(envelope{JSONRPC: mcp.JSONRPC_VERSION, ID: r.id, Error: e}))
}

// failFull answers a request that found no room in the budget of its caller.
func (r *response) failFull(run runs.RunID, err error) {
	if full := (*web.FullError)(nil); errors.As(err, &full) {
		r.out.header("Retry-After", full.RetryAfter())
	}
	r.failAs(http.StatusServiceUnavailable, errorResult(run, err).asError(err))
}

// refer answers with URL_ELICITATION_REQUIRED: the user has to answer on pages
// first, then the call can be repeated (2025-11-25, client/elicitation).
func (r *response) refer(pages []elicitParams) {
	r.answer("", http.StatusOK, mustEncode(envelope{JSONRPC: mcp.JSONRPC_VERSION, ID: r.id, Error: &rpcError{
		Code: mcp.URL_ELICITATION_REQUIRED, Message: "a person must answer first; open the page, then repeat the call with the same key",
		Data: map[string]any{"elicitations": pages}}}))
}

// failed notes the kind of error that is answered.
func (r *response) failed(kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure = kind
}

// kindOfFailure is the kind of error that was answered; "" = none.
func (r *response) kindOfFailure() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}
