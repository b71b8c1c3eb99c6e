package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows/record"
)

// Undoing is what a run can undo, and what it has undone.
type undoing struct {
	*origin
	journal  *record.Journal
	calls    *calls
	gates    *gates
	sent     *sent
	failures *failures

	items   []undoable                                              // that have completed, in this order
	times   map[StepPath]int                                        // by step path: how often it was undone
	scopeAt func(ctx workflow.Context, at place) *definitions.Scope // what templates see
}

// An undoable is a completed step with a compensation, where it completed.
type undoable struct {
	node   *definitions.Node // nil of a call of a script
	at     place
	output any
	order  int // of completion

	call *record.Undo // of a call of a script; nil = from the step
}

// retries is an onError with so many retries; nil of none.
func retries(n int, delay time.Duration) *definitions.OnError {
	if n == 0 {
		return nil
	}
	return &definitions.OnError{Action: definitions.Retry, RetryCount: n, RetryDelay: definitions.Duration(delay)}
}

// canUndo remembers a completed step that has a compensation.
func (un *undoing) canUndo(n *definitions.Node, at place, out Outcome) {
	if n.Step.Compensate != nil && out.status == stepCompleted {
		un.items = append(un.items, undoable{node: n, at: at, output: out.output, order: un.journal.At(at.path).Order})
	}
}

// canUndoItems remembers the completed items of a forEach that had failed in an
// execution before this one, where they have a compensation.
func (un *undoing) canUndoItems(ctx workflow.Context, n *definitions.Node, at place) {
	switch {
	case n.Inner == nil:
		un.canUndoBefore(n, at)
		return
	case !canBeUndone(n):
		return
	}
	items, err := n.Collection(un.scopeAt(ctx, at))
	if err != nil {
		return // it had none
	}
	l := &loop{node: n, at: at, items: items}
	for i := range items {
		_, inner := l.place(i)
		un.canUndoItems(ctx, n.Inner, inner)
	}
}

func canBeUndone(n *definitions.Node) bool {
	return n.Step.Compensate != nil || n.Inner != nil && canBeUndone(n.Inner)
}

// canUndoBefore remembers a step that an execution before has completed.
func (un *undoing) canUndoBefore(n *definitions.Node, at place) {
	e, _ := un.journal.Earlier(at.path)
	if n.Step.Compensate == nil || e.Failure() != nil || e.Output() == nil {
		return
	}
	if output, err := template.DecodeValue(e.Output()); err == nil {
		un.items = append(un.items, undoable{node: n, at: at, output: output, order: e.Order})
	}
}

// canUndoCalls remembers what scripts have done in the executions before this one
// to which it has not come: calls of steps that had failed there, of branches that
// were stopped, and of what has run out of its time.
func (un *undoing) canUndoCalls() {
	for path, e := range un.journal.Ahead() {
		if undo := e.Undo(); undo != nil {
			un.items = append(un.items, undoable{at: place{path: path}, order: e.Order, call: undo})
		}
	}
}

// compensate undoes the completed steps of a failed run, the last first. It
// outlives the cancellation and the timeout of the run.
func (un *undoing) compensate(ctx workflow.Context, f *Failure) {
	un.canUndoCalls()
	if len(un.items) == 0 {
		return
	}
	ctx, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	ctx = workflow.WithValue(ctx, endKey{}, time.Time{}) // nothing ends it
	un.failures.undoes()
	// After the run was continued, what had completed came in another order.
	slices.SortStableFunc(un.items, func(a, b undoable) int { return a.order - b.order })
	for _, u := range slices.Backward(un.items) {
		if un.undoStep(ctx, u) {
			f.Compensated = append(f.Compensated, u.at.path)
		} else {
			f.Uncompensated = append(f.Uncompensated, u.at.path)
		}
	}
}

// undoStep undoes one step and reports whether it is undone. Where the
// compensation fails, the run waits for a person to decide.
func (un *undoing) undoStep(ctx workflow.Context, u undoable) bool {
	path := u.at.path.Compensation()
	var failed time.Time // the attempt before
	for attempt := 1; ; attempt++ {
		failure := un.callCompensation(ctx, u, path, attempt, failed)
		if failure == nil {
			un.times[u.at.path]++
			return true
		}
		failed = workflow.Now(ctx)
		answer, asked := un.gates.ask(ctx, Elicitation{
			Kind: Compensation, StepPath: path, Schema: anything,
			Message: fmt.Sprintf("%s could not be undone: %s. Accept if it has been undone by hand, decline to try again, cancel to leave it.", u.at.path, failure.Message),
		}, 0)
		if asked != nil || answer.Action == Cancel { // which does not say what became of the call
			return false
		}
		un.sent.settled(path.Attempt(attempt))
		if answer.Action == Accept {
			un.times[u.at.path]++
			return true
		}
	}
}

// callCompensation calls it once. Its key is that of all attempts: whether the
// one before was executed may not be known.
func (un *undoing) callCompensation(ctx workflow.Context, u undoable, path StepPath, attempt int, failed time.Time) *Error {
	c := u.undoing()
	tool, ok := un.in.Tools[c.Tool]
	if u.call != nil {
		tool, ok = un.tool(c.Tool)
	}
	if !ok {
		return &Error{Code: codes.UnknownTool, Category: codes.CategoryTool,
			Message: fmt.Sprintf("no backend offered the tool %s when the run started", c.Tool)}
	}
	args, err := un.undoArguments(ctx, u, tool)
	switch {
	case err != nil && u.call != nil:
		return &Error{Code: codes.TemplateFailed, Category: codes.CategoryTemplate, Tool: c.Tool, Message: fmt.Sprintf("step %s: %s", u.at.path, err)}
	case err != nil:
		return templateError(u.node, u.at, err)
	}
	limit := time.Duration(c.Timeout)
	if limit == 0 {
		limit = definitions.DefaultStepTimeout
	}
	_, failure := un.calls.call(ctx, request{
		tool: tool, path: path.Attempt(attempt), keyPath: un.keyPath(u.at.path, path),
		args: args, limit: limit, onError: c.OnError, undoes: true,
		anew: failed, // and tried again on a person's request
	})
	return failure
}

// undoing is the call that undoes a step, or a call of a script.
func (u undoable) undoing() *definitions.Compensation {
	if u.call == nil {
		return u.node.Step.Compensate
	}
	return &definitions.Compensation{Tool: u.call.Tool, Timeout: definitions.Duration(u.call.Timeout), OnError: retries(u.call.Retries, u.call.Delay)}
}

func (un *undoing) undoArguments(ctx workflow.Context, u undoable, tool definitions.Tool) (json.RawMessage, error) {
	switch {
	case u.call == nil:
		scope := un.scopeAt(ctx, u.at)
		scope.Output = u.output
		return u.node.Compensation(scope, tool.InputSchema)
	case u.call.Error != "":
		return nil, errors.New(u.call.Error)
	}
	return template.Typed(u.call.Args.JSON, u.call.Args.Typed, tool.InputSchema)
}

// anything is the schema of an elicitation whose answer needs no content.
var anything = json.RawMessage(`{"properties":{},"type":"object"}`)

// undoableCall remembers a call of a script that can be undone.
func (un *undoing) undoableCall(path StepPath, undo *record.Undo) {
	e := un.journal.NoteUndo(path, undo)
	un.items = append(un.items, undoable{at: place{path: path}, order: e.Order, call: undo})
}

// addTo adds the undone paths to a journal, and how often each was undone.
func (un *undoing) addTo(j *RunRecord) {
	for _, path := range slices.Sorted(maps.Keys(un.times)) {
		j.Undone[path] += un.times[path]
		j.Redo = append(j.Redo, path)
	}
}

// covers reports whether what was done at a path was undone, alone or with the run that
// has done it.
func (un *undoing) covers(path StepPath) bool {
	undone := false
	//workflowcheck:ignore whether there is any
	for step := range un.times {
		undone = undone || step.Covers(path)
	}
	return undone
}
