// Package gateway serves MCP clients: any client can call a composite tool and get its
// result.
//
// A composite call is a run that lives elsewhere (Runs). What happens here is
// translation: a call starts a run, and the events of the run become the messages that
// its client understands.
//
//	client                                what it sees while the run is under way
//	2025-11-25 and before, can be asked   one SSE stream: progress, elicitation/create, the result;
//	                                      resumable by Last-Event-ID
//	2026-07-28, can be asked              progress, then input_required with a requestState; the
//	                                      retry brings the answers
//	either, cannot be asked               after some patience a handle on the run, and tools with
//	                                      which a model waits for it
//	2025-11-25, wants a task              a task at once, then tasks/get, and tasks/result as the stream
//	2026-07-28, takes tasks               after a moment or at an elicitation a task, then tasks/get and
//	                                      tasks/update
//
// Nothing that a later request needs is kept in memory. Session ids, event ids,
// elicitation ids, request states and task IDs are signed tokens that name what they
// represent, so any replica with the same key can continue where another one stopped.
//
// The protocol itself (handshakes, header checks, subscriptions) is mcp-go in
// stateless mode; lists and calls of tools write their answer past it, so that tools
// are encoded once, results are exact and each message goes out on the stream of its
// call.
package gateway

import (
	"context"
	"io"
	"net/http"
	"slices"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway/auth"
)

// A Gateway is an MCP server whose tools are composite tools and the tools of
// the backends. It is safe for concurrent use.
//
// It is made of parts that each own their state:
//
//	endpoint, stdio       where messages come in; admission says which are taken
//	requests              a call, from its name to the part that answers it
//	toolset, rights       what there is to call, and who may
//	composites            calls of composite tools: starts and joins have a run,
//	                      streams answer from its events
//	tasks                 the same runs, for clients that poll
//	proxy                 calls of backend tools
//	runTools, scripts     the tools that are built in
//	calls, questions      what is open at clients: calls to cancel, questions to answer
//	served, attendance,   whether a run has a client, on whichever replica, and had its
//	disconnects, deliveries answer
//
// assembly.go puts them together.
type Gateway struct {
	tools      *toolset
	rights     *rights
	endpoint   *endpoint
	stdio      *stdio
	publishing *publishing  // nil = there is no registry
	metadata   http.Handler // nil = there is none
	deliveries *deliveries
	drain      *drain
}

// New makes a gateway without composite tools; SetOffers gives it some.
func New(opts Options) (*Gateway, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	scope := opts.cacheScope()
	a := &assembly{Options: opts.withDefaults()}
	a.begin()
	a.follow()
	a.answer()
	a.offer()
	return a.serve(scope), nil
}

// Handler serves MCP over streamable HTTP at /mcp, Options.Metadata, and at
// RegistryPrefix what Options.Registry has. It wants a web.Server around it, which
// knows who may send requests, and has no WriteTimeout.
func (g *Gateway) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", g.endpoint.serve)
	if g.publishing != nil {
		g.publishing.handle(mux)
	}
	if g.metadata != nil {
		mux.Handle(auth.WellKnown, g.metadata)
		mux.Handle(auth.WellKnown+"/", g.metadata)
	}
	return mux
}

// ServeStdio serves one client of either era on in and out until in ends or ctx ends.
// Calls that are under way then are given up, and their runs continue. A line that is
// too long, or of too many values, is refused.
func (g *Gateway) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	return g.stdio.serve(ctx, in, out)
}

// SetOffers replaces the composite tools. Those that cannot be offered now are
// kept and offered when the catalogue has their tools.
func (g *Gateway) SetOffers(offers []Offer) {
	g.tools.offer(offers)
}

// Composites are all composite tools in the order in which they were given.
func (g *Gateway) Composites() []Composite { return slices.Clone(g.tools.now().all) }

// MayKnow reports whether an identity may know that a composite tool exists: it may
// call or publish it, or see runs of it that others have started.
func (g *Gateway) MayKnow(who auth.Identity, d *definitions.Definition) bool {
	return g.rights.mayKnow(who, d)
}

// Drain asks every open stream to end: those that can be resumed are cut, so that their
// clients come back to another replica; calls of other clients are answered with a
// handle on their run. It returns at once, and the requests end shortly after; runs
// continue.
func (g *Gateway) Drain() { g.drain.begin() }

// Close waits until all replicas can know what was answered here, for a few seconds at
// most. It comes after the last request has ended.
func (g *Gateway) Close() { g.deliveries.wait() }
