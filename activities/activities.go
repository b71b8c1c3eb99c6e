// Package activities does what workflows ask of the world: it calls backend
// tools, and tells known outcomes from unknown ones.
package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/backends"
	"github.com/perdure/perdure/workflows"
)

// heartbeatInterval is how often a call under way says that its worker is
// alive, and asks whether it was cancelled.
const heartbeatInterval = time.Second

// A Caller calls backend tools; *backends.Pool is one.
type Caller interface {
	Call(ctx context.Context, call backends.Call) (*backends.Result, error)
}

// Activities implements workflows.Activities.
type Activities struct {
	backends Caller
	logger   *slog.Logger
}

var _ workflows.Activities = (*Activities)(nil)

// New makes activities that call tools through backends. A nil logger discards.
func New(backends Caller, logger *slog.Logger) *Activities {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Activities{backends: backends, logger: logger}
}

// Register makes a worker execute the activities.
func Register(r worker.ActivityRegistry, a *Activities) {
	r.RegisterActivityWithOptions(a.CallTool, activity.RegisterOptions{Name: workflows.CallToolName})
}

// CallTool calls a backend tool once.
func (a *Activities) CallTool(ctx context.Context, call workflows.ToolCall) (workflows.ToolResult, error) {
	info := activity.GetInfo(ctx)
	progress := make(chan backends.Progress, 1)
	if !info.IsLocalActivity {
		stop := keepAlive(ctx, progress)
		defer stop()
	}
	res, err := a.backends.Call(ctx, backends.Call{
		Backend: call.Backend, Tool: call.Original, Arguments: call.Arguments,
		IdempotencyKey: call.IdempotencyKey, KeyArgument: call.KeyArgument,
		Progress: func(p backends.Progress) { offer(progress, p) },
	})
	f := failure{call: call, attempt: int(info.Attempt)}
	switch {
	case err != nil:
		return workflows.ToolResult{}, a.report(f.unanswered(ctx, err))
	case res.IsError:
		return workflows.ToolResult{}, a.report(f.answered(res))
	}
	output, err := Output(res)
	if err != nil {
		return workflows.ToolResult{}, a.report(f.unusable("invalid_output", workflows.CategoryTool, err.Error()))
	}
	switch size := workflows.PayloadSize(output); {
	case size > workflows.MaxResultSize:
		return workflows.ToolResult{}, a.report(f.unusable("output_too_large", workflows.CategoryLimit,
			fmt.Sprintf("the output has %d bytes; the limit is %d: ask the tool for less", size, workflows.MaxResultSize)))
	case info.IsLocalActivity && size > workflows.MaxLocalResultSize:
		e, _ := f.unusable("output_too_large_here", workflows.CategoryLimit, "the output does not fit into the workflow task")
		return workflows.ToolResult{}, reported(e, true) // no failure: it is called again on its own
	}
	return workflows.ToolResult{Output: output}, nil
}

// keepAlive sends heartbeats until stop is called. The first comes after one
// interval, so a quick call sends none.
func keepAlive(ctx context.Context, progress <-chan backends.Progress) (stop func()) {
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(heartbeatInterval)
		defer tick.Stop()
		var last backends.Progress
		for {
			select {
			case <-done:
				return
			case last = <-progress:
			case <-tick.C:
				activity.RecordHeartbeat(ctx, last)
			}
		}
	}()
	return func() { close(done) }
}

// offer hands progress on unless the last one was not taken yet.
func offer(to chan<- backends.Progress, p backends.Progress) {
	select {
	case to <- p:
	default:
	}
}

// report logs a failure and returns it as reported does.
func (a *Activities) report(e *workflows.Error, retry bool) error {
	a.logger.Info("tool call failed", "run", e.RunID, "step", e.StepPath, "tool", e.Tool,
		"attempt", e.Attempt, "code", e.Code, "retry", retry, "error", e.Message)
	return reported(e, retry)
}

// reported is a failure as Temporal knows it.
func reported(e *workflows.Error, retry bool) error {
	return temporal.NewApplicationErrorWithOptions(e.Message, string(e.Category),
		temporal.ApplicationErrorOptions{NonRetryable: !retry, Details: []any{*e}})
}

// A failure says what went wrong with one attempt of a call, and whether it
// may be repeated.
type failure struct {
	call    workflows.ToolCall
	attempt int
}

func (f failure) error(code string, category workflows.Category, format string, args ...any) *workflows.Error {
	return &workflows.Error{
		Code: code, Category: category, Message: "step " + f.call.StepPath + ": " + fmt.Sprintf(format, args...),
		StepID: f.call.StepID, StepPath: f.call.StepPath, Tool: f.call.Tool, Attempt: f.attempt, RunID: f.call.RunID,
	}
}

// answered is the failure of a call that the backend answered with an error: a
// known outcome, repeated as often as onError says.
func (f failure) answered(res *backends.Result) (*workflows.Error, bool) {
	e := f.error("tool_error", workflows.CategoryTool, "%s failed: %s", f.call.Tool, Message(res))
	e.Retryable = true
	return e, f.attempt < f.call.MaxAttempts
}

// unusable is the failure of a call that was executed and whose result cannot
// be used. Repeating it cannot help.
func (f failure) unusable(code string, category workflows.Category, what string) (*workflows.Error, bool) {
	return f.error(code, category, "%s: %s", f.call.Tool, what), false
}

// unanswered is the failure of a call that gave no result.
func (f failure) unanswered(ctx context.Context, err error) (*workflows.Error, bool) {
	var ce *backends.CallError
	outcome := backends.Unknown
	if errors.As(err, &ce) {
		outcome, err = ce.Outcome, ce.Err
	}
	repeatable := workflows.Repeatable(f.call.Effect)
	switch {
	case errors.Is(ctx.Err(), context.Canceled) && !errors.Is(context.Cause(ctx), worker.ErrWorkerShutdown):
		return f.error("cancelled", workflows.CategoryCancelled, "%s was cancelled", f.call.Tool), false
	case outcome == backends.Refused:
		e := f.error("refused", workflows.CategoryTool, "%s was refused: %s", f.call.Tool, err)
		return e, f.attempt < f.call.MaxAttempts
	case outcome == backends.NotSent:
		e := f.error("backend_unavailable", workflows.CategoryTool, "%s was not called, backend %s cannot be reached: %s", f.call.Tool, f.call.Backend, err)
		e.Retryable = true
		return e, true
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		e := f.error("step_timeout", workflows.CategoryTimeout, "timed out waiting for %s", f.call.Tool)
		return f.unknown(e, repeatable)
	}
	return f.unknown(f.error("connection_lost", workflows.CategoryTool, "%s gave no answer: %s", f.call.Tool, err), repeatable)
}

// unknown marks an error after which the call may or may not have been
// executed.
func (f failure) unknown(e *workflows.Error, repeatable bool) (*workflows.Error, bool) {
	e.Retryable = repeatable
	if !repeatable {
		e.Category = workflows.CategoryOutcomeUnknown
		e.Message += fmt.Sprintf("; whether %s was executed is not known, so it is not called again", f.call.Tool)
	}
	return e, repeatable
}

// Output is a tool's result as steps see it: structuredContent where that is
// an object; otherwise the content blocks by name: text, text_1, …, image_0, …
// as base64, resource, resource_1, … as text or base64. Audio and links have no
// name and are left out. Without anything it is the empty object.
func Output(res *backends.Result) (json.RawMessage, error) {
	if isObject(res.Structured) {
		return res.Structured, nil
	}
	out := map[string]string{}
	var texts, images, resources int
	for _, c := range res.Content {
		switch c.Type {
		case "text":
			out[numbered("text", texts)] = c.Text
			texts++
		case "image":
			out[fmt.Sprintf("image_%d", images)] = c.Data
			images++
		case "resource":
			out[numbered("resource", resources)] = c.Text + c.Data
			resources++
		}
	}
	return marshal(out)
}

func numbered(name string, n int) string {
	if n == 0 {
		return name
	}
	return fmt.Sprintf("%s_%d", name, n)
}
