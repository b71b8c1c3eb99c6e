package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// What happens to a run while one of its workflow tasks is executed (a cancel, an
// answer, a timer) reaches it with the next task. Reads are executed inside of
// tasks, so tasks must be short, and those from which something leaves shorter.
const (
	// maxTaskTime is how long a workflow task lasts in which reads are under way.
	maxTaskTime = 500 * time.Millisecond

	// moment is how long ago a run, or a call of it that is not a read, may have
	// looked at what has happened to it when something is sent.
	moment = 100 * time.Millisecond
)

// Tasks are the workflow tasks of an execution, one after the other.
type tasks struct {
	now task // the one under way
}

// A task is a workflow task: what has been seen in it, and what it adds to history.
type task struct {
	number int       // from 1
	length int       // of history when it began; always 0 in the test environment of the SDK
	began  time.Time //
	seen   time.Time // the last time that was seen in it

	bytes int             // that it has added to history so far
	local int             // bytes that reads under way may still add, in whichever task they end
	reads int             // under way, in whichever task they began
	sends bool            // something leaves with it that is not a read
	next  workflow.Future // ready in the task after this one; nil = not asked for
}

// bound ends each workflow task after a while in which reads are under way; they
// continue in the next one. See task.last.
func (t *tasks) bound(ctx workflow.Context) { t.now.last(ctx, maxTaskTime) }

// last has the SDK end the task under way, and those that follow, when they have
// lasted so long and nothing but reads keeps them from ending. The SDK calls that
// a heartbeat, and sends it after 0.8 of the timeout of a workflow task, which it
// reads from here. How long the server waits for a task is not changed by this.
func (task) last(ctx workflow.Context, d time.Duration) {
	workflow.GetInfo(ctx).WorkflowTaskTimeout = d * 5 / 4
}

// current is the workflow task under way.
func (t *tasks) current(ctx workflow.Context) *task {
	length, now := workflow.GetInfo(ctx).GetCurrentHistoryLength(), workflow.Now(ctx)
	// Within a task, time continues with the ends of reads only.
	if was := t.now; length != was.length || was.reads == 0 && now.After(was.seen) {
		t.now = task{number: was.number + 1, length: length, began: now, local: was.local, reads: was.reads}
		t.now.last(ctx, maxTaskTime)
	}
	t.now.seen = now
	return &t.now
}

// lasted is how long the workflow task under way has lasted.
func (t *tasks) lasted(ctx workflow.Context) time.Duration {
	return workflow.Now(ctx).Sub(t.current(ctx).began)
}

// next waits for the workflow task after this one. Reads under way end this
// one soon; else a timer brings the next one about, since nothing else may.
func (t *tasks) next(ctx workflow.Context) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	number := t.current(ctx).number
	over := func() bool { return t.current(ctx).number != number }
	t.now.last(ctx, moment)
	_ = workflow.Await(ctx, func() bool { return over() || t.now.reads == 0 }) // is never cancelled
	if over() {
		return
	}
	if t.now.next == nil {
		t.now.next = workflow.NewTimerWithOptions(ctx, time.Millisecond, workflow.TimerOptions{Summary: "sees what has happened"})
	}
	next := t.now.next
	_ = next.Get(ctx, nil)
	if was := t.now; was.next == next { // in the test environment, with reads under way
		t.now = task{number: was.number + 1, length: was.length, began: workflow.Now(ctx), seen: workflow.Now(ctx), local: was.local, reads: was.reads}
	}
}

// readyToSend waits until something that is not a read can be sent: with so many
// bytes, from a task that has seen all that happened until a moment ago. It is an
// error if that was the end of what sends it.
func (t *tasks) readyToSend(ctx workflow.Context, bytes int) error {
	for t.lasted(ctx) > moment || !t.fits(ctx, bytes) {
		t.next(ctx)
	}
	t.carries(ctx)
	t.now.sends = true
	return ctx.Err()
}

// readyToRead waits for a workflow task in which a read may begin: one that does
// not hold back what leaves with it.
func (t *tasks) readyToRead(ctx workflow.Context) {
	for t.current(ctx).sends && t.lasted(ctx) > 0 {
		t.next(ctx)
	}
}

// stillIn reports whether the workflow task of a number is certainly still under way,
// so that none of its commands has been sent.
func (t *tasks) stillIn(ctx workflow.Context, number int) bool {
	now := t.current(ctx)
	return now.number == number && now.length > 0
}

// carries lets what goes out with the task under way not wait for slow reads.
func (t *tasks) carries(ctx workflow.Context) {
	t.current(ctx)
	t.now.last(ctx, moment)
}
