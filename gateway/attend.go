package gateway

import (
	"context"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/runs"
)

// Replicas find out by the run itself which of them has a client that waits for
// it: a request that comes (Joined), or whose client is gone (Leaving), says so in
// the history of the run, and all who follow the run for a client say that they
// are there (Here). One that was killed says nothing.
const (
	// rollCall is how long a request waits for others to say that they are there.
	rollCall = time.Second
	// stale is how old what a request says may be to be answered. Others have
	// decided by then; the clocks of Temporal and of replicas may differ by less.
	stale = 30 * time.Second
)

// attend has a run note how a request stands to it.
func (g *Gateway) attend(ctx context.Context, id runs.RunID, name string, says runs.Attendance) (noted bool) {
	noted, err := g.opts.Runs.Attach(ctx, id, runs.Attended{Request: name, Says: says})
	if err != nil {
		g.log.WarnContext(ctx, "telling a run who waits for it", "run", id, "error", err)
	}
	return noted
}

// respondsTo says that a request is there, if others ask for that. A client that
// comes is answered by those whose client waits; one that leaves also by those
// who wait for theirs to come back.
func (g *Gateway) respondsTo(ctx context.Context, id runs.RunID, name string, e runs.Event) {
	asks := e.Kind == runs.EventAttended && (e.Attended.Says == runs.Joined || e.Attended.Says == runs.Leaving)
	if asks && e.Attended.Request != name && g.tokens.now().Sub(e.At) < stale && g.served.responds(id, e.Seq) {
		g.attend(ctx, id, name, runs.Here)
	}
}

// A claimed is what comes of a claim.
type claimed int

const (
	free  claimed = iota // nobody waits for the run, and it was not answered
	taken                // somebody does, or it was
	ended                // the run has ended meanwhile
)

// claim joins a request to a run that is under way, unless another replica has a
// client that waits for it, or it was answered before. Requests of this replica
// do it one after the other; one whose client is gone by then does not.
func (g *Gateway) claim(ctx context.Context, x *exchange, id runs.RunID) (claimed, error) {
	leave, err := g.turns.take(x.here, id)
	if err != nil {
		return free, err
	}
	defer leave()
	if g.served.settled(id) {
		return taken, nil
	}
	noted, err := g.opts.Runs.Attach(ctx, id, runs.Attended{Request: x.name, Says: runs.Joined})
	if err != nil {
		return free, err
	}
	if !noted {
		run, err := g.opts.Runs.Get(ctx, id)
		if err != nil || run.Closed != nil {
			return ended, err
		}
		return free, nil // it has too much to note already; rather join than repeat
	}
	x.joined = true
	listening, cancel := context.WithTimeout(ctx, rollCall)
	defer cancel()
	mine := false
	for e, err := range g.opts.Runs.Follow(listening, id, 0) {
		if err != nil {
			break
		}
		switch {
		case e.Kind == runs.EventDone:
			return ended, nil
		case e.Kind != runs.EventAttended:
		case e.Attended.Says == runs.Answered, mine && e.Attended.Says == runs.Here && e.Attended.Request != x.name:
			return taken, nil
		case e.Attended.Request == x.name:
			mine = true
		case mine && x.isThere():
			g.respondsTo(ctx, id, x.name, e)
		}
	}
	return free, ctx.Err()
}

// wasAnswered reports whether a client was given an answer for a run that has
// ended: before its end, or its result. What was delivered just now may not be
// noted yet.
func (g *Gateway) wasAnswered(ctx context.Context, principal string, run *runs.Run) (bool, error) {
	for e, err := range g.opts.Runs.Follow(ctx, run.ID, 0) {
		if err != nil {
			return false, err
		}
		if e.Kind == runs.EventAttended && e.Attended.Says == runs.Answered {
			return true, nil
		}
	}
	since, noted := *run.Closed, time.Now().Add(rollCall)
	for pause := 20 * time.Millisecond; ; pause *= 2 {
		delivered, err := g.opts.Runs.Delivered(ctx, principal, run.ID, since)
		since = time.Now()
		if err != nil || delivered || since.After(noted) {
			return delivered, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// settle notes what has become of a request that waited for a run: its client
// was answered, or is gone.
func (g *Gateway) settle(ctx context.Context, x *exchange, id runs.RunID) {
	answered := x.wasAnswered()
	if !answered && x.leftByClient(g.draining) {
		g.stops.Go(func() { g.stopUnlessBack(context.WithoutCancel(ctx), x, id) })
	}
	known := g.served.end(id, answered, g.tokens.now(), g.opts.ReattachWindow)
	switch {
	case !answered && x.noted:
		g.deliveries.add(x.principal, runs.Delivery{Run: id, Lost: true})
	case !answered || !x.receipts || known || x.noted:
	case x.ended:
		g.deliveries.add(x.principal, runs.Delivery{Run: id})
	default:
		go func() {
			ctx, done := detached(ctx)
			defer done()
			if !g.attend(ctx, id, x.name, runs.Answered) {
				g.deliveries.add(x.principal, runs.Delivery{Run: id})
			}
		}()
	}
}

// stopUnlessBack ends a run whose client is gone and does not come back for a
// while, to whichever replica, unless another client waits for the run. A process
// that ends meanwhile ends no run.
func (g *Gateway) stopUnlessBack(ctx context.Context, x *exchange, id runs.RunID) {
	ctx, cancel := g.untilDrain(ctx)
	defer cancel()
	defer g.leavers.replace(id, cancel)()
	grace := time.NewTimer(g.opts.DisconnectGrace)
	defer grace.Stop()
	after := x.seen
	if x.joined {
		after = 0 // what was before its own note says nothing of who waits now
	}
	events, leaving, current := g.follow(ctx, id, after), false, !x.joined
	for {
		select {
		case f, ok := <-events:
			current = current || x.isJoining(f.event)
			switch {
			case !ok, f.err != nil, f.event.Kind == runs.EventDone, current && x.isReplaced(f.event, leaving):
				return
			case f.event.Kind == runs.EventAttended && f.event.Attended.Says == runs.Leaving:
				g.respondsTo(ctx, id, x.name, f.event)
			}
		case <-grace.C:
			if leaving {
				g.log.InfoContext(ctx, "ending a run whose client is gone", "run", id)
				g.cancelRun(ctx, id)
				return
			}
			if leaving = g.attend(ctx, id, x.name, runs.Leaving); !leaving {
				g.log.WarnContext(ctx, "the run of a client that is gone goes on: it has ended, or it cannot be known whether another waits for it", "run", id)
				return
			}
			grace.Reset(rollCall)
		case <-ctx.Done():
			return
		}
	}
}

// isJoining reports whether an event is the note that the request joined the run.
func (x *exchange) isJoining(e runs.Event) bool {
	return e.Kind == runs.EventAttended && e.Attended.Request == x.name && e.Attended.Says == runs.Joined
}

// isReplaced reports whether another request waits for the run now, or was
// answered: its client has come back, or was there and says so when this one
// leaves.
func (x *exchange) isReplaced(e runs.Event, leaving bool) bool {
	if e.Kind != runs.EventAttended || e.Attended.Request == x.name {
		return false
	}
	says := e.Attended.Says
	return says == runs.Joined || says == runs.Named || says == runs.Answered || leaving && says == runs.Here
}

// leftByClient reports whether the client has gone before it was answered, in a
// way that means in its era that the run is to end.
func (x *exchange) leftByClient(draining <-chan struct{}) bool {
	select {
	case <-draining:
		return false
	default:
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.modern && x.ends != "" && !x.ended && !x.outlives && !x.isCancelled() && (x.overHTTP || x.gaveUp)
}

// outlivesClient reports whether runs of a definition go on when their client is
// gone.
func (g *Gateway) outlivesClient(d *definitions.Definition) bool {
	then := d.OnDisconnect
	if then == "" {
		then = g.opts.OnDisconnect
	}
	return then == definitions.ContinueRun
}

// isThere reports whether the client of a request waits for it.
func (x *exchange) isThere() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.gaveUp && !x.isCancelled() && x.here.Err() == nil
}
