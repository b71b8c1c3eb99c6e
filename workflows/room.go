package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows/record"
)

// Limits of Temporal that would end a run without a word, or keep it from ever
// going on, and how far the interpreter stays away from them.
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

// checkHistory refuses to go on where Temporal is about to end the run.
func checkHistory(ctx workflow.Context, path StepPath) *Error {
	if historyHolds(ctx, 0, 0) {
		return nil
	}
	info := workflow.GetInfo(ctx)
	return &Error{Code: codes.RunTooLong, Category: codes.CategoryLimit, Message: fmt.Sprintf(
		"step %s: the run has %d events of %d bytes in its history; the limits are %d and %d: let it do less, or return less from its tools",
		path, info.GetCurrentHistoryLength(), info.GetCurrentHistorySize(), maxHistory, maxSize)}
}

// historyHolds says whether history is shorter than its limits and so much more.
func historyHolds(ctx workflow.Context, events, bytes int) bool {
	info := workflow.GetInfo(ctx)
	return info.GetCurrentHistoryLength() < maxHistory+events && info.GetCurrentHistorySize() < maxSize+bytes
}

// awaitHistoryRoom waits until the result of one more call fits into history with
// those of the calls under way, each as large as the largest that has come of its
// tool, or as results may be where none has. It fails where there is no room even for
// one. What undoes has room of its own.
func (r *run) awaitHistoryRoom(ctx workflow.Context, q request) *Error {
	if q.undoes && historyHolds(ctx, undoHistory, undoSize) {
		return nil
	}
	for {
		if err := checkHistory(ctx, q.path); err != nil {
			return err
		}
		room := maxSize - workflow.GetInfo(ctx).GetCurrentHistorySize()
		awaited := r.calls.bytes()
		if awaited == 0 || r.in.MaxValue > 0 || awaited+r.calls.sizeOf(q.tool.Name) <= room { // with a MaxValue, large results are kept elsewhere
			return nil
		}
		before := r.calls.ended
		if err := workflow.Await(ctx, func() bool { return r.calls.ended > before }); err != nil {
			return q.failure(err)
		}
	}
}

// bytes is how large the results under way are to be taken for.
func (c *calls) bytes() (total int) {
	//workflowcheck:ignore a sum
	for tool, n := range c.awaited {
		total += n * c.sizeOf(tool)
	}
	return total
}

func (c *calls) sizeOf(tool string) int {
	if size, ok := c.largest[tool]; ok {
		return size
	}
	return MaxResultSize
}

// came notes the result of a call of a tool, or that it has none.
func (c *calls) came(tool string, result *ToolResult) {
	c.ended++
	c.awaited[tool]--
	if result.Output != nil {
		c.largest[tool] = max(c.largest[tool], record.PayloadSize(result.Output))
	}
}

// fit drops what closed elicitations asked from the state, the oldest first,
// until it fits into the memo, and returns its size.
func (s *State) fit() (total int) {
	total = s.size()
	for i := range s.Elicitations {
		if e := &s.Elicitations[i]; total > maxState && e.State != ElicitationOpen {
			total -= record.PayloadSize(e.Message) + record.PayloadSize(e.Content)
			e.Message, e.Content = "", nil
		}
	}
	return total
}

// check refuses an elicitation that does not fit into the memo.
func (g *gates) check(e Elicitation) *Error {
	size, open := openBytes(e), 0
	for _, o := range g.waiting() {
		open += openBytes(o)
	}
	if size <= maxQuestion && size+open <= maxState {
		return nil
	}
	return &Error{Code: codes.ElicitationTooLarge, Category: codes.CategoryLimit, Message: fmt.Sprintf(
		"step %s: message and schema of the question have %d bytes, those of other open ones %d; the limits are %d for one and %d for all: ask more briefly",
		e.StepPath, size, open, maxQuestion, maxState)}
}
