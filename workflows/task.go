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

// A task is the workflow task under way.
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

// boundTasks ends each workflow task after a while in which reads are under way;
// they go on in the next one. See task.last.
func (r *run) boundTasks(ctx workflow.Context) {
	r.task.last(ctx, maxTaskTime)
	wait, _ := workflow.NewDisconnectedContext(ctx)
	workflow.GoNamed(wait, "tasks", func(ctx workflow.Context) {
		_ = workflow.Await(ctx, func() bool { // looks whenever something happens
			r.current(ctx)
			return false
		})
	})
}

// last has the SDK end the task under way, and those that follow, when they have
// lasted so long and nothing but reads keeps them from ending. The SDK calls that
// a heartbeat, and sends it after 0.8 of the timeout of a workflow task, which it
// reads from here. How long the server waits for a task is not changed by this.
func (task) last(ctx workflow.Context, d time.Duration) {
	workflow.GetInfo(ctx).WorkflowTaskTimeout = d * 5 / 4
}

// current is the workflow task under way.
func (r *run) current(ctx workflow.Context) *task {
	length, now := workflow.GetInfo(ctx).GetCurrentHistoryLength(), workflow.Now(ctx)
	// Within a task, time goes on with the ends of reads only.
	if t := r.task; length != t.length || t.reads == 0 && now.After(t.seen) {
		r.task = task{number: t.number + 1, length: length, began: now, local: t.local, reads: t.reads}
		r.task.last(ctx, maxTaskTime)
	}
	r.task.seen = now
	return &r.task
}

// lasted is how long the workflow task under way has lasted.
func (r *run) lasted(ctx workflow.Context) time.Duration {
	return workflow.Now(ctx).Sub(r.current(ctx).began)
}

// nextTask waits for the workflow task after this one. Reads under way end this
// one soon; else a timer brings the next one about, since nothing else may.
func (r *run) nextTask(ctx workflow.Context) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	number := r.current(ctx).number
	over := func() bool { return r.current(ctx).number != number }
	r.task.last(ctx, moment)
	_ = workflow.Await(ctx, func() bool { return over() || r.task.reads == 0 }) // is never cancelled
	if over() {
		return
	}
	if r.task.next == nil {
		r.task.next = workflow.NewTimerWithOptions(ctx, time.Millisecond, workflow.TimerOptions{Summary: "sees what has happened"})
	}
	next := r.task.next
	_ = next.Get(ctx, nil)
	if t := r.task; t.next == next { // in the test environment, with reads under way
		r.task = task{number: t.number + 1, length: t.length, began: workflow.Now(ctx), seen: workflow.Now(ctx), local: t.local, reads: t.reads}
	}
}

// readyToSend waits until something that is not a read can be sent: with so many
// bytes, from a task that has seen all that happened until a moment ago. It is an
// error if that was the end of what sends it.
func (r *run) readyToSend(ctx workflow.Context, bytes int) error {
	for r.lasted(ctx) > moment || !r.fits(ctx, bytes) {
		r.nextTask(ctx)
	}
	r.carries(ctx)
	r.task.sends = true
	return ctx.Err()
}

// readyToRead waits for a workflow task in which a read may begin: one that does
// not hold back what leaves with it.
func (r *run) readyToRead(ctx workflow.Context) {
	for r.current(ctx).sends && r.lasted(ctx) > 0 {
		r.nextTask(ctx)
	}
}

// stillIn says whether the workflow task of a number is certainly still under way,
// so that nothing has left that was to be sent with it.
func (r *run) stillIn(ctx workflow.Context, number int) bool {
	t := r.current(ctx)
	return t.number == number && t.length > 0
}

// carries lets what goes out with the task under way not wait for slow reads.
func (r *run) carries(ctx workflow.Context) {
	r.current(ctx)
	r.task.last(ctx, moment)
}
