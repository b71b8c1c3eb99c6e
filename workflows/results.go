package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/workflows/record"
)

// Results are those of the calls that are under way, which history must have room for.
type results struct {
	awaited map[string]int // calls whose results are to come into history, by tool
	largest map[string]int // result that has come, in bytes, by tool
	ended   int            // calls that have
}

func newResults() *results {
	return &results{awaited: map[string]int{}, largest: map[string]int{}}
}

// awaitHistoryRoom waits until the result of one more call fits into history with
// those of the calls under way, each as large as the largest that has come of its
// tool, or as results may be where none has. It fails where there is no room even for
// one. What undoes has room of its own.
func (cs *calls) awaitHistoryRoom(ctx workflow.Context, q request) *Error {
	for !cs.hasHistoryRoom(ctx, q) {
		if err := checkHistory(ctx, q.path); err != nil {
			return err
		}
		before := cs.results.count()
		if err := workflow.Await(ctx, func() bool { return cs.results.count() > before }); err != nil {
			return q.failure(err)
		}
	}
	return nil
}

func (cs *calls) hasHistoryRoom(ctx workflow.Context, q request) bool {
	switch {
	case q.undoes && historyHolds(ctx, undoHistory, undoSize):
		return true
	case !historyHolds(ctx, 0, 0):
		return false
	}
	room := maxSize - workflow.GetInfo(ctx).GetCurrentHistorySize()
	awaited := cs.results.bytes()
	return awaited == 0 || cs.in.MaxValue > 0 || awaited+cs.results.sizeOf(q.tool.Name) <= room // with a MaxValue, large results are kept elsewhere
}

// begins notes that a call of a tool is under way.
func (r *results) begins(tool string) { r.awaited[tool]++ }

// count is how many calls have ended.
func (r *results) count() int { return r.ended }

// bytes is how large the results under way are to be taken for.
func (r *results) bytes() (total int) {
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
