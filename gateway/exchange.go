package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/runs"
)

// An exchange is one tools/call under way: who called what, and where the
// answer goes.
type exchange struct {
	*client
	id        json.RawMessage
	params    *params
	badParams error  // why params could not be read
	arguments string // digest of those of a tools/call, which outlives them
	out       outlet
	end       func()          // takes the call out of those under way; nil = it is not among them
	name      string          // of the request, by which replicas tell it from others; "" = it waits for no run
	receipts  bool            // the run can be found by its call alone, so that it counts whether the client got an answer
	outlives  bool            // the run goes on when the client is gone
	here      context.Context // ends when the client is gone
	writes    bool            // a tool of the run may do more than read
	ended     bool            // the run has ended, as the client is told or was to be
	joined    bool            // the history of the run has that the request joined it
	watches   bool            // it waits for the run of somebody else, whose call it does not stand for
	seen      int64           // Seq of the last event of the run that was rendered

	mu       sync.Mutex
	answered bool          // the answer was written to the client
	failure  string        // the kind of error that was answered; "" = none
	ends     runs.RunID    // the run that ends when the call is cancelled; "" = none
	cancel   chan struct{} // closed when the client cancels the call; nil before calls.begin
}

// newExchange is that of a request whose client is there until here ends.
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

// respond sends the result of the call, parts of which may come from outside.
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

func (x *exchange) failWith(e *rpcError) {
	x.failed(strconv.Itoa(e.Code))
	x.answer("", x.dialect.status(e.Code), mustEncode(envelope{JSONRPC: mcp.JSONRPC_VERSION, ID: x.id, Error: e}))
}

// refer answers with URL_ELICITATION_REQUIRED: the user has to answer on pages
// first, then the call can be repeated (2025-11-25, client/elicitation).
func (x *exchange) refer(pages []elicitParams) {
	x.answer("", http.StatusOK, mustEncode(envelope{JSONRPC: mcp.JSONRPC_VERSION, ID: x.id, Error: &rpcError{
		Code: mcp.URL_ELICITATION_REQUIRED, Message: "a person has to answer first: open the page, then repeat the call with the same key",
		Data: map[string]any{"elicitations": pages}}}))
}

// watch notes that the run is somebody else's: an answer to this client is none to
// the call of that one.
func (x *exchange) watch() { x.watches, x.receipts = true, false }

// cancelled is closed when the client cancels the call.
func (x *exchange) cancelled() <-chan struct{} { return x.cancel }

// bind says which run ends with the call, and whether it has to at once, since
// the call was cancelled before.
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

// Calls are the calls under way in this process, for clients that cancel them.
type calls struct {
	mu   sync.Mutex
	open map[string]*exchange
}

// begin enters a call, unless that was done when it came in; what it returns takes
// it out again.
func (c *calls) begin(x *exchange) (end func()) {
	if x.cancel != nil {
		return func() {}
	}
	x.cancel = make(chan struct{})
	if x.scope == "" {
		return func() {}
	}
	key := callKey(x.scope, x.id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[string]*exchange{}
	}
	c.open[key] = x
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.open[key] == x {
			delete(c.open, key)
		}
	}
}

func (c *calls) find(scope string, id json.RawMessage) *exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[callKey(scope, id)]
}

func callKey(scope string, id json.RawMessage) string { return scope + " " + string(id) }

// cancelled takes notifications/cancelled. What the client gives as its reason is
// never read: a library that has waited for as long as it waits cancels, too. The
// call may be on another replica, or its stream may have broken: what it started
// is then found by the ID that it was given, or by the request.
func (g *Gateway) cancelled(ctx context.Context, c *client, p *params) {
	if isNull(p.RequestID) || len(p.RequestID) > maxID {
		return
	}
	x := g.calls.find(c.scope, p.RequestID)
	if x != nil && !c.overHTTP {
		x.out.cut() // a request that was cancelled gets no response
	}
	if x != nil {
		g.cancelRun(ctx, x.stop())
		return
	}
	if c.session == nil {
		return
	}
	ctx, done := detached(ctx)
	defer done()
	for name, d := range g.listing.Load().definitions() {
		if !g.outlivesClient(d) && g.opts.Runs.Cancel(ctx, g.sessionRunID(name, c, p.RequestID), cancelReason) == nil {
			return
		}
	}
	leave, ok := g.looks.enter(c.principal, maxLooks)
	if !ok {
		g.log.InfoContext(ctx, "a cancelled request is not looked for: too many of its caller are", "caller", c.caller.Subject)
		return
	}
	go func() {
		defer leave()
		g.cancelByRequest(context.WithoutCancel(ctx), c.dialect.requestName(c, p.RequestID))
	}()
}

// maxLooks bounds the cancelled requests of one caller that are looked for in the
// index at a time. Their clients do not wait for it, so that no other quota does.
const maxLooks = 10

// cancelLooks are when the index is asked for the run of a request, which it may
// not know yet.
var cancelLooks = []time.Duration{0, 200 * time.Millisecond, time.Second, 2 * time.Second}

// cancelByRequest cancels the run that a request waits for, if there is one.
func (g *Gateway) cancelByRequest(ctx context.Context, request string) {
	ctx, done := detached(ctx)
	defer done()
	for _, pause := range cancelLooks {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		found, err := g.opts.Runs.List(ctx, runs.Filter{Request: request, Limit: 1})
		if err != nil {
			g.log.WarnContext(ctx, "looking for the run of a cancelled request", "error", err)
		}
		if len(found) > 0 {
			if d := g.listing.Load().definitions()[found[0].Tool]; d == nil || !g.outlivesClient(d) {
				g.cancelRun(ctx, found[0].ID)
			}
			return
		}
	}
}

func (g *Gateway) cancelRun(ctx context.Context, run runs.RunID) {
	if run == "" {
		return
	}
	ctx, done := detached(ctx)
	defer done()
	if err := g.opts.Runs.Cancel(ctx, run, cancelReason); err != nil {
		g.log.WarnContext(ctx, "cancelling a run", "run", run, "error", err)
	}
}

const cancelReason = "cancelled by the client that called it"
