package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/runs"
)

// serveCall handles a tools/call whose client is admitted. misrouted says which of
// its headers contradicts it; nil = it has none.
func (g *Gateway) serveCall(ctx context.Context, x *exchange, misrouted func() error) {
	defer func() {
		if x.end != nil {
			x.end()
		}
	}()
	defer func() {
		if wrong := recover(); wrong != nil {
			g.log.ErrorContext(ctx, "a call panicked", "error", wrong, "stack", string(debug.Stack()))
			x.fail(mcp.INTERNAL_ERROR, "internal error")
		}
	}()
	switch {
	case x.badParams != nil:
		x.fail(mcp.INVALID_PARAMS, unreadable(x.badParams))
		return
	case !g.offered(x.who, x.params.Name): // headers tell nothing of a tool that is hidden
		x.fail(mcp.INVALID_PARAMS, fmt.Sprintf("tool %q not found", x.params.Name))
		return
	}
	if misrouted != nil {
		if err := misrouted(); err != nil {
			x.fail(mcp.HEADER_MISMATCH, err.Error())
			return
		}
	}
	g.call(ctx, x)
}

// notAdmitted is what mcp-go knows as the handler of every tool, for those calls
// that it answers because of how they come.
func notAdmitted(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return nil, errors.New("send initialize first, or name the revision of the protocol in _meta")
}

// call does what a call asks for, by what kind of tool it names.
func (g *Gateway) call(ctx context.Context, x *exchange) {
	x.arguments = digestOfArguments(x.params.Arguments)
	l := g.listing.Load()
	c, err := g.composite(ctx, l, x.who, x.params)
	switch {
	case len(x.params.Meta.ProgressToken) > maxID || len(x.params.Meta.IdempotencyKey) > maxKey:
		x.fail(mcp.INVALID_PARAMS, fmt.Sprintf("progressToken and perdure/idempotency-key have at most %d bytes", maxID))
	case err != nil:
		g.notStarted(ctx, x, x.params.Name, err)
	case x.dialect.taskRequest(x.client, x.params) != nil && c == nil && x.params.Name != scriptTool:
		x.fail(mcp.METHOD_NOT_FOUND, fmt.Sprintf("tool %q cannot be called as a task", x.params.Name))
	case x.params.Meta.DryRun && !(x.params.Name == scriptTool && g.opts.Scripts):
		g.dryRun(x, c)
	case c != nil:
		g.callComposite(ctx, x, c)
	case g.runTools[x.params.Name].call != nil:
		g.runTools[x.params.Name].call(g, ctx, x)
	default:
		g.callOther(ctx, x, l)
	}
}

// digestOfArguments is the same for arguments that are the same JSON.
func digestOfArguments(raw json.RawMessage) string {
	same, err := canonical(raw)
	if err != nil {
		same = raw
	}
	return encode64(digest("arguments", string(same))[:12])
}

func (g *Gateway) callOther(ctx context.Context, x *exchange, l *listing) {
	t, ok := l.tools[x.params.Name]
	if !ok { // it was listed a moment ago
		x.fail(mcp.INVALID_PARAMS, fmt.Sprintf("tool %q not found", x.params.Name))
		return
	}
	g.callBackend(ctx, x, t)
}

// callComposite starts a run, or finds the one that the call belongs to, and
// renders it.
func (g *Gateway) callComposite(ctx context.Context, x *exchange, c *composite) {
	x.name, x.outlives = cmp.Or(x.dialect.requestName(x.client, x.id), newNonce()), g.outlivesClient(c.def)
	x.end = g.calls.begin(x)
	if x.params.RequestState != "" {
		g.nextRound(ctx, x)
		return
	}
	if asked := x.dialect.taskRequest(x.client, x.params); asked != nil {
		g.callAsTask(ctx, x, c, asked)
		return
	}
	started, err := g.start(ctx, x, c)
	if err != nil {
		g.notStarted(ctx, x, c.def.Name, err)
		return
	}
	if started.Owner == "" && x.bind(started.ID) {
		g.cancelRun(ctx, started.ID)
	}
	g.served.begin(started.ID, x)
	g.follows(ctx, x, x.cursorFor(started), manner{})
}

// follows answers a call with what comes of its run. The request, which may be
// large, is let go before.
func (g *Gateway) follows(ctx context.Context, x *exchange, at cursor, m manner) {
	if x.letGo != nil {
		x.letGo()
	}
	g.render(ctx, x, at, m)
	g.settle(ctx, x, at.Run)
}

// notStarted answers a call of which no run has come. What was to be a task has no
// result: it is an error, which says the same.
func (g *Gateway) notStarted(ctx context.Context, x *exchange, tool string, err error) {
	g.log.InfoContext(ctx, "call was not started", "tool", tool, "caller", x.caller.Subject, "error", err)
	why := trouble("", err)
	var full *QuotaError
	if errors.As(err, &full) {
		x.out.header("Retry-After", full.retryAfter())
	}
	if x.dialect.taskRequest(x.client, x.params) == nil {
		x.respond("", g.finish(x.client, why))
		return
	}
	x.failWith(why.asError(err))
}

// cursorFor is the beginning of a run's stream.
func (x *exchange) cursorFor(s runs.Started) cursor {
	return cursor{
		claims:   claims{Principal: x.principal},
		Run:      s.ID,
		Tool:     x.params.Name,
		ID:       x.id,
		Token:    x.params.Meta.ProgressToken,
		Progress: -1,
		Attached: s.Attached,
		Owner:    s.Owner,
	}
}

// How long starting or stopping a run may take when nobody waits any more.
const detachedLimit = 30 * time.Second

// detached is for what must not stop half way because a client went away.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), detachedLimit)
}

// start makes the run of a call durable before the client hears of it.
func (g *Gateway) start(ctx context.Context, x *exchange, c *composite) (runs.Started, error) {
	args, err := c.def.Arguments(orEmpty(x.params.Arguments))
	if err != nil {
		return runs.Started{}, err
	}
	tools, err := g.snapshot(x.who, c.def)
	if err != nil {
		return runs.Started{}, err
	}
	if err := g.checkDrift(c); err != nil {
		return runs.Started{}, err
	}
	for _, t := range tools {
		x.writes = x.writes || t.Effect != definitions.Read
	}
	g.leaveCredentials(ctx, x.who, g.backendsOf(c.def, tools)...)
	ctx, cancel := detached(ctx)
	defer cancel()
	req := runs.StartRequest{Definition: c.def, Arguments: args, Caller: x.caller, Tools: tools, Ruled: g.opts.Policy.Ruled(), ScriptLimits: g.opts.ScriptLimits, MaxDepth: g.opts.MaxDepth}
	return g.startOrAttach(ctx, x, req)
}

// snapshot is what is known now of the tools that a definition uses, if its
// run may call them.
func (g *Gateway) snapshot(who auth.Identity, d *definitions.Definition) (map[string]definitions.Tool, error) {
	tools, err := Snapshot(d, g.findTool)
	if err != nil {
		return nil, err
	}
	g.addDynamic(who, d, tools)
	return tools, g.allSteps(who, d, tools)
}

// Snapshot is what is known now of the tools that a definition uses, by the name
// that its steps use. It is an error if one of them is not there.
func Snapshot(d *definitions.Definition, find definitions.Tools) (map[string]definitions.Tool, error) {
	tools := map[string]definitions.Tool{}
	for _, name := range d.ToolNames() {
		t, ok := find(name)
		if !ok {
			return nil, fmt.Errorf("tool %s of composite tool %s: %w", name, d.Name, errToolGone)
		}
		tools[name] = t
		if t.Probe == nil {
			continue
		}
		_, used := tools[t.Probe.Tool]
		if asked, ok := find(t.Probe.Tool); ok && !used { // without it, the probe does not know
			asked.ForProbe = true
			tools[t.Probe.Tool] = asked
		}
	}
	return tools, nil
}

// addDynamic adds the tools that scripts may call by a name that only a run comes
// to, as far as whoever calls them may.
func (g *Gateway) addDynamic(who auth.Identity, d *definitions.Definition, tools map[string]definitions.Tool) {
	if d.RunAs == definitions.AsComposite {
		who = auth.Composite(d.Name)
	}
	AddDynamic(d, g.opts.Catalogue.Tools(), tools, func(name string) bool {
		if d.Name == scriptTool {
			return g.maySend(who, name)
		}
		return g.opts.Policy.May(who, auth.Call, auth.Object{Tool: name})
	})
}

// AddDynamic adds to what is known of the tools of a definition those that its
// scripts may call by a name that only a run comes to, and that may be called.
// Their schemas are not needed.
func AddDynamic(d *definitions.Definition, all []backends.Tool, tools map[string]definitions.Tool, may func(name string) bool) {
	patterns := d.ToolPatterns()
	if patterns == nil {
		return
	}
	for _, t := range all {
		before, known := tools[t.Name]
		known = known && !before.ForProbe
		matches := definitions.MatchesTool(patterns, t.Name) || definitions.MatchesTool(patterns, t.Backend+"."+t.Original)
		if known || !matches || !may(t.Name) {
			continue
		}
		tool := stepTool(t)
		tool.InputSchema, tool.OutputSchema, tool.Annotations, tool.Description = nil, nil, nil, ""
		tools[t.Name] = tool
	}
}

var (
	errToolGone  = errors.New("no backend offers it at the moment")
	errKeyReused = errors.New("the idempotency key was used before for a call with other arguments: use a new key")
)

const badState = "requestState is not valid for this call, or has expired: repeat the request with the arguments that it had"

// unknownKeys gives all questions a reason to be asked again, if one of the
// responses is to none of them: it could be meant for any.
func (st *state) unknownKeys(given map[string]json.RawMessage) (reasons map[string]string) {
	reasons = map[string]string{}
	known, asked := map[string]bool{}, []string{}
	for gate, askings := range st.Asked {
		for asking := range askings {
			known[questionKey(gate, asking+1)] = true
		}
		asked = append(asked, questionKey(gate, askings))
	}
	slices.Sort(asked)
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if known[key] {
			continue
		}
		for gate := range st.Asked {
			reasons[gate] = fmt.Sprintf("inputResponses has an answer to %q, which is not asked; asked is %s", clipKey(key), strings.Join(asked, ", "))
		}
		break
	}
	return reasons
}

// clipKey shortens what a client calls a question.
func clipKey(key string) string {
	if len(key) > maxKey {
		return strings.ToValidUTF8(key[:maxKey], "") + "…"
	}
	return key
}

// nextRound goes on with a call whose client was asked something by
// input_required: it takes the answers and renders what follows.
func (g *Gateway) nextRound(ctx context.Context, x *exchange) {
	var st state
	err := g.tokens.open(statePurpose, x.params.RequestState, x.principal, &st)
	if err != nil || st.Tool != x.params.Name || st.Arguments != x.arguments {
		g.log.DebugContext(ctx, "refusing a request state", "error", err)
		x.fail(mcp.INVALID_PARAMS, badState)
		return
	}
	reasons, pages := st.unknownKeys(x.params.InputResponses), map[string]string{}
	for _, gate := range slices.Sorted(maps.Keys(st.Asked)) {
		raw, _, ok := answerTo(gate, st.Asked[gate], x.params.InputResponses)
		if !ok || reasons[gate] != "" {
			continue
		}
		if slices.Contains(st.URLs, gate) {
			pages[gate] = actionOf(raw)
			continue
		}
		var invalid *runs.InvalidAnswerError
		switch err := g.answer(ctx, x.client, st.Run, about{gate: gate, what: st.Asks[gate]}, raw); {
		case errors.As(err, &invalid):
			reasons[gate] = invalid.Reason
		case errors.Is(err, runs.ErrUnavailable):
			g.failed(x, st.Run, err)
			return
		case err != nil && !errors.Is(err, runs.ErrNoSuchGate) && !errors.Is(err, runs.ErrNotPermitted):
			x.respond("", g.finish(x.client, trouble(st.Run, err)))
			return
		}
	}
	if st.Owner == "" && st.Tool != awaitTool && x.bind(st.Run) {
		g.cancelRun(ctx, st.Run)
	}
	if st.Owner != "" && st.Tool == awaitTool {
		x.watch()
	}
	g.served.begin(st.Run, x)
	if x.dialect.sendsAgain() && x.ends != "" {
		x.joined = g.attend(ctx, st.Run, x.name, runs.Joined)
	}
	at := x.cursorFor(runs.Started{ID: st.Run, Attached: st.Attached})
	at.Seq, at.Asked, at.Owner = st.Seq, st.Asked, st.Owner
	g.follows(ctx, x, at, manner{goesOn: true, reasons: reasons, pages: pages})
}

// The actions of an answer.
const (
	accept  = "accept"
	decline = "decline"
	cancel  = "cancel"
)

// About is what a client answers.
type about struct {
	gate string // the elicitation
	what string // Elicitation.Question, as the client was asked; "" = what is asked now
	name string // of the question; "" = it has none
}

// answer gives a client's answer to an elicitation on. That somebody else's
// came first is no error. What the run itself says of its caller counts: a token
// may be older than the run, where a business key gave two the same ID.
func (g *Gateway) answer(ctx context.Context, c *client, run runs.RunID, to about, raw json.RawMessage) error {
	of, err := g.permitted(ctx, c.who, auth.Answer, run)
	if err != nil {
		return err
	}
	action, content, ok := givenAnswer(raw)
	if !ok {
		return &runs.InvalidAnswerError{Reason: "the answer is not an object with an action"}
	}
	answer := runs.Answer{ElicitationID: to.gate, Question: to.what, Action: action, By: c.caller.Subject, Via: runs.ViaForm, Asked: to.name, Allowed: func(e runs.Elicitation) bool {
		return g.opts.Policy.May(c.who, auth.Answer, auth.Object{Tool: of.Tool, Owner: of.Caller, Approvers: e.Approvers})
	}}
	switch action {
	case accept:
		answer.Content = orEmpty(content)
	case decline, cancel:
	default:
		return &runs.InvalidAnswerError{Reason: "the action must be accept, decline or cancel"}
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	decision, err := g.opts.Runs.Answer(ctx, run, answer)
	switch {
	case errors.Is(err, runs.ErrUnchecked), errors.Is(err, runs.ErrQuarantined): // the run tells that it waits
		g.log.WarnContext(ctx, "an answer does not count yet", "run", run, "elicitation", to.gate, "by", answer.By, "error", err)
		return nil
	case err == nil && !decision.Won:
		g.log.InfoContext(ctx, "an answer came too late", "run", run, "elicitation", to.gate, "by", answer.By, "won", decision.By)
	}
	return err
}
