package gateway

import (
	"context"
	"slices"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/visible"
)

// Credentials is what the gateway wants of the credentials of backends;
// *credentials.Broker has it.
type Credentials interface {
	// Deposit leaves what runs of a caller need at backends: at those that are
	// named, and at those for which runs of the caller wait. It gives the ones
	// of both that can be called now, and those of them for which runs waited.
	Deposit(ctx context.Context, who backends.Principal, needed []string) (good, given []string)
}

// maxTold bounds the runs that are told of a credential. The others find out
// by themselves.
const maxTold = 1000

// behalf is on whose behalf backends are called in a request.
func behalf(who auth.Identity) backends.Principal {
	return backends.Principal{Name: who.Principal(), Token: backends.Secret(who.Token), Expires: who.Expires}
}

// backendsOf are the backends of the tools of a definition, and of those of the
// definitions that it calls.
func (g *Gateway) backendsOf(d *definitions.Definition, tools map[string]definitions.Tool) []string {
	var names []string
	for _, t := range tools {
		names = append(names, t.Backend)
	}
	called, _ := d.Called(g.listing.Load().find)
	for _, other := range called {
		for _, name := range other.ToolNames() {
			if t, ok := g.findTool(name); ok {
				names = append(names, t.Backend)
			}
		}
	}
	return names
}

// leaveCredentials makes of a request's token what runs of its sender need,
// which may outlive the request, and has those that wait for it go on. It gives
// the backends that can be called now, of those that are needed.
func (g *Gateway) leaveCredentials(ctx context.Context, who auth.Identity, needed ...string) (good []string) {
	if g.opts.Credentials == nil || who.Token == "" {
		return nil
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	good, given := g.opts.Credentials.Deposit(ctx, behalf(who), needed)
	if len(given) > 0 {
		go g.tellRuns(who.Principal(), given)
	}
	return good
}

// tellRuns has the runs of a caller go on that wait for credentials of
// backends.
func (g *Gateway) tellRuns(caller string, given []string) {
	ctx, cancel := detached(context.Background())
	defer cancel()
	waiting, err := g.opts.Runs.List(ctx, runs.Filter{Caller: caller, Waiting: true, Limit: maxTold})
	if err != nil {
		g.log.Warn("looking for runs that wait for credentials; they look themselves from time to time", "error", err)
		return
	}
	for _, run := range waiting {
		for _, e := range run.Open() {
			if run.Caller == caller && e.Kind == runs.Credentials && slices.Contains(given, e.Backend) {
				g.tellRun(ctx, caller, run.ID, e.ID)
			}
		}
	}
}

func (g *Gateway) tellRun(ctx context.Context, caller string, run runs.RunID, elicitation string) {
	_, err := g.opts.Runs.Answer(ctx, run, runs.Answer{ElicitationID: elicitation, Action: accept, By: caller, Via: runs.ViaRequest})
	if err != nil { // most likely it went on by itself
		g.log.Debug("telling a run that credentials were given", "run", run, "elicitation", elicitation, "error", err)
	}
}

// bringCredentials tries, once for each backend, whether the token of the
// request gives a run of its sender what it waits for.
func (s *stream) bringCredentials(e runs.Elicitation) {
	own := s.at.Owner == "" || s.at.Owner == s.x.caller.Subject
	if e.Kind != runs.Credentials || !own || s.brought[e.Backend] || s.g.opts.Credentials == nil {
		return
	}
	if s.brought == nil {
		s.brought = map[string]bool{}
	}
	s.brought[e.Backend] = true
	go func(g *Gateway, who auth.Identity, run runs.RunID) {
		ctx, cancel := detached(context.Background())
		defer cancel()
		if slices.Contains(g.leaveCredentials(ctx, who, e.Backend), e.Backend) {
			g.tellRun(ctx, who.Principal(), run, e.ID)
		}
	}(s.g, s.x.who, s.at.Run)
}

// waitsFor says what a run waits for, to whoever follows it.
func waitsFor(e runs.Elicitation) string {
	if e.Kind == runs.Credentials {
		return "needs credentials: " + visible.Text(e.Message)
	}
	return "waiting for an answer: " + visible.Text(e.Message)
}
