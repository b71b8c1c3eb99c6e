package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/runs"
)

// startOrAttach starts the run of a call, unless it is there already. There are
// three ways in which a call is the same as one before: it has the same key; it
// is the same request of a session, which the transport sent again; or, within
// Options.ReattachWindow, somebody repeats what is still under way.
func (g *Gateway) startOrAttach(ctx context.Context, x *exchange, req runs.StartRequest) (runs.Started, error) {
	key, err := req.Definition.Key(req.Arguments)
	switch {
	case err != nil:
		return runs.Started{}, err
	case key != "":
		return g.startOne(ctx, x, req, key)
	case x.params.Meta.IdempotencyKey != "":
		req.ID = derivedID(req.Definition.Name, "key", x.principal, x.params.Meta.IdempotencyKey)
		req.Request = x.requestName()
	case g.opts.ReattachWindow > 0:
		req.Request = x.requestName()
		return g.startOrJoin(ctx, x, req)
	case x.session != nil:
		req.ID = g.sessionRunID(req.Definition.Name, x.client, x.id)
	}
	started, err := g.opts.Runs.Start(ctx, req)
	if err != nil || !started.Attached {
		return started, err
	}
	return g.attach(ctx, x, req, started)
}

// startOne starts the run that all calls with a business key mean, or joins it as
// far as the caller may see it, and it is for the same arguments: whoever called
// first would otherwise decide what is done for everybody else. A call that is
// repeated, by its own key or by the transport, is not a second one.
func (g *Gateway) startOne(ctx context.Context, x *exchange, req runs.StartRequest, key string) (runs.Started, error) {
	req.ID = derivedID(req.Definition.Name, "business", key)
	req.Request = x.requestName()
	if mine := x.params.Meta.IdempotencyKey; mine != "" {
		req.Request = encode64(digest("request", x.principal, mine)[:15])
	}
	started, err := g.opts.Runs.Start(ctx, req)
	if err != nil || !started.Attached {
		return started, err
	}
	run, err := g.opts.Runs.Show(ctx, started.ID)
	if err != nil {
		return started, err
	}
	if run.Caller != x.caller.Subject {
		started.Owner = run.Caller
	}
	again := started.Owner == "" && req.Request != "" && run.Request == req.Request
	switch {
	case !g.may(x.who, auth.See, &run.Run):
		return runs.Started{}, &runs.Error{Code: "duplicate", Category: "validation",
			Message: "somebody else has called " + x.params.Name + " for the same thing, and you may not see that run"}
	case req.Definition.OnDuplicate == definitions.Reject && !again:
		return runs.Started{}, &runs.Error{Code: "duplicate", Category: "validation", RunID: string(run.ID),
			Message: fmt.Sprintf("%s was called for the same thing before: the run is %s", x.params.Name, run.Status)}
	case !sameJSON(run.Arguments, req.Arguments):
		return runs.Started{}, &runs.Error{Code: "key_reused", Category: "validation", RunID: string(run.ID),
			Message: fmt.Sprintf("%s was called for the same thing before (businessKey), with other arguments; nothing was started: call it with those of that run, or for another thing", x.params.Name)}
	}
	return started, nil
}

// sessionRunID is the ID of the run that a request of a session started.
func (g *Gateway) sessionRunID(tool string, c *client, request json.RawMessage) runs.RunID {
	return derivedID(tool, "session", c.principal, c.scope, string(request))
}

// requestName is the name by which a replica that hears of a cancellation finds
// the run that the request waits for, where sessionRunID is not its ID; "" for
// requests that are not cancelled by id, or only where they are handled.
func (x *exchange) requestName() string {
	if x.session == nil || !x.overHTTP {
		return ""
	}
	return requestName(x.client, x.id)
}

func requestName(c *client, id json.RawMessage) string {
	return encode64(digest("request", c.principal, c.scope, string(id))[:15])
}

// attach makes sure that a run which was there already is that of the same
// call, and not of another one for which the client used the same id.
func (g *Gateway) attach(ctx context.Context, x *exchange, req runs.StartRequest, started runs.Started) (runs.Started, error) {
	run, err := g.opts.Runs.Show(ctx, started.ID)
	if err != nil {
		return started, err
	}
	switch {
	case run.Caller == x.caller.Subject && sameJSON(run.Arguments, req.Arguments) && (x.params.Name != scriptTool || run.Digest == req.Definition.Digest()):
		g.join(ctx, &run.Run, req.Request)
		return started, nil
	case x.params.Meta.IdempotencyKey != "":
		return started, errKeyReused
	}
	req.ID, req.Request = "", x.requestName()
	return g.opts.Runs.Start(ctx, req)
}

// join lets a run know of another request that waits for it.
func (g *Gateway) join(ctx context.Context, run *runs.Run, request string) {
	if request == "" || run.Closed != nil || run.Request == request {
		return
	}
	if err := g.opts.Runs.Attach(ctx, run.ID, request); err != nil {
		g.log.WarnContext(ctx, "a call that joined a run can be cancelled only here", "run", run.ID, "error", err)
	}
}

func sameJSON(a, b json.RawMessage) bool {
	x, errX := canonical(a)
	y, errY := canonical(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func canonical(raw json.RawMessage) (json.RawMessage, error) {
	v, err := template.DecodeValue(orEmpty(raw))
	if err != nil {
		return nil, err
	}
	return template.EncodeValue(v)
}

// Limits of looking for a run that is under way.
const (
	maxWindow  = 12 * time.Hour         // of Options.ReattachWindow: less than half of what Temporal keeps at least
	minEra     = time.Hour              // that the runs of a call are counted in
	eraPause   = 500 * time.Millisecond // at the beginning of an era, for clocks that differ and starts that are on their way
	maxAtOnce  = 50                     // runs of one call that others start while it is looked for one
	farthestNo = 1 << 20                // runs of one call in an era
)

// startOrJoin starts a run, unless the same call is under way.
//
// The runs of a call are numbered, and their IDs derive from the call, the era
// of the clock and the number. So replicas that get the same call at once try
// the same ID, and only one of them starts a run. Temporal's index is not asked:
// it lags behind, and servers let it be asked a few times in a second only.
func (g *Gateway) startOrJoin(ctx context.Context, x *exchange, req runs.StartRequest) (runs.Started, error) {
	arguments, err := canonical(req.Arguments)
	if err != nil {
		return runs.Started{}, err
	}
	same := []string{"call", x.principal, x.params.Name, string(arguments)}
	if version := x.params.Meta.Version; version != "" {
		same = append(same, version)
	}
	if x.params.Name == scriptTool {
		same = append(same, req.Definition.Digest())
	}
	a := again{g: g, tool: req.Definition.Name, request: req.Request, length: max(g.opts.ReattachWindow, minEra),
		call: encode64(digest(same...)[:15])}
	if err := a.arrive(ctx); err != nil {
		return runs.Started{}, err
	}
	if a.intoEra() < g.opts.ReattachWindow {
		if _, last, err := a.latest(ctx, a.era-1); err != nil || a.repeats(last) {
			return g.joined(ctx, last, req.Request, err)
		}
	}
	next, last, err := a.latest(ctx, a.era)
	if err != nil || a.repeats(last) {
		return g.joined(ctx, last, req.Request, err)
	}
	for no := next; no < next+maxAtOnce; no++ {
		req.ID = a.id(a.era, no)
		started, err := g.opts.Runs.Start(ctx, req)
		if err != nil || !started.Attached {
			return started, err
		}
		if last, err := g.opts.Runs.Get(ctx, req.ID); err != nil || a.repeats(last) {
			return g.joined(ctx, last, req.Request, err)
		}
	}
	return runs.Started{}, fmt.Errorf("%s is called so often that its runs cannot be told apart: %w", a.tool, runs.ErrUnavailable)
}

// joined is what a call gets that joins a run.
func (g *Gateway) joined(ctx context.Context, run *runs.Run, request string, err error) (runs.Started, error) {
	if err != nil {
		return runs.Started{}, err
	}
	g.join(ctx, run, request)
	return runs.Started{ID: run.ID, Attached: true}, nil
}

// An again is a call that may be there already.
type again struct {
	g          *Gateway
	tool, call string
	request    string // that makes it; "" = one without a session
	arrived    time.Time
	era        int64
	length     time.Duration // of an era
}

// arrive notes when the call came. At the beginning of an era it waits a moment,
// so that it sees what replicas with other clocks have started in the one before.
func (a *again) arrive(ctx context.Context) error {
	a.arrived = a.g.tokens.now()
	a.era = a.arrived.UnixNano() / int64(a.length)
	if into := a.intoEra(); into < eraPause {
		select {
		case <-time.After(eraPause - into):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (a *again) intoEra() time.Duration {
	return a.arrived.Sub(time.Unix(0, a.era*int64(a.length)))
}

func (a *again) id(era int64, no int) runs.RunID {
	return derivedID(a.tool, "call", a.call, fmt.Sprint(era), fmt.Sprint(no))
}

// latest finds the number that the next run of an era has, and the last run; nil
// = there is none.
func (a *again) latest(ctx context.Context, era int64) (next int, last *runs.Run, err error) {
	there := func(no int) bool {
		if err != nil {
			return false
		}
		var run *runs.Run
		run, err = a.g.opts.Runs.Get(ctx, a.id(era, no))
		if errors.Is(err, runs.ErrNotFound) {
			err = nil
			return false
		}
		if err == nil && no >= next {
			next, last = no+1, run
		}
		return err == nil
	}
	step := 1
	for step < farthestNo && there(step-1) {
		step *= 2
	}
	for low, high := next, step-1; low < high; {
		if middle := low + (high-low)/2; there(middle) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return next, last, err
}

// repeats reports whether the call repeats the one of a run: the transport sent
// it again, or the run was young and under way when it came.
func (a *again) repeats(run *runs.Run) bool {
	if run == nil {
		return false
	}
	if a.request != "" && run.Request == a.request {
		return true
	}
	open := run.Closed == nil || run.Closed.After(a.arrived)
	return open && a.arrived.Sub(run.Started) <= a.g.opts.ReattachWindow
}
