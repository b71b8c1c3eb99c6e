package workflows

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows/record"
)

// Started is the input of an execution. An entry that only another build knows fails the
// workflow task, which goes to another worker; an error of decoding would end the run.
type Started struct {
	RunInput
	unread error
}

// UnmarshalJSON keeps the error of an entry of an unknown kind.
func (s *Started) UnmarshalJSON(data []byte) error {
	err := json.Unmarshal(data, &s.RunInput)
	if unknown := (*record.UnknownKindError)(nil); errors.As(err, &unknown) {
		s.unread = unknown
		return nil
	}
	return err
}

// compositeTool is the workflow of every type that has none of its own: one call of the
// composite tool of that name.
func (i *interpreter) compositeTool(ctx workflow.Context, input converter.EncodedValues) (*RunResult, error) {
	var started Started
	if err := input.Get(&started); err != nil {
		return nil, fmt.Errorf("reading the input of the run: %w", err)
	}
	mustRead(started.unread, "the input of the run")
	in := started.RunInput
	prog, err := i.program(in.Definition)
	if err != nil {
		return nil, failed(&Failure{Error: Error{
			Code: codes.InvalidDefinition, Category: codes.CategoryValidation, Message: err.Error(),
			RunID: workflow.GetInfo(ctx).WorkflowExecution.ID,
		}})
	}
	r, err := newRun(ctx, in, prog, i)
	if err != nil {
		return nil, err
	}
	return r.execute(ctx)
}

// execute runs the graph, and waits for its end.
func (r *run) execute(ctx workflow.Context) (*RunResult, error) {
	ctx = r.failures.cancellable(ctx)
	if err := r.answerQueries(ctx); err != nil {
		return nil, err
	}
	r.tasks.bound(ctx)
	r.listen(ctx)
	r.watch(ctx)
	defer r.deadlines.forget()
	ctx = r.keepTime(ctx)
	r.steps.begin(ctx)
	// The wait itself must outlive a cancelled run: its steps still settle.
	wait, stopWaiting := workflow.NewDisconnectedContext(ctx)
	defer stopWaiting()
	for {
		if err := workflow.Await(wait, func() bool { return r.steps.settled() || r.drained(ctx) }); err != nil {
			return nil, err
		}
		switch {
		case r.steps.settled():
			return r.finish(ctx)
		case r.tasks.fits(ctx, r.journal.Bytes()):
			return nil, r.continueAsNew(ctx)
		}
		r.tasks.next(ctx)
	}
}

// watch lets the run see events: a new workflow task, a timer, a signal. It is one
// coroutine for all, which outlives a cancelled run: compensations ask, and called runs
// report, until it ends.
func (r *run) watch(ctx workflow.Context) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	workflow.GoNamed(ctx, "watch", func(ctx workflow.Context) {
		happens := func() bool {
			r.tasks.current(ctx)
			return r.deadlines.due(ctx) || r.signals.arrived()
		}
		for workflow.Await(ctx, happens) == nil {
			r.deadlines.pass(ctx)
			r.signals.receive(ctx)
		}
	})
}

// keepTime ends the run at the definition's timeout, which is also the end of the context
// that it returns.
func (r *run) keepTime(ctx workflow.Context) workflow.Context {
	limit := cmp.Or(r.in.Limit, time.Duration(definitions.RunTimeout(r.program.Definition)))
	until := r.started.Add(limit)
	r.deadlines.after(ctx, until, "timeout of the run", func() {
		r.failures.abort(&Error{
			Code: codes.RunTimeout, Category: codes.CategoryTimeout, Retryable: true,
			Message: fmt.Sprintf("%s timed out after %s%s", r.in.Definition.Name, limit, r.steps.unfinished()),
		})
	})
	return endsBy(ctx, until)
}

// drained reports whether a run that is to continue as new has nothing under way but
// unanswered elicitations and called runs.
func (r *run) drained(ctx workflow.Context) bool {
	return r.budget.idle() && !r.signals.arrived() && ctx.Err() == nil && r.budget.draining(ctx)
}

// continueAsNew continues in a new execution, with the journal and the open elicitations
// in its input.
func (r *run) continueAsNew(ctx workflow.Context) error {
	r.board.clearHold(ctx)
	next := r.in
	next.Continued, next.Started, next.Parent = true, r.started, r.parent.known()
	next.Journal = record.Carry(r.journal.Whole(), record.Terms{Reason: record.Continued})
	for _, part := range []interface{ next(*RunInput) }{r.sent, r.holds, r.elicitations, r.signals, r.children} {
		part.next(&next)
	}
	return workflow.NewContinueAsNewError(workflow.WithWorkflowTaskTimeout(ctx, LongTask), next.WorkflowType(), next)
}

// finish makes the result of a run whose steps have all settled.
func (r *run) finish(ctx workflow.Context) (*RunResult, error) {
	r.children.endUnreached(ctx)
	r.lookForUndone(ctx)
	r.failures.settle(r.steps.unfinished())
	var output json.RawMessage
	if r.failures.why() == nil {
		var err *Error
		if output, err = r.output(ctx); err != nil {
			r.failures.fail(err)
		}
	}
	if why := r.failures.why(); why != nil {
		return nil, r.fail(ctx, why)
	}
	result := &RunResult{Output: output, Errors: r.failures.survived(), Skipped: r.steps.skipped()}
	r.ledger.settleErrors(result)
	r.board.publish(ctx, Completed)
	r.parent.leave(ctx)
	if brought := r.parent.resultToBring(ctx, result); brought != result {
		return brought, nil
	}
	r.parent.makeRoom(ctx, record.PayloadSize(output))
	return result, nil
}

// lookForUndone has a run fail that was reset to behind what was undone since: it takes that
// for done.
func (r *run) lookForUndone(ctx workflow.Context) {
	if !r.in.WasReset || r.failures.why() != nil || workflow.GetVersion(ctx, "look for what was undone", workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return
	}
	var undone []StepPath
	if err := r.children.read(ctx, r.id, UndoneName, "", &undone); err == nil && len(undone) > 0 {
		r.failures.fail(&Error{Code: codes.UndoneSince, Category: codes.CategoryTool, Message: undoneSince(undone[0]), StepID: undone[0].Top(), StepPath: undone[0]})
	}
}

// output is the result of the run: the output block, or the output of the last
// completed step.
func (r *run) output(ctx workflow.Context) (json.RawMessage, *Error) {
	out, err := r.program.Output(r.steps.scope(ctx, Completed), func(path string) {
		workflow.GetLogger(ctx).Warn("the default of an output property is used, since it has no value of its type", "property", path)
	})
	if err == nil && out == nil && r.program.Definition.Output == nil {
		out, err = r.steps.lastOutput()
	}
	if err != nil {
		return nil, &Error{Code: codes.OutputFailed, Category: codes.CategoryTemplate, Message: err.Error()}
	}
	if size := record.PayloadSize(out) + r.failures.bytes(); size > r.maxValue() {
		return nil, &Error{Code: codes.ResultTooLarge, Category: codes.CategoryLimit,
			Message: fmt.Sprintf("the result has %d bytes; the limit is %d: let the output block select what is needed", size, r.maxValue())}
	}
	return out, nil
}

// fail compensates completed steps, and makes the error of the run.
func (r *run) fail(ctx workflow.Context, why *Error) error {
	f := &Failure{Error: *why, Skipped: r.steps.skipped()}
	partial := newPartial()
	r.steps.partial(partial)
	r.children.addFailed(f, partial)
	f.Partial, f.Omitted = partial.outputs, partial.omitted
	r.undo.compensate(ctx, f)
	r.ledger.settleEffects(f)
	status, cancelled := Failed, why.Category == codes.CategoryCancelled
	switch {
	case cancelled:
		status = Cancelled
	case why.Category == codes.CategoryTimeout && why.StepID == "":
		status = TimedOut
	}
	r.board.publish(ctx, status)
	r.parent.leave(ctx)
	if f = r.parent.failureToBring(ctx, f); cancelled {
		return temporal.NewCanceledError(*f)
	}
	return failed(f)
}
