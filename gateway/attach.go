package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/perdure/perdure/definitions"
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
		req.ID = derivedID(x.params.Name, "key", x.principal, x.params.Meta.IdempotencyKey)
		req.Request = x.requestName()
	case g.opts.ReattachWindow > 0:
		req.Request = x.requestName()
		return g.startOrJoin(ctx, x, req)
	case x.session != nil:
		req.ID = g.sessionRunID(x.params.Name, x.client, x.id)
	}
	started, err := g.opts.Runs.Start(ctx, req)
	if err != nil || !started.Attached {
		return started, err
	}
	return g.attach(ctx, x, req, started)
}

// startOne starts the run that all calls with a business key mean, or joins it as
// far as the caller may see it. A call that is repeated, by its own key or by the
// transport, is not a second one.
func (g *Gateway) startOne(ctx context.Context, x *exchange, req runs.StartRequest, key string) (runs.Started, error) {
	req.ID = derivedID(x.params.Name, "business", key)
	req.Request = x.requestName()
	if mine := x.params.Meta.IdempotencyKey; mine != "" {
		req.Request = encode64(digest("request", x.principal, mine)[:15])
	}
	started, err := g.opts.Runs.Start(ctx, req)
	if err != nil || !started.Attached {
		return started, err
	}
	run, err := g.opts.Runs.Get(ctx, started.ID)
	if err != nil {
		return started, err
	}
	if run.Caller != x.caller.Subject {
		started.Owner = run.Caller
	}
	again := started.Owner == "" && req.Request != "" && run.Request == req.Request
	switch {
	case !g.may(x.who, auth.See, run):
		return runs.Started{}, &runs.Error{Code: "duplicate", Category: "validation",
			Message: "somebody else has called " + x.params.Name + " for the same thing, and you may not see that run"}
	case req.Definition.OnDuplicate == definitions.Reject && !again:
		return runs.Started{}, &runs.Error{Code: "duplicate", Category: "validation", RunID: string(run.ID),
			Message: fmt.Sprintf("%s was called for the same thing before: the run is %s", x.params.Name, run.Status)}
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
	case run.Caller == x.caller.Subject && sameJSON(run.Arguments, req.Arguments):
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
		g.log.Warn("a call that joined a run can be cancelled only here", "run", run.ID, "error", err)
	}
}

func sameJSON(a, b json.RawMessage) bool {
	x, errX := canonical(a)
	y, errY := canonical(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func canonical(raw json.RawMessage) (json.RawMessage, error) {
	v, err := definitions.DecodeValue(orEmpty(raw))
	if err != nil {
		return nil, err
	}
	return definitions.EncodeValue(v)
}

// Limits of looking for a run that is under way.
const (
	latestRuns = 20 // of one call that the index is asked for
	maxChain   = 50 // runs of one call that the index may not know yet
)

// startOrJoin starts a run, unless the same call is under way.
//
// The runs of a call form a chain, in which the ID of each derives from the one
// before. The index tells where the chain ends, but late; from there on the IDs
// themselves are tried. So replicas that get the same call at once try the same
// ID, and only one of them starts a run.
func (g *Gateway) startOrJoin(ctx context.Context, x *exchange, req runs.StartRequest) (runs.Started, error) {
	arrived := time.Now()
	arguments, err := canonical(req.Arguments)
	if err != nil {
		return runs.Started{}, err
	}
	req.Call = encode64(digest("call", x.principal, x.params.Name, string(arguments))[:15])
	known, err := g.opts.Runs.List(ctx, runs.Filter{Call: req.Call, Limit: latestRuns})
	if err != nil {
		return runs.Started{}, err
	}
	var last runs.RunID
	for _, run := range known {
		if last == "" {
			last = run.ID
		}
		if g.repeats(&run, req.Request, arrived) {
			if started, joined, err := g.joinKnown(ctx, run.ID, req.Request, arrived); joined || err != nil {
				return started, err
			}
		}
	}
	for range maxChain {
		req.ID = derivedID(x.params.Name, "call", req.Call, string(last))
		started, err := g.opts.Runs.Start(ctx, req)
		if err != nil || !started.Attached {
			return started, err
		}
		if started, joined, err := g.joinKnown(ctx, req.ID, req.Request, arrived); joined || err != nil {
			return started, err
		}
		last = req.ID
	}
	return runs.Started{}, fmt.Errorf("%s is called so often that its runs cannot be told apart: %w", x.params.Name, runs.ErrUnavailable)
}

// joinKnown joins a run if the call repeats it, by what is known of it now.
func (g *Gateway) joinKnown(ctx context.Context, id runs.RunID, request string, arrived time.Time) (runs.Started, bool, error) {
	run, err := g.opts.Runs.Get(ctx, id)
	if err != nil || !g.repeats(run, request, arrived) {
		return runs.Started{}, false, err
	}
	g.join(ctx, run, request)
	return runs.Started{ID: id, Attached: true}, true, nil
}

// repeats reports whether a call that arrived then repeats the one of a run:
// the transport sent it again, or the run was young and under way.
func (g *Gateway) repeats(run *runs.Run, request string, arrived time.Time) bool {
	if request != "" && run.Request == request {
		return true
	}
	open := run.Closed == nil || run.Closed.After(arrived)
	return open && arrived.Sub(run.Started) <= g.opts.ReattachWindow
}
