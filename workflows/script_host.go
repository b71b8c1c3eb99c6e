package workflows

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows/record"
	"github.com/perdure/perdure/workflows/script"
)

// A scriptHost does what a script asks of the world, as steps of a graph would.
// Each call has a step path below that of the script, and all that belongs to
// steps goes by that: the journal, keys, questions, credentials.
type scriptHost struct {
	run     *run
	node    *definitions.Node
	at      place
	waiting []scriptWait // what the script waits for, oldest first
}

// A scriptWait is where a script waits, and for what.
type scriptWait struct {
	site script.Site
	what string
}

func (h *scriptHost) path(site script.Site) StepPath { return h.at.path.Below(StepPath(site.Path)) }

// wait notes where the script waits until done is called.
func (h *scriptHost) wait(ctx workflow.Context, site script.Site, what string) (done func()) {
	h.waiting = append(h.waiting, scriptWait{site, what})
	h.run.board.showDetails(ctx)
	return func() {
		h.waiting = slices.DeleteFunc(h.waiting, func(w scriptWait) bool { return w.site.Path == site.Path })
		h.run.board.showDetails(ctx)
	}
}

// maxShownWaits bounds the places that are named of a script with many branches.
const maxShownWaits = 5

// waits lists the lines at which the script waits, for a message; "" = none.
func (h *scriptHost) waits() string {
	text := ""
	for i, w := range h.waiting {
		if i == maxShownWaits {
			return text + fmt.Sprintf(" and %d more", len(h.waiting)-i)
		}
		text += fmt.Sprintf("%s line %d of %s (%s)", []string{", at", ","}[min(i, 1)], w.site.Line, w.site.File, w.what)
	}
	return text
}

// endedBefore is the failure that an execution before has recorded at a place of
// the script, or with which it was stopped there.
func (h *scriptHost) endedBefore(ctx workflow.Context, path StepPath) *script.Error {
	was, ok := h.run.journal.Begun(path)
	if stopped := h.ranOut(ctx, path); stopped != nil {
		return stopped
	}
	call, _ := was.Kind.(record.Call)
	if !ok || was.Failure() == nil || call.OutcomeUnknown != nil {
		return nil
	}
	h.run.journal.Note(path, was.Kind)
	reported := h.report(was.Failure())
	reported.Unknown = reported.Unknown || h.run.ledger.outcomeUnknown(path)
	return reported
}

// ranOut stops a script where an execution before has recorded nothing, since its
// time was over there.
func (h *scriptHost) ranOut(ctx workflow.Context, path StepPath) *script.Error {
	was, known := h.run.journal.Begun(path)
	_, timed := was.Kind.(record.Deadline)
	if _, over := script.DeadlineExceeded(ctx); !over || known && (was.Done() || was.Failure() != nil || timed) {
		return nil
	}
	stopped := h.stopped(path)
	_, stopped.Unknown = h.run.ledger.unknownAt(path, was)
	return stopped
}

// Call calls a tool, as a tool step does.
func (h *scriptHost) Call(ctx workflow.Context, site script.Site, call script.ToolCall) (json.RawMessage, error) {
	path := h.path(site)
	if failed := h.endedBefore(ctx, path); failed != nil {
		return nil, failed
	}
	tool, ok := h.run.tool(call.Tool)
	var mistyped error
	if ok {
		call.Args, mistyped = template.Typed(call.Args, call.Typed, tool.InputSchema)
	}
	if mistyped != nil {
		return nil, h.fail(ctx, path, call, &Error{Code: codes.TemplateFailed, Category: codes.CategoryTemplate, Tool: call.Tool,
			Message: fmt.Sprintf("step %s: arguments: %s", path, mistyped)})
	}
	if !ok {
		return nil, h.fail(ctx, path, call, &Error{Code: codes.UnknownTool, Category: codes.CategoryTool, Tool: call.Tool,
			Message: fmt.Sprintf("step %s: no backend offered the tool %s when the run started, or the definition does not list it in tools", path, call.Tool)})
	}
	if was, _ := h.run.journal.Earlier(path); was.Exact && was.Failure() != nil && was.Digest() == record.DigestOf(call.Args) {
		return nil, h.fail(ctx, path, call, was.Failure())
	}
	if n := record.PayloadSize(call.Args); n > MaxResultSize {
		return nil, h.fail(ctx, path, call, &Error{Code: codes.ArgumentsTooLarge, Category: codes.CategoryLimit, Tool: call.Tool,
			Message: fmt.Sprintf("step %s: the arguments have %d bytes; the limit is %d", path, n, MaxResultSize)})
	}
	limit := call.Timeout
	if limit == 0 {
		limit = definitions.DefaultStepTimeout
	}
	defer h.wait(ctx, site, "calls "+call.Tool)()
	result, failure := h.run.calls.call(ctx, request{
		tool: tool, path: path, keyPath: h.run.keyPath(path, path), args: call.Args, limit: limit, onError: retries(call.Retries, call.Delay),
		onUnknown: cmp.Or(definitions.OnUnknown(call.OnUnknown), tool.OnUnknown), undoable: call.Undo != nil,
		probe: func() (*probe, error) { return h.run.scriptProbe(ctx, h, call.Probe, tool) },
	})
	if failure != nil {
		return nil, h.fail(ctx, path, call, failure)
	}
	if call.Undo != nil {
		h.run.undo.undoableCall(path, call.Undo(result.Output))
	}
	return result.Output, nil
}

// fail keeps that a call has failed, which the script may continue from, for the
// execution after this one.
func (h *scriptHost) fail(ctx workflow.Context, path StepPath, call script.ToolCall, e *Error) *script.Error {
	made, _ := h.run.journal.At(path).Kind.(record.Call)
	made.Digest, made.Tool, made.Error = cmp.Or(made.Digest, record.DigestOf(call.Args)), call.Tool, e
	return h.noteFailed(ctx, path, made, e)
}

// failWorkflow keeps the same of a call of a composite tool.
func (h *scriptHost) failWorkflow(ctx workflow.Context, path StepPath, call script.WorkflowCall, e *Error) *script.Error {
	child, _ := h.run.journal.At(path).Kind.(record.Child)
	child.Digest, child.Error = cmp.Or(child.Digest, record.DigestOf(call.Args)), e
	return h.noteFailed(ctx, path, child, e)
}

func (h *scriptHost) noteFailed(ctx workflow.Context, path StepPath, k record.Kind, e *Error) *script.Error {
	if e.StepPath == "" {
		e.StepID, e.StepPath = path.Top(), path
	}
	if ctx.Err() == nil || e.Category != codes.CategoryCancelled {
		h.run.journal.Note(path, k)
	}
	reported := h.report(e)
	reported.Fatal = ctx.Err() != nil && e.Category == codes.CategoryCancelled
	reported.Unknown = reported.Unknown || h.run.ledger.outcomeUnknown(path)
	return reported
}

// report is an error of the run as scripts see it.
func (h *scriptHost) report(e *Error) *script.Error {
	return &script.Error{
		Code: e.Code, Category: e.Category, Message: e.Message, Tool: e.Tool, Path: string(e.StepPath), Attempt: e.Attempt,
		Retryable: e.Retryable, Final: e.Category == codes.CategoryOutcomeUnknown || e.Category == codes.CategoryPermission,
		Unknown: e.Category == codes.CategoryOutcomeUnknown,
	}
}

// failure is the error of a script as the run sees it.
func (h *scriptHost) failure(ctx workflow.Context, e *script.Error) *Error {
	path := h.at.path
	switch {
	case path != StepPath(e.Path) && path.Covers(StepPath(e.Path)): // of the call that failed
		path = StepPath(e.Path)
	case e.Site.Path != "":
		path = h.path(e.Site)
	}
	failure := &Error{
		Code: e.Code, Category: e.Category, Message: e.Message, Tool: e.Tool, Attempt: e.Attempt, Retryable: e.Retryable,
		StepID: path.Top(), StepPath: path, Backtrace: e.Backtrace,
	}
	if e.Fatal && ctx.Err() != nil {
		failure.Code, failure.Category = codes.Cancelled, codes.CategoryCancelled
	}
	return failure
}

// stopped is the error of a script that is being stopped.
func (h *scriptHost) stopped(path StepPath) *script.Error {
	return &script.Error{Code: codes.Cancelled, Category: codes.CategoryCancelled, Message: fmt.Sprintf("step %s was cancelled", path), Path: string(path), Fatal: true}
}

// Elicit asks a person, as an elicitation step does.
func (h *scriptHost) Elicit(ctx workflow.Context, site script.Site, q script.Question) (script.Answer, error) {
	path := h.path(site)
	if stopped := h.ranOut(ctx, path); stopped != nil {
		return script.Answer{}, stopped
	}
	e := Elicitation{StepPath: path, Message: q.Message, Schema: anything, Approvers: q.Approvers, Unchecked: !q.Validate}
	if definitions.Mode(q.Mode) == definitions.URLMode {
		e.Mode = definitions.URLMode
	}
	if len(q.Schema) > 0 {
		schema, err := definitions.ParseQuestion(q.Schema)
		if err != nil {
			return script.Answer{}, &script.Error{Code: codes.ElicitationSchema, Category: codes.CategoryValidation, Path: string(path),
				Message: fmt.Sprintf("step %s: %s", path, err)}
		}
		e.Schema = schema.Form()
	}
	limit := q.Timeout
	if limit == 0 {
		limit = definitions.DefaultStepTimeout
	}
	defer h.wait(ctx, site, "waits for an answer")()
	answer, failure := h.run.ask(ctx, e, limit)
	if failure != nil {
		failed := h.report(failure)
		failed.Path, failed.Fatal = string(path), failure.Category == codes.CategoryCancelled
		return script.Answer{}, failed
	}
	return script.Answer{Action: answer.Action, Content: answer.Content, By: answer.AnsweredBy, At: answer.At}, nil
}

// CallWorkflow calls another composite tool, as a workflow step does.
func (h *scriptHost) CallWorkflow(ctx workflow.Context, site script.Site, call script.WorkflowCall) (json.RawMessage, error) {
	path, ref := h.path(site), call.Name
	if call.Version != "" {
		ref += "@" + call.Version
	}
	if failed := h.endedBefore(ctx, path); failed != nil {
		return nil, failed
	}
	if !h.node.CallsByName(ref) {
		return nil, h.failWorkflow(ctx, path, call, &Error{Code: codes.UnknownWorkflow, Category: codes.CategoryTool, Tool: ref,
			Message: fmt.Sprintf("step %s: the composite tool %s is called by a name that the script computes, and the definition does not list it in tools", path, ref)})
	}
	defer h.wait(ctx, site, "calls "+ref)()
	result, failure := h.run.children.callWorkflow(ctx, childCall{
		path: path, keyPath: h.run.keyPath(path, path), undoable: call.Undo != nil, workflow: ref, limit: call.Timeout,
		arguments: func(schema json.RawMessage) (json.RawMessage, error) {
			return template.Typed(call.Args, call.Typed, schema)
		},
	})
	if failure != nil {
		failed := h.failWorkflow(ctx, path, call, failure)
		failed.Tool = cmp.Or(failed.Tool, ref)
		if _, lines, ok := strings.Cut(failure.Backtrace, "\n"); ok { // after its heading
			failed.Backtrace = "In " + ref + ":\n" + lines
		}
		return nil, failed
	}
	if call.Undo != nil {
		h.run.undo.undoableCall(path, call.Undo(result))
	}
	return result, nil
}

// Sleep waits, as a wait step does: when it ends is recorded when it begins.
func (h *scriptHost) Sleep(ctx workflow.Context, site script.Site, d time.Duration) error {
	path := h.path(site)
	if stopped := h.ranOut(ctx, path); stopped != nil {
		return stopped
	}
	if failure := h.run.calls.room(ctx, path); failure != nil {
		return h.report(failure)
	}
	until := h.time(path, workflow.Now(ctx).Add(d))
	if end, over := script.DeadlineExceeded(ctx); over && until.After(end) {
		return h.stopped(path)
	}
	defer h.wait(ctx, site, "sleeps until "+until.Format(time.RFC3339))()
	h.run.tasks.carries(ctx)
	timer := workflow.NewTimerWithOptions(ctx, max(until.Sub(workflow.Now(ctx)), 0), workflow.TimerOptions{
		Summary: Summary(path, WaitsUntil+until.Format(time.RFC3339)),
	})
	if err := timer.Get(ctx, nil); err != nil {
		return h.stopped(path)
	}
	return nil
}

// Now is the time at which the script first reached a place.
func (h *scriptHost) Now(ctx workflow.Context, site script.Site) (time.Time, error) {
	path := h.path(site)
	if stopped := h.ranOut(ctx, path); stopped != nil {
		return time.Time{}, stopped
	}
	return h.time(path, workflow.Now(ctx)), nil
}

// Began is when a within began, and how it has ended in an execution before.
func (h *scriptHost) Began(ctx workflow.Context, site script.Site) (record.Deadline, error) {
	path := h.path(site)
	if stopped := h.ranOut(ctx, path); stopped != nil {
		return record.Deadline{}, stopped
	}
	deadline := record.Deadline{Began: workflow.Now(ctx).UTC()}
	if was, ok := h.run.journal.Begun(path); ok {
		if before, ok := was.Kind.(record.Deadline); ok {
			deadline = before
		}
	}
	h.run.journal.Note(path, deadline)
	return deadline, nil
}

// After does something when a time is over.
func (h *scriptHost) After(ctx workflow.Context, site script.Site, until time.Time, then func()) workflow.Context {
	h.run.deadlines.after(ctx, until, Summary(h.path(site), "timeout"), then)
	return endsBy(ctx, until)
}

// Ended keeps how a within has ended for the execution after this one.
func (h *scriptHost) Ended(site script.Site, deadline record.Deadline) {
	h.run.journal.Note(h.path(site), deadline)
}

// time records a time at a place, or gives what was recorded there.
func (h *scriptHost) time(path StepPath, t time.Time) time.Time {
	wait, ok := record.Found[record.Wait](h.run.journal, path, "")
	if !ok {
		wait = record.Wait{Until: t.UTC()}
	}
	h.run.journal.Note(path, wait)
	return wait.Until
}

// Log sends a line to those who follow the run.
func (h *scriptHost) Log(ctx workflow.Context, site script.Site, text string) {
	workflow.GetLogger(ctx).Info(text, "step", h.path(site), "line", site.Line)
	h.run.scripts.say(ctx, ScriptLine{StepPath: h.path(site), Message: text})
}

// Progress reports how far the script is.
func (h *scriptHost) Progress(ctx workflow.Context, site script.Site, p script.Progress) {
	if p.Done == 0 && p.Total == 0 {
		p.Message = cmp.Or(p.Message, "0") // without a message or number
	}
	h.run.scripts.say(ctx, ScriptLine{StepPath: h.path(site), Message: p.Message, Done: p.Done, Total: p.Total})
}

// Decide keeps which branches count for the execution after this one.
func (h *scriptHost) Decide(site script.Site, branches script.Branches) {
	h.run.journal.Note(h.path(site), record.Branches{Count: branches.Branches, Failed: branches.Failed})
}

// Decided is what an execution before has kept.
func (h *scriptHost) Decided(site script.Site) *script.Branches {
	was, begun := h.run.journal.Begun(h.path(site))
	branches, ok := was.Kind.(record.Branches)
	if !begun || !ok {
		return nil
	}
	h.run.journal.Note(h.path(site), branches)
	return &script.Branches{Branches: branches.Count, Failed: branches.Failed,
		Unknown: branches.Failed && h.run.ledger.outcomeUnknownBelow(h.path(site).Items())}
}
