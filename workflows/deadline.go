package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"
)

// Deadlines are the times at which something that is under way is over.
type deadlines struct {
	tasks  *tasks
	open   []*deadline // in the order in which they were begun
	looked bool        // whether some are due
}

type deadline struct {
	ctx     workflow.Context // of what ends then
	until   time.Time
	summary string
	timer   workflow.Future     // nil = none yet
	stop    workflow.CancelFunc // the timer
	then    func()
	passed  bool
}

// after does something when a time is over, unless ctx is cancelled before. then must
// not block. A timer of Temporal's wakes the run for it, but is seen with the next
// workflow task only; so every event in this one checks the clock.
func (ds *deadlines) after(ctx workflow.Context, until time.Time, summary string, then func()) {
	ds.open = append(ds.open, &deadline{ctx: ctx, until: until, summary: summary, then: then})
}

// arm starts the timer. It is not cancelled with ctx but by pass: a context that is
// cancelled cancels those below it in an order that the SDK decides.
func (d *deadline) arm(ctx workflow.Context) {
	ctx, d.stop = workflow.NewDisconnectedContext(ctx)
	d.timer = workflow.NewTimerWithOptions(ctx, max(d.until.Sub(workflow.Now(ctx)), 0), workflow.TimerOptions{Summary: d.summary})
}

// unarmed reports whether a deadline needs its timer. While reads are under way in the
// first workflow task none does: a run of reads alone ends with it. The first look comes
// before the first steps, and is never the last.
func (ds *deadlines) unarmed(ctx workflow.Context) bool {
	first := !ds.looked
	ds.looked = true
	if task := ds.tasks.current(ctx); first || task.reads > 0 && task.number == 1 {
		return false
	}
	return slices.ContainsFunc(ds.open, func(d *deadline) bool { return d.timer == nil })
}

// dropped reports whether what was to end has ended.
func (d *deadline) dropped() bool { return d.ctx.Err() != nil }

func (d *deadline) over(now time.Time) bool {
	return !d.dropped() && (!now.Before(d.until) || d.timer != nil && d.timer.IsReady())
}

// forget drops all deadlines of a run that ends: what else it has goes on for a moment.
func (ds *deadlines) forget() { ds.open = nil }

// due reports whether there is something to do for pass.
func (ds *deadlines) due(ctx workflow.Context) bool {
	now := workflow.Now(ctx)
	return ds.unarmed(ctx) || slices.ContainsFunc(ds.open, func(d *deadline) bool { return d.dropped() || d.over(now) })
}

// pass does what is to be done when a time is over, stops the timers of all that has
// ended, and starts those that are needed, in the order in which they were begun.
func (ds *deadlines) pass(ctx workflow.Context) {
	now := workflow.Now(ctx)
	for _, d := range ds.open {
		if d.over(now) {
			d.passed = true
			d.then()
		}
	}
	ds.open = slices.DeleteFunc(ds.open, func(d *deadline) bool {
		if !d.passed && !d.dropped() {
			return false
		}
		if d.stop != nil {
			d.stop()
		}
		return true
	})
	if !ds.unarmed(ctx) {
		return
	}
	for _, d := range ds.open {
		if d.timer == nil {
			d.arm(ctx)
		}
	}
}

// endsBy is ctx with the time at which what surrounds it ends; an earlier one stays.
func endsBy(ctx workflow.Context, until time.Time) workflow.Context {
	return workflow.WithValue(ctx, endKey{}, earlier(endOf(ctx), until))
}

// earlier is the earlier of two times; zero = never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// endOf is when what surrounds ctx ends; zero = that is not known, or never.
func endOf(ctx workflow.Context) time.Time {
	until, _ := ctx.Value(endKey{}).(time.Time)
	return until
}

type endKey struct{}
