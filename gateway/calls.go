package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/runs"
)

// Calls are the calls under way in this process, for clients that cancel them.
type calls struct {
	runs         Runs
	tools        *toolset
	onDisconnect definitions.OnDisconnect // where a definition has none; "" = definitions.CancelRun
	searches     counter                  // for the runs of cancelled requests
	log          *slog.Logger

	mu   sync.Mutex
	open map[string]*exchange
}

// begin enters a call, unless that was done when it came in; what it returns takes
// it out again.
func (cs *calls) begin(x *exchange) (end func()) {
	if x.done != nil {
		return func() {}
	}
	x.done = make(chan struct{})
	if x.scope == "" {
		return func() {}
	}
	key := callKey(x.scope, x.id)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.open == nil {
		cs.open = map[string]*exchange{}
	}
	cs.open[key] = x
	return func() {
		cs.mu.Lock()
		defer cs.mu.Unlock()
		if cs.open[key] == x {
			delete(cs.open, key)
		}
	}
}

func (cs *calls) find(scope string, id json.RawMessage) *exchange {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.open[callKey(scope, id)]
}

func callKey(scope string, id json.RawMessage) string { return scope + " " + string(id) }

// cancelled takes notifications/cancelled. What the client gives as its reason is
// never read: a library that has waited for as long as it waits cancels, too. The
// call may be on another replica, or its stream may have broken: what it started
// is then found by the ID that it was given, or by the request.
func (cs *calls) cancelled(ctx context.Context, c *client, p *params) {
	if isNull(p.RequestID) || len(p.RequestID) > maxID {
		return
	}
	x := cs.find(c.scope, p.RequestID)
	if x != nil && !c.overHTTP {
		x.out.cut() // a request that was cancelled gets no response
	}
	if x != nil {
		cs.cancelRun(ctx, x.cancel())
		return
	}
	if c.session == nil {
		return
	}
	ctx, done := detached(ctx)
	defer done()
	for name := range cs.tools.now().definitions() {
		if cs.cancelCalled(ctx, sessionRunID(name, c, p.RequestID)) {
			return
		}
	}
	leave, ok := cs.searches.enter(c.callerID, maxSearches)
	if !ok {
		cs.log.InfoContext(ctx, "not searching the run of a cancelled request: too many searches for its caller", "caller", c.caller.Subject)
		return
	}
	go func() {
		defer leave()
		cs.cancelByRequest(context.WithoutCancel(ctx), c.dialect.requestName(c, p.RequestID))
	}()
}

// maxSearches bounds the cancelled requests of one caller that are looked for in the
// index at a time. Their clients do not wait for it, so that no other quota does.
const maxSearches = 10

// searchPauses are when the index is asked for the run of a request, which it may
// not know yet.
var searchPauses = []time.Duration{0, 200 * time.Millisecond, time.Second, 2 * time.Second}

// cancelByRequest cancels the run that a request waits for, if there is one.
func (cs *calls) cancelByRequest(ctx context.Context, request string) {
	ctx, done := detached(ctx)
	defer done()
	for _, pause := range searchPauses {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		found, err := cs.runs.List(ctx, runs.Filter{Request: request, Limit: 1})
		if err != nil {
			cs.log.WarnContext(ctx, "cannot find the run of a cancelled request", "error", err)
		}
		if len(found) > 0 && cs.cancelCalled(ctx, found[0].ID) {
			return
		}
	}
}

// cancelCalled cancels a run that another replica started, or an earlier request, unless
// it is to continue. Its own definition counts: what this replica offers by the name may
// be another version, and a script that was sent is offered nowhere.
func (cs *calls) cancelCalled(ctx context.Context, id runs.RunID) (found bool) {
	run, err := cs.runs.Show(ctx, id)
	if errors.Is(err, runs.ErrNotFound) {
		return false
	}
	if err != nil {
		cs.log.WarnContext(ctx, "cannot read the run of a cancelled request", "run", id, "error", err)
		return false
	}
	if !cs.outlive(run.OnDisconnect) {
		cs.cancelRun(ctx, id)
	}
	return true
}

func (cs *calls) cancelRun(ctx context.Context, run runs.RunID) {
	if run == "" {
		return
	}
	ctx, done := detached(ctx)
	defer done()
	if err := cs.runs.Cancel(ctx, run, cancelReason); err != nil {
		cs.log.WarnContext(ctx, "cannot cancel a run", "run", run, "error", err)
	}
}

const cancelReason = "cancelled by the client that called it"

// outlive reports whether runs continue when their client is gone, by what their
// definition says.
func (cs *calls) outlive(then definitions.OnDisconnect) bool {
	return cmp.Or(then, cs.onDisconnect) == definitions.ContinueRun
}
