package gateway

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/runs"
)

// Streams answer calls from the events of their runs.
type streams struct {
	runs       Runs
	rights     *rights
	tools      *toolset
	results    *results
	views      *taskViews
	questions  *questions
	attendance *attendance
	deliveries *deliveries
	deposits   *deposits
	tokens     *sealer
	timing     Timing
	drain      *drain
	log        *slog.Logger
}

// render answers a call from the events of a run.
func (ss *streams) render(ctx context.Context, x *exchange, at cursor, how renderOptions) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := newStream(&rendering{on: ss, x: x, at: at, renderOptions: how})
	defer s.asker.close()
	defer s.report.stop()
	// Those who see the stream open may answer what was asked on the one before.
	err := s.catchUp(ctx)
	s.x.dialect.prime(s.rendering)
	if errors.Is(err, runs.ErrNotFound) {
		s.finish(errorResult(at.Run, err), "unknown")
		return
	}
	if !s.ask() && !(s.isLate() && s.giveHandle()) {
		s.run(ctx)
	}
}

// RenderOptions set how a run is rendered, beyond what the client is.
type renderOptions struct {
	resumed  bool              // there was a stream before this one; the cursor reports how far it came
	run      *runs.Run         // with resumed, as it was a moment ago; nil = it is read
	patience *time.Duration    // nil = Options.Patience, for clients that cannot be asked
	reasons  map[string]string // why answers in this request were not taken, by elicitation
	pages    map[string]string // the client's answer to opening the page, by elicitation
	answered map[string]bool   // elicitations that the client has answered, though no worker has taken the answer yet
	task     string            // ID of the task whose tasks/result this is; "" = a call's
}

// A rendering is the answer to one call: whose it is, how it is given, and how far it
// has come.
type rendering struct {
	on *streams
	x  *exchange
	at cursor // what the id of the next event has
	renderOptions
}

// place is the id of the next event.
func (r *rendering) place() string { return r.x.dialect.place(r) }

// notify sends a notification on the stream of the call.
func (r *rendering) notify(method mcp.MCPMethod, params any) { r.x.notify(r.place(), method, params) }

// finish sends the response.
func (r *rendering) finish(res *result, status string) { r.answer(res, runState{Status: status}) }

// answer sends the response, with the state of the run.
func (r *rendering) answer(res *result, state runState) {
	state.ID, state.Attached = r.at.Run, r.at.Attached
	res.set(metaRun, state)
	for key, value := range r.taskMeta() {
		res.set(key, value)
	}
	r.x.respond(r.place(), r.on.results.finish(r.x.client, res))
}
