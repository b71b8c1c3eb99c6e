package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
)

// How long a backend call continues for a client of the session era whose connection
// broke: in that era this is no cancellation, and a write must not stop half way.
const afterlife = 10 * time.Minute

// A proxy passes calls of backend tools through.
type proxy struct {
	backends  Catalogue
	results   *results
	calls     *calls
	tokens    *sealer
	drain     *drain
	keepAlive time.Duration
	log       *slog.Logger
}

// call passes a call of a backend tool through.
func (pr *proxy) call(ctx context.Context, x *exchange, t backends.Tool) {
	end := pr.calls.begin(x)
	defer end()
	if x.overHTTP && !x.dialect.sendsAgain() {
		var stop context.CancelFunc
		ctx, stop = pr.outlive(ctx)
		defer stop()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	input, err := x.dialect.clientInput(pr.tokens, x, t.Name)
	if err != nil {
		pr.log.DebugContext(ctx, "refusing a request state", "error", err)
		x.fail(mcp.INVALID_PARAMS, badState)
		return
	}
	p := proxied{x: x, input: input, progress: make(chan backends.Progress, 64), last: -1}
	done := make(chan func(), 1)
	held, release := backends.Hold(ctx)
	defer release()
	go func() {
		res, err := pr.backends.Call(held, p.call(t))
		if err == nil && web.Reserve(held, int64(len(res.Raw))) == nil {
			release() // the caller's own room holds it until it is written
		}
		done <- func() { pr.answerBackend(x, t, input, res, err) }
	}()
	p.wait(pr.keepAlive, cancel, done)
}

// outlive is a context that lives on for its afterlife when its parent was cancelled, but
// not longer than the gateway.
func (pr *proxy) outlive(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() {
		select {
		case <-time.After(afterlife):
		case <-pr.drain.begun():
		case <-ctx.Done():
		}
		cancel()
	})
	return ctx, func() { stop(); cancel() }
}

func (pr *proxy) answerBackend(x *exchange, t backends.Tool, input *backends.ClientInput, res *backends.Result, err error) {
	if err == nil && res.IsError {
		x.failed(toolError)
	}
	var refused *backends.RPCError
	switch {
	case errors.As(err, &refused) && x.dialect.passes(refused):
		x.failWith(&rpcError{Code: refused.Code, Message: refused.Message, Data: dataWithoutOurs(refused.Data)})
	case err != nil:
		pr.log.Info("backend call failed", "tool", t.Name, "error", err)
		x.respond("", pr.results.finish(x.client, callFailed(t, err)))
	case isNull(res.Raw):
		x.respond("", pr.results.finish(x.client, failure(&runs.Error{Code: codes.InvalidOutput, Category: codes.CategoryTool, Tool: t.Name,
			Message: t.Name + " was executed, but backend " + t.Backend + " gave null and no result"})))
	case res.Asks:
		x.respond("", pr.passQuestions(x, t, input.Round, withoutOurs(res.Raw)))
	default:
		x.respond("", x.dialect.pass(withoutOurs(res.Raw)))
	}
}

// ourMeta begins the keys of _meta that are perdure's.
const ourMeta = "perdure/"

// withoutOurs removes perdure's own keys from the _meta of a backend's result:
// otherwise a backend could make clients believe that calling again helps, or that a
// run waits for its user at some URL.
func withoutOurs(raw json.RawMessage) json.RawMessage {
	var has struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	ours := func(key string, _ json.RawMessage) bool { return strings.HasPrefix(key, ourMeta) }
	if json.Unmarshal(raw, &has) != nil || len(has.Meta) == 0 {
		return raw
	}
	before := len(has.Meta)
	if maps.DeleteFunc(has.Meta, ours); len(has.Meta) == before {
		return raw
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return raw
	}
	all["_meta"] = mustEncode(has.Meta)
	return mustEncode(all)
}

// dataWithoutOurs is the same for the data of a backend's error.
func dataWithoutOurs(data any) any {
	members, ok := data.(map[string]any)
	if !ok {
		return data
	}
	members = maps.Clone(members)
	maps.DeleteFunc(members, func(key string, _ any) bool { return strings.HasPrefix(key, ourMeta) })
	return members
}

// A proxied call relays the backend's notifications.
type proxied struct {
	x        *exchange
	input    *backends.ClientInput
	progress chan backends.Progress
	last     float64
}

func (p *proxied) call(t backends.Tool) backends.Call {
	call := backends.Call{
		Backend:        t.Backend,
		Tool:           t.Original,
		Arguments:      orEmpty(p.x.params.Arguments),
		IdempotencyKey: p.x.ownKey(),
		KeyArgument:    t.KeyArgument,
		Caller:         behalf(p.x.who),
		ClientInput:    p.input,
	}
	call.Caller.Forwarded = p.x.forwarded
	if call.IdempotencyKey == "" {
		call.KeyArgument = ""
	}
	if !isNull(p.x.params.Meta.ProgressToken) {
		call.Progress = func(n backends.Progress) {
			select {
			case p.progress <- n:
			default: // a client that reads slowly misses some
			}
		}
	}
	return call
}

// wait relays until the call is done. A call that its client cancelled is
// waited for as well: it ends soon.
func (p *proxied) wait(keepAlive time.Duration, cancel func(), done <-chan func()) {
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	cancelled := p.x.cancelled()
	for {
		select {
		case n := <-p.progress:
			p.relay(n)
		case <-tick.C:
			p.x.out.comment()
		case <-cancelled:
			cancel()
			cancelled = nil
		case answer := <-done:
			p.drain()
			answer()
			return
		}
	}
}

func (p *proxied) drain() {
	for {
		select {
		case n := <-p.progress:
			p.relay(n)
		default:
			return
		}
	}
}

// relay drops progress that does not increase, as clients may rely on that.
func (p *proxied) relay(n backends.Progress) {
	if n.Progress <= p.last {
		return
	}
	p.last = n.Progress
	p.x.notify("", mcp.MethodNotificationProgress, progressParams{
		Token: p.x.params.Meta.ProgressToken, Progress: n.Progress, Total: n.Total, Message: n.Message})
}

type progressParams struct {
	Token    json.RawMessage `json:"progressToken"`
	Progress float64         `json:"progress"`
	Total    float64         `json:"total,omitempty"`
	Message  string          `json:"message,omitempty"`
	Meta     map[string]any  `json:"_meta,omitempty"`
}
