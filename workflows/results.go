package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows/record"
)

// Results are what history must have room for: those of the calls that are under way,
// and the outcomes of called runs.
type results struct {
	awaited map[string]int // calls whose results are to come into history, by tool
	largest map[string]int // result that has come, in bytes, by tool
	reading int            // bytes of the outcomes of called runs that are read
	called  int            // runs that have not ended; Temporal returns up to maxBrought bytes for each
	ended   int            // calls whose results have come, or outcomes
}

func newResults() *results {
	return &results{awaited: map[string]int{}, largest: map[string]int{}}
}

// awaitHistoryRoom waits until the result of one more call fits into history with those
// of the calls under way, each estimated by the largest result of its tool, or by the
// limit of results if none has come. It fails if there is no room even for one.
// Compensations have room of their own.
func (cs *calls) awaitHistoryRoom(ctx workflow.Context, q request) *Error {
	failure, err := cs.results.await(ctx, q.path, func() bool { return cs.hasHistoryRoom(ctx, q) })
	if err != nil {
		return q.failure(err)
	}
	return failure
}

func (cs *calls) hasHistoryRoom(ctx workflow.Context, q request) bool {
	r := cs.results
	switch {
	case q.undoes && r.historyHolds(ctx, undoHistory, undoSize):
		return true
	case cs.in.MaxValue > 0: // large results are kept elsewhere
		return r.historyHolds(ctx, 0, 0)
	}
	return r.fit(ctx, r.sizeOf(q.tool.Name))
}

// await waits until something fits into history, and fails where it never will.
func (r *results) await(ctx workflow.Context, path StepPath, fits func() bool) (*Error, error) {
	for !fits() {
		if failure := r.check(ctx, path); failure != nil {
			return failure, nil
		}
		before := r.ended
		if err := workflow.Await(ctx, func() bool { return r.ended > before }); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// fit reports whether so many bytes fit into history with what is to come into it. One
// result always does that has nothing beside it, as long as history holds more.
func (r *results) fit(ctx workflow.Context, bytes int) bool {
	awaited := r.bytes()
	return r.historyHolds(ctx, 0, 0) && (awaited == 0 || r.historySize(ctx)+awaited+bytes <= maxSize)
}

// check refuses to continue where Temporal is about to end the run.
func (r *results) check(ctx workflow.Context, path StepPath) *Error {
	if r.historyHolds(ctx, 0, 0) {
		return nil
	}
	return &Error{Code: codes.RunTooLong, Category: codes.CategoryLimit, Message: fmt.Sprintf(
		"step %s: the run has %d events of %d bytes in its history; the limits are %d and %d: let it do less, or return less from its tools",
		path, workflow.GetInfo(ctx).GetCurrentHistoryLength(), r.historySize(ctx), maxHistory, maxSize)}
}

// historyHolds reports whether history is shorter than its limits and so much more.
func (r *results) historyHolds(ctx workflow.Context, events, bytes int) bool {
	return workflow.GetInfo(ctx).GetCurrentHistoryLength() < maxHistory+events && r.historySize(ctx) < maxSize+bytes
}

// historySize is that of history, with what called runs bring by themselves.
func (r *results) historySize(ctx workflow.Context) int {
	return workflow.GetInfo(ctx).GetCurrentHistorySize() + r.called*maxBrought
}

// begins notes that a call of a tool is under way.
func (r *results) begins(tool string) { r.awaited[tool]++ }

// bytes is how large what is to come is to be taken for.
func (r *results) bytes() int {
	total := r.reading
	//workflowcheck:ignore a sum
	for tool, n := range r.awaited {
		total += n * r.sizeOf(tool)
	}
	return total
}

func (r *results) sizeOf(tool string) int {
	if size, ok := r.largest[tool]; ok {
		return size
	}
	return MaxResultSize
}

// came notes the result of a call of a tool, or that it has none.
func (r *results) came(tool string, result *ToolResult) {
	r.ended++
	r.awaited[tool]--
	if result.Output != nil {
		r.largest[tool] = max(r.largest[tool], record.PayloadSize(result.Output))
	}
}

// calls notes that a run was called, until it has ended.
func (r *results) calls() (ended func()) {
	r.called++
	return func() { r.called-- }
}

// reads notes that the outcome of a called run is read, until it has come.
func (r *results) reads(bytes int) (came func()) {
	r.reading += bytes
	return func() {
		r.reading -= bytes
		r.ended++
	}
}
