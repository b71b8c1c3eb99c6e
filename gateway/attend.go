package gateway

import (
	"context"
	"errors"
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
// who wait for theirs to come back, and by who watches: the run is wanted, and its
// call may still be sent again.
func (g *Gateway) respondsTo(ctx context.Context, id runs.RunID, x *exchange, e runs.Event) {
	if e.Kind != runs.EventAttended || e.Attended.Request == x.name || g.tokens.now().Sub(e.At) >= stale {
		return
	}
	says := runs.Here
	if x.watches {
		says = runs.Watching
	}
	asks := e.Attended.Says == runs.Leaving || e.Attended.Says == runs.Joined && !x.watches
	if asks && g.served.responds(id, e.Seq) {
		ctx, done := detached(ctx) // it speaks for all who wait here, also when its own client goes
		defer done()
		g.attend(ctx, id, x.name, says)
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
		case e.Attended.Says == runs.Answered:
			x.joined = false
			return taken, nil
		case mine && e.Attended.Says == runs.Here && e.Attended.Request != x.name:
			g.turnedAway(ctx, x, id)
			return taken, nil
		case e.Attended.Request == x.name:
			mine = true
		case mine && x.isThere():
			g.respondsTo(ctx, id, x, e)
		}
	}
	return free, ctx.Err()
}

// turnedAway is of a request that wanted to join a run whose client is there. If that
// client leaves in this moment, it takes the request for its successor and does not
// end the run: so the request does, if nobody waits for it.
func (g *Gateway) turnedAway(ctx context.Context, x *exchange, id runs.RunID) {
	x.joined = false
	if !x.outlives {
		g.stops.Go(func() { g.stopUnlessBack(context.WithoutCancel(ctx), x, id, true) })
	}
}

// wasAnswered reports whether a client was given an answer for a run that has
// ended: before its end, or its result. What was delivered just now may not be
// noted yet.
func (g *Gateway) wasAnswered(ctx context.Context, principal string, run *runs.Run) (bool, error) {
	if g.opts.Answers != nil && g.opts.Answers.Answered(string(run.ID)) {
		return true, nil
	}
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
// was answered, or is gone. Who watches says nothing of the call.
func (g *Gateway) settle(ctx context.Context, x *exchange, id runs.RunID) {
	if x.watches {
		return
	}
	answered := x.wasAnswered()
	if !answered && x.leftByClient(g.draining) {
		g.stops.Go(func() { g.stopUnlessBack(context.WithoutCancel(ctx), x, id, x.joined) })
	}
	known := g.served.end(id, x, answered, g.tokens.now(), g.opts.ReattachWindow)
	switch {
	case !answered && x.ended:
		g.answering(x, id, false)
	case !answered || !x.receipts || known:
	case x.ended:
		g.deliveries.add(x.principal, id)
	default:
		g.deliveries.noting.Go(func() {
			ctx, done := detached(ctx)
			defer done()
			if !g.attend(ctx, id, x.name, runs.Answered) {
				g.deliveries.add(x.principal, id)
			}
		})
	}
}

// stopUnlessBack ends a run whose client is gone and does not come back for a
// while, to whichever replica, unless another client waits for the run. A process
// that ends meanwhile ends no run.
//
// Joined says that the request has told the run that it came.
func (g *Gateway) stopUnlessBack(ctx context.Context, x *exchange, id runs.RunID, joined bool) {
	ctx, cancel := g.untilDrain(ctx)
	defer cancel()
	defer g.leavers.replace(id, cancel)()
	grace := time.NewTimer(g.opts.DisconnectGrace)
	defer grace.Stop()
	d := &departure{x: x, current: !joined}
	var after int64
	if !joined { // else what was before its own note says nothing of who waits now
		after = x.seen
	}
	events := g.follow(ctx, id, after)
	for {
		select {
		case f, ok := <-events:
			if errors.Is(f.err, runs.ErrNotFound) {
				return
			}
			if !ok || f.err != nil {
				g.log.WarnContext(ctx, "following the run of a client that is gone; trying again", "run", id, "error", f.err)
				events = g.followLater(ctx, id, after)
				continue
			}
			after = f.event.Seq
			switch d.hears(f.event) {
			case leaveIt:
				return
			case respond:
				g.respondsTo(ctx, id, x, f.event)
			}
		case <-grace.C:
			if d.leaving {
				g.log.InfoContext(ctx, "ending a run whose client is gone", "run", id)
				g.cancelRun(ctx, id)
				return
			}
			if d.leaving = g.attend(ctx, id, x.name, runs.Leaving); !d.leaving {
				g.log.WarnContext(ctx, "the run of a client that is gone goes on: it has ended, or it cannot be known whether another waits for it", "run", id)
				return
			}
			grace.Reset(rollCall)
		case <-ctx.Done():
			return
		}
	}
}

// A departure is a request whose client is gone, and that hears what others say to
// the run until it is known whether it has to end it.
type departure struct {
	x       *exchange
	current bool // what it hears is of now: of one that joined, what follows its own note
	leaving bool // it has asked whether others are there
	asked   bool // and has heard itself ask
}

// What a departure does about what it hears.
type reaction int

const (
	waitOn  reaction = iota
	leaveIt          // the run has ended, or is another's to end
	respond          // another asks who is there: this request, for it may still end the run
)

// hears says what is to be done about an event. The run is left to another request
// that waits for it or was answered: its client has come back, or was there and says
// so when it is asked. Of those who ask at once, the first decides: would they
// respond to each other, none would.
func (d *departure) hears(e runs.Event) reaction {
	if e.Kind == runs.EventDone {
		return leaveIt
	}
	if e.Kind != runs.EventAttended {
		return waitOn
	}
	says := e.Attended.Says
	if e.Attended.Request == d.x.name {
		d.current = d.current || says == runs.Joined
		d.asked = d.asked || says == runs.Leaving
		return waitOn
	}
	replaced := false
	switch says {
	case runs.Joined, runs.Named, runs.Answered:
		replaced = true
	case runs.Here, runs.Watching:
		replaced = d.leaving
	case runs.Leaving:
		if !d.leaving {
			return respond
		}
		replaced = !d.asked
	}
	if d.current && replaced {
		return leaveIt
	}
	return waitOn
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
	return x.dialect.sendsAgain() && x.ends != "" && !x.ended && !x.outlives && !x.isCancelled() && x.overHTTP
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
	return !x.isCancelled() && x.here.Err() == nil
}
