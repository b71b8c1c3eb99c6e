package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// LongTask is how long a workflow task may take, of 10 s otherwise, of a run that
// continues or holds large values: after the loss of its worker's cache the first one
// replays the whole history, and that of a run with much under way takes its time, on a
// busy machine most of all. After a kill -9 of its worker, another one takes the task up
// when that has passed.
const LongTask = 30 * time.Second

// Limits of Temporal that would end a run without an error, or keep it from ever
// continuing, and the interpreter's distance from them.
const (
	maxPending   = 500                // activities at a time, of 2,000
	maxTask      = 3 << 20            // bytes that one workflow task adds to history, of 4 MiB
	maxLocal     = MaxLocalResultSize // bytes of the output of a read inside a workflow task, so that 50 fit
	maxHistory   = 48_000             // events, of 51,200
	maxSize      = 46 << 20           // bytes of history, of 50 MiB
	undoHistory  = 2_000              // events more, for what undoes
	undoSize     = 3 << 20            // bytes more, for what undoes
	maxQuestion  = 200 << 10          // bytes of one elicitation: message and schema
	maxState     = 1 << 20            // bytes of the elicitations in the memo
	commandBytes = 2 << 10            // what a command takes besides its payload
)

// makeRoom waits for a workflow task in which so many bytes fit.
func (t *tasks) makeRoom(ctx workflow.Context, bytes int) {
	for !t.fits(ctx, bytes) {
		t.next(ctx)
	}
}

// fits takes room in the workflow task under way, if there is enough.
func (t *tasks) fits(ctx workflow.Context, bytes int) bool {
	now := t.current(ctx)
	bytes += commandBytes
	if used := now.bytes + now.local; used > 0 && used+bytes > maxTask {
		return false
	}
	now.bytes += bytes
	return true
}

// makeLocalRoom does the same for a read inside the workflow task. What it
// returns takes the read's output when it has ended.
func (t *tasks) makeLocalRoom(ctx workflow.Context) (ended func(output int)) {
	const most = maxLocal + commandBytes
	t.readyToRead(ctx)
	t.makeRoom(ctx, maxLocal)
	t.now.bytes -= most
	t.now.local += most
	t.now.reads++
	return func(output int) {
		now := t.current(ctx)
		now.reads--
		now.local -= most
		now.bytes += output + commandBytes
	}
}
