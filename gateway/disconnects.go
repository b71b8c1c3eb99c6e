package gateway

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/perdure/perdure/internal/runs"
)

// Disconnects are the requests whose clients are gone. They end their runs unless
// another request waits.
type disconnects struct {
	runs         Runs
	calls        *calls
	attendance   *attendance
	served       *served
	deliveries   *deliveries
	pendingStops pendingStops
	stops        sync.WaitGroup
	drain        *drain
	grace        time.Duration // that a client has to come back
	window       time.Duration // in which a call may be one sent again
	now          func() time.Time
	log          *slog.Logger
}

// settle records what became of a request that waited for a run: its client was
// answered, or is gone. Of a watcher, only the result counts that the run's caller got.
func (ds *disconnects) settle(ctx context.Context, x *exchange, id runs.RunID) {
	if x.watches && !(x.runEnded && x.countsAnswer) {
		return
	}
	answered := x.wasAnswered()
	if !answered && x.leftByClient(ds.drain.begun()) {
		ds.stopLater(ctx, x, id, x.joined)
	}
	known := ds.served.end(id, x, answered, ds.now(), ds.window)
	switch {
	case !answered && x.runEnded:
		ds.deliveries.answering(x, id, false)
	case !answered || !x.countsAnswer || known:
	case x.runEnded:
		ds.deliveries.add(x.callerID, id)
	default:
		ds.deliveries.soon(func() {
			ctx, done := detached(ctx)
			defer done()
			switch noted := ds.attendance.attend(ctx, id, runs.Attended{Request: x.name, Says: runs.Answered, Events: runs.EventsUntil(x.lastSeq)}); {
			case x.asks: // if it has ended meanwhile, the client has gone on
				ds.served.noted(id)
			case !noted:
				ds.deliveries.add(x.callerID, id)
			}
		})
	}
}

// release forgets a request that waits for a run no more, also where it was not
// settled: one that panics is answered by others, and its run continues.
func (ds *disconnects) release(x *exchange, id runs.RunID) {
	if !x.watches {
		ds.served.leave(id, x)
	}
}

// stopLater ends the run of a request whose client is gone, unless it is wanted.
func (ds *disconnects) stopLater(ctx context.Context, x *exchange, id runs.RunID, joined bool) {
	ds.stops.Go(func() { ds.stopUnlessBack(context.WithoutCancel(ctx), x, id, joined) })
}

// stopUnlessBack ends a run whose client is gone and does not come back for a
// while, to whichever replica, unless another client waits for the run. A process
// that ends meanwhile ends no run.
//
// Joined is whether the request has signalled its arrival to the run.
func (ds *disconnects) stopUnlessBack(ctx context.Context, x *exchange, id runs.RunID, joined bool) {
	ctx, cancel := ds.drain.until(ctx)
	defer cancel()
	defer ds.pendingStops.replace(id, cancel)()
	grace := time.NewTimer(ds.grace)
	defer grace.Stop()
	d := &disconnect{x: x, current: !joined}
	var after int64
	if !joined { // events before its own signal do not show who waits now
		after = x.lastSeq
	}
	events := follow(ctx, ds.runs, id, after, runs.AllEvents)
	for {
		select {
		case f, ok := <-events:
			if errors.Is(f.err, runs.ErrNotFound) {
				return
			}
			if !ok || f.err != nil {
				ds.log.WarnContext(ctx, "cannot follow the run of a disconnected client; trying again", "run", id, "error", f.err)
				events = followLater(ctx, ds.runs, id, after)
				continue
			}
			after = f.event.Seq
			heard := d.asked
			switch d.react(f.event) {
			case giveUp:
				return
			case respond:
				ds.attendance.respondsTo(ctx, id, x, f.event)
			}
			if d.asked > heard {
				grace.Reset(rollCall)
			}
		case <-grace.C:
			if !ds.callRoll(ctx, d, id, after) {
				return
			}
			grace.Reset(noting)
		case <-ctx.Done():
			return
		}
	}
}

// callRoll has a request ask whether others wait for its run, and ends the run if it has
// asked often enough. It reports whether the request is to wait for answers.
func (ds *disconnects) callRoll(ctx context.Context, d *disconnect, id runs.RunID, after int64) (waits bool) {
	if d.asks == rollCalls {
		ds.log.InfoContext(ctx, "cancelling the run of a disconnected client", "run", id)
		ds.calls.cancelRun(ctx, id)
		return false
	}
	d.asks++
	d.leaving = ds.attendance.attend(ctx, id, runs.Attended{Request: d.x.name, Says: runs.Leaving, Events: runs.EventsUntil(after)})
	if !d.leaving {
		ds.log.WarnContext(ctx, "not cancelling the run of a disconnected client: it has ended, or another client may wait for it", "run", id)
	}
	return d.leaving
}

// A disconnect is a request whose client is gone. It follows the signals of others until
// it is known whether it has to end the run.
type disconnect struct {
	x       *exchange
	current bool // what it hears is of now: of one that joined, what follows its own note
	leaving bool // it has asked whether others wait
	asks    int  // so often
	asked   int  // and has heard itself ask so often
}

// What a disconnect does about what it hears.
type reaction int

const (
	keepWaiting reaction = iota
	giveUp               // the run has ended, or is another's to end
	respond              // another request asks who waits: this one may still end the run
)

// react decides about an event. Another request that waits or was answered takes the
// run over: its client has come back, or it answers Here. Of requests that ask at the
// same time the first decides: if they answered each other, none would.
func (d *disconnect) react(e runs.Event) reaction {
	if e.Kind == runs.EventDone {
		return giveUp
	}
	if e.Kind != runs.EventAttended {
		return keepWaiting
	}
	says := e.Attended.Says
	if e.Attended.Request == d.x.name {
		d.current = d.current || says == runs.Joined
		if says == runs.Leaving {
			d.asked++
		}
		return keepWaiting
	}
	replaced := false
	switch says {
	case runs.Joined, runs.Named, runs.Answered:
		replaced = true
	case runs.Here, runs.Watching:
		replaced = d.asked > 0 && e.Attended.Of == d.x.name // else to its arrival
	case runs.Leaving:
		if !d.leaving {
			return respond
		}
		replaced = d.asked == 0
	}
	if d.current && replaced {
		return giveUp
	}
	return keepWaiting
}

// PendingStops are the requests whose clients are gone and that end their runs after the
// grace period: for each run the one whose client left last.
type pendingStops struct {
	mu   sync.Mutex
	runs map[runs.RunID]*context.CancelFunc
}

// replace has a request wait in the place of the one before, which cancel ends.
// What it returns is called when it does not wait any more.
func (l *pendingStops) replace(id runs.RunID, cancel context.CancelFunc) (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs == nil {
		l.runs = map[runs.RunID]*context.CancelFunc{}
	}
	if before := l.runs[id]; before != nil {
		(*before)()
	}
	l.runs[id] = &cancel
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.runs[id] == &cancel {
			delete(l.runs, id)
		}
	}
}
