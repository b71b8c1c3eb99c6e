package gateway

import (
	"context"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/runs"
)

// A sessionTask is a Task of 2025-11-25.
type sessionTask struct {
	taskState
	TTL  *int64 `json:"ttl"` // milliseconds since it was created; null = not known
	Poll int64  `json:"pollInterval,omitempty"`
}

// asSessionTask is a run as a task of 2025-11-25. There a task that was
// cancelled stays so, and one whose tool failed has failed.
func (ts *tasks) asSessionTask(x *exchange, run *runs.Run) sessionTask {
	t := sessionTask{taskState: ts.views.describe(x, run), TTL: ts.views.ttl(run), Poll: pollInterval(run)}
	ask, wait := ts.inputs(x, run)
	switch {
	case run.Cancelling || run.Status == runs.Cancelled:
		t.Status, t.Poll = string(mcp.TaskStatusCancelled), 0
	case run.Status == runs.Completed:
		t.Status = string(mcp.TaskStatusCompleted)
	case run.Closed != nil:
		t.Status = string(mcp.TaskStatusFailed)
	case len(ask) > 0:
		t.Status, t.Message = string(mcp.TaskStatusInputRequired), wait
	default:
		t.Message = wait
	}
	return t
}

func (ts *tasks) sessionTask(ctx context.Context, x *exchange, run *runs.Run) {
	t := ts.asSessionTask(x, run)
	if t.Status == string(mcp.TaskStatusFailed) {
		if o, err := ts.runs.Result(ctx, run.ID); err == nil && o.Failure != nil {
			t.Message = o.Failure.Text()
		}
	}
	x.respond("", t)
}

// taskResult is tasks/result: it blocks until the run has ended, asks the
// client meanwhile, and answers what the call would have been answered.
func (ts *tasks) taskResult(ctx context.Context, x *exchange, run *runs.Run) {
	defer ts.calls.begin(x)()
	x.name = newNonce()
	at := x.cursorFor(runs.Started{ID: run.ID})
	at.Owner, at.Tool, at.Task = run.Caller, run.Tool, x.params.TaskID
	x.release()
	ts.streams.render(ctx, x, at, asTaskResult(at))
}

// asTaskResult is how the run is rendered for tasks/result.
func asTaskResult(at cursor) renderOptions {
	forEver := time.Duration(-1)
	return renderOptions{resumed: true, patience: &forEver, task: at.Task}
}

// cancelSessionTask is tasks/cancel of 2025-11-25, whose answer reports that the task
// is cancelled.
func (ts *tasks) cancelSessionTask(ctx context.Context, x *exchange, run *runs.Run) {
	if t := ts.asSessionTask(x, run); mcp.TaskStatus(t.Status).IsTerminal() {
		x.fail(mcp.INVALID_PARAMS, "cannot cancel task: already in terminal status '"+t.Status+"'")
		return
	}
	cancelled, ok := ts.cancelTask(ctx, x, run)
	if !ok {
		return
	}
	t := ts.asSessionTask(x, cancelled)
	t.Message = "the task was cancelled by request"
	x.respond("", t)
}

// listTasks is tasks/list of 2025-11-25: the caller's own runs, page by page.
func (ts *tasks) listTasks(ctx context.Context, x *exchange) {
	var from taskPlace
	if x.params.Cursor != "" {
		if err := ts.tokens.open(placePurpose, x.params.Cursor, x.callerID, &from); err != nil {
			ts.log.DebugContext(ctx, "refusing a cursor", "error", err)
			x.fail(mcp.INVALID_PARAMS, "the cursor is invalid or has expired; list without a cursor")
			return
		}
	}
	page, next, err := ts.runs.ListPage(ctx, runs.Filter{Caller: x.caller.Subject, Limit: taskPage}, from.Page)
	if err != nil {
		ts.results.failed(x, "", err)
		return
	}
	list := struct {
		Tasks []sessionTask `json:"tasks"`
		Next  string        `json:"nextCursor,omitempty"`
	}{Tasks: []sessionTask{}}
	for _, run := range page {
		if run.Caller == x.caller.Subject { // Temporal cuts long names
			list.Tasks = append(list.Tasks, ts.asSessionTask(x, &run))
		}
	}
	if next != "" {
		list.Next = ts.tokens.seal(placePurpose, &taskPlace{Page: next,
			claims: claims{CallerID: x.callerID, Expires: ts.tokens.time().Add(taskPageLife).Unix()}})
	}
	x.respond("", list)
}
