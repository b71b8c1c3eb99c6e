// Package activities executes the side effects of workflows: it calls backend tools
// and distinguishes known from unknown outcomes.
package activities

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows"
	"github.com/perdure/perdure/workflows/record"
)

// A Caller calls backend tools; *backends.Pool is one.
type Caller interface {
	Call(ctx context.Context, call backends.Call) (*backends.Result, error)
}

// A CallHistory returns what became of the call of a step, with its key, in earlier executions
// of a run. Only calls decided after a time count.
type CallHistory func(ctx context.Context, runID, execution string, path workflows.StepPath, key string, after time.Time) (workflows.CallBefore, error)

// A HistorySize is how many bytes the history of an execution has.
type HistorySize func(ctx context.Context, runID, execution string) (bytes int64, err error)

// Options are what activities know besides how to call a tool. The zero value works.
type Options struct {
	// Permits restricts calls: those not permitted fail without being sent. nil = all
	// calls of runs that were started without permission rules; others fail.
	Permits func(workflows.ToolCall) bool
	// CallBeforeReset finds calls that a run made before it was reset. nil = unsafe calls of
	// such a run have an unknown outcome, and keyed ones are made.
	CallBeforeReset CallHistory
	// LastAttempt and SentUnread look up how the attempt before ended. An unsafe call is
	// then not repeated after a failure that no attempt reported, and a keyed call knows
	// whether an attempt before may have been executed. nil = Temporal's failure counts
	// for unsafe calls, and each attempt of a keyed call may have been executed.
	LastAttempt LastAttempt
	SentUnread  SentUnread
	// HistorySize lets a large result be refused that does not fit into the history of
	// its run. nil = Temporal ends such a run.
	HistorySize HistorySize
	// Keeps reports why a large result cannot be stored now; calls are not sent then. nil =
	// it can.
	Keeps func(ctx context.Context) error
	// CatchUp keeps a call that has waited from being sent before its run has seen what
	// has happened meanwhile, and any call of a called run before the runs above have.
	// nil = such a call is sent unless Temporal knows its activity as cancelled.
	CatchUp CatchUp
	// Resolve, Outcome, Latest and TimesAnew let steps call composite tools. nil = none is found.
	Resolve Resolve
	Outcome Outcome
	Latest  Latest

	TimesAnew TimesAnew
	// UndoneSteps finds steps that were undone though a run that was reset takes them for
	// done. nil = it completes. Errors are temporary.
	UndoneSteps func(ctx context.Context, runID string) ([]workflows.StepPath, error)
}

// Activities implements workflows.Activities.
type Activities struct {
	backends Caller
	logger   *slog.Logger
	opts     Options
	line     *backends.Line // of the only backend; nil = nothing is limited
	onItsWay *transit
	crowd    *crowd
}

var _ workflows.Activities = (*Activities)(nil)

// New makes activities that call tools through backends. A nil logger discards.
func New(backends Caller, logger *slog.Logger, o Options) *Activities {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Activities{backends: backends, logger: logger, opts: o, onItsWay: &transit{}, crowd: newCrowd()}
}

// Register makes a worker execute the activities.
func Register(r worker.ActivityRegistry, a *Activities) {
	r.RegisterActivityWithOptions(a.CallTool, activity.RegisterOptions{Name: workflows.CallToolName})
	r.RegisterActivityWithOptions(a.ResolveDefinition, activity.RegisterOptions{Name: workflows.ResolveName})
	r.RegisterActivityWithOptions(a.RunOutcome, activity.RegisterOptions{Name: workflows.OutcomeName})
	r.RegisterActivityWithOptions(a.LatestExecution, activity.RegisterOptions{Name: workflows.LatestName})
	r.RegisterActivityWithOptions(a.TimesAnew, activity.RegisterOptions{Name: workflows.TimesAnewName})
	r.RegisterActivityWithOptions(a.UndoneSteps, activity.RegisterOptions{Name: workflows.UndoneName})
}

// CallTool calls a backend tool once: if the run may call it, if no earlier attempt has
// left a result or an unknown outcome, and when it is its turn.
func (a *Activities) CallTool(ctx context.Context, call workflows.ToolCall) (workflows.ToolResult, error) {
	began, info := time.Now(), activity.GetInfo(ctx)
	if call.Execution != "" && call.Execution != info.WorkflowExecution.RunID { // it was under way at the point of a reset, so Temporal has it made again
		call.SearchHistory = true
	}
	ctx, release := backends.Hold(ctx)
	defer release()
	check := a.newSendCheck(call, info)
	attempt := workflows.Attempt{Call: call, Number: int(info.Attempt)}
	if err := a.permit(ctx, attempt); err != nil {
		return workflows.ToolResult{}, err
	}
	progress := make(chan backends.Progress, 1)
	alive := func() func() { return a.crowd.keepAlive(ctx, call.StepPath, progress) }
	if !info.IsLocalActivity {
		var done func()
		ctx, done = underWay(ctx)
		defer done()
		if a.line == nil || call.SearchHistory || call.Unread {
			defer alive()()
		}
	}
	attempt, earlier, err := a.earlierAttempts(ctx, attempt, info)
	switch {
	case err != nil:
		return workflows.ToolResult{}, err
	case earlier != nil:
		return *earlier, nil
	}
	res, err := a.inTurn(ctx, attempt, check, alive, backends.Call{
		Backend: call.Backend, Tool: call.Original, Arguments: call.Arguments,
		IdempotencyKey: attempt.Call.IdempotencyKey, KeyArgument: call.KeyArgument,
		Caller:   backends.Caller{Name: call.Caller.Subject, Run: call.Caller.Forwarded},
		Progress: func(p backends.Progress) { offer(progress, p) },
		MaySend:  check.allow,
	})
	if err != nil {
		return workflows.ToolResult{}, a.failed(ctx, attempt, info, err)
	}
	result, err := a.answered(ctx, attempt, info, res)
	if err == nil && info.IsLocalActivity {
		result.Took = time.Since(began)
	}
	return result, err
}

// permit is the failure of a call that its run may not make; nil = it may.
func (a *Activities) permit(ctx context.Context, attempt workflows.Attempt) error {
	switch {
	case a.opts.Permits == nil && attempt.Call.Ruled:
		return a.report(ctx)(attempt.Unruled())
	case a.opts.Permits != nil && !a.opts.Permits(attempt.Call):
		return a.report(ctx)(attempt.Denied())
	}
	return nil
}

// failed is the failure of an attempt that was not made, or that gave no result.
func (a *Activities) failed(ctx context.Context, attempt workflows.Attempt, info activity.Info, err error) error {
	var held *heldError
	switch {
	case errors.As(err, &held):
		return attempt.ReportHold(held.hold())
	case errors.Is(err, errTimeUp): // there is no more for another attempt
		e, _ := attempt.TimedOut()
		return a.report(ctx)(e, false)
	}
	e, repeat := unanswered(ctx, attempt, err)
	repeat = repeat && !stepIsOver(attempt, info)
	var pause time.Duration // that the backend asks for
	if ce := (*backends.CallError)(nil); errors.As(err, &ce) {
		pause = ce.RetryAfter
	}
	if repeat && e.Code == codes.BackendUnavailable && worthShowing(attempt, info, pause) {
		_ = a.report(ctx)(e, repeat)
		return attempt.ReportUnreachable(e, pause)
	}
	return a.reportAfter(ctx, e, repeat, pause)
}

// answered is the result of a call from the answer of its backend, or the failure of one
// whose answer is an error or cannot be kept.
func (a *Activities) answered(ctx context.Context, attempt workflows.Attempt, info activity.Info, res *backends.Result) (workflows.ToolResult, error) {
	if res.IsError {
		return workflows.ToolResult{}, a.report(ctx)(attempt.Answered(Message(res)))
	}
	result, err := attempt.Succeeded(res.Structured, blocks(res.Content))
	if err != nil {
		a.logger.InfoContext(ctx, "the output of a tool cannot be used", "run", attempt.Call.RunID, "step", attempt.Call.StepPath, "tool", attempt.Call.Tool, "error", err)
		return workflows.ToolResult{}, err
	}
	if info.IsLocalActivity && record.PayloadSize(result.Output) > workflows.MaxLocalResultSize {
		return workflows.ToolResult{}, attempt.TooLargeHere()
	}
	if e := a.noRoom(ctx, attempt, info, result); e != nil {
		return workflows.ToolResult{}, a.report(ctx)(e, false)
	}
	return result, nil
}

// largeResult is the size from which a result is checked to fit into the history of its
// run.
const largeResult = 256 << 10

// noRoom is the failure of a call whose result would exceed Temporal's limit of the
// history, which would end the run at once. The run itself only knows the size at its last
// task.
func (a *Activities) noRoom(ctx context.Context, attempt workflows.Attempt, info activity.Info, result workflows.ToolResult) *workflows.Error {
	if a.opts.HistorySize == nil || info.IsLocalActivity || attempt.Call.MaxExpansion > 0 || len(result.Output) < largeResult {
		return nil
	}
	size, err := a.opts.HistorySize(ctx, info.WorkflowExecution.ID, info.WorkflowExecution.RunID)
	if err != nil {
		a.logger.WarnContext(ctx, "whether a large result fits into the history of its run cannot be read", "run", attempt.Call.RunID, "error", err)
		return nil
	}
	return attempt.NoRoom(size, result)
}

func blocks(content []backends.Content) []workflows.ContentBlock {
	blocks := make([]workflows.ContentBlock, len(content))
	for i, c := range content {
		blocks[i] = workflows.ContentBlock{Type: c.Type, Text: c.Text, Data: c.Data}
	}
	return blocks
}

// report logs a failure and returns it as Temporal knows it.
func (a *Activities) report(ctx context.Context) func(e *workflows.Error, repeat bool) error {
	return func(e *workflows.Error, repeat bool) error { return a.reportAfter(ctx, e, repeat, 0) }
}

// reportAfter is report with the pause before the call is repeated; 0 = the usual.
func (a *Activities) reportAfter(ctx context.Context, e *workflows.Error, repeat bool, pause time.Duration) error {
	a.logger.InfoContext(ctx, "tool call failed", "run", e.RunID, "step", e.StepPath, "tool", e.Tool,
		"attempt", e.Attempt, "code", e.Code, "retry", repeat, "error", e.Message)
	return workflows.ReportAfter(e, repeat, pause)
}

// showUnreachable is how long a call is repeated, or must pause, before its run shows
// that it waits for the backend.
const showUnreachable = 2 * time.Second

// worthShowing reports whether the run shows that a call was not sent before the call
// is made again. A run shows it once for a call, and only if there is another attempt.
func worthShowing(attempt workflows.Attempt, info activity.Info, pause time.Duration) bool {
	if info.IsLocalActivity || attempt.Call.Waits || info.RetryPolicy != nil && attempt.Number >= int(info.RetryPolicy.MaximumAttempts) {
		return false
	}
	return time.Since(info.ScheduledTime) >= showUnreachable || pause >= showUnreachable
}

// stepIsOver reports whether a call whose timeout the activity keeps, and not Temporal, has
// used it up.
func stepIsOver(attempt workflows.Attempt, info activity.Info) bool {
	limit := attempt.Call.Limit
	return limit > 0 && !attempt.WorthRepeating() && time.Since(info.ScheduledTime) >= limit
}

// unanswered is the failure of an attempt that gave no result.
func unanswered(ctx context.Context, attempt workflows.Attempt, err error) (e *workflows.Error, repeat bool) {
	var ce *backends.CallError
	outcome, reason := backends.Unknown, err.Error()
	if errors.As(err, &ce) {
		outcome, reason = ce.Outcome, ce.Err.Error()
	}
	switch {
	case errors.Is(err, errForgotten):
		return attempt.Lost(errForgotten.Error())
	case cancelledByRun(ctx):
		return attempt.Cancelled()
	case outcome == backends.Refused:
		return attempt.Refused(reason)
	case outcome == backends.CredentialsNeeded:
		return attempt.Unauthorized(reason)
	case outcome == backends.NotSent:
		return attempt.Unavailable(reason)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return attempt.TimedOut()
	case ce != nil && ce.Away:
		return attempt.TurnedDown(reason)
	case errors.Is(err, backends.ErrTooLarge):
		return attempt.Oversized(reason)
	}
	return attempt.Lost(reason)
}

// cancelledByRun reports whether an attempt was cancelled since its run is stopped, or does
// not wait for it any more. A worker that stops, and somebody who pauses or resets the
// activity at Temporal, end the attempt and not the run.
func cancelledByRun(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(ctx.Err(), context.Canceled) && !errors.Is(cause, worker.ErrWorkerShutdown) &&
		!errors.Is(cause, activity.ErrActivityPaused) && !errors.Is(cause, activity.ErrActivityReset)
}
