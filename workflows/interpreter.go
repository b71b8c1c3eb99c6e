package workflows

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows/record"
)

// Register makes a worker run definitions.
func Register(r worker.WorkflowRegistry, trust Trust) {
	i := &interpreter{programs: map[string]*definitions.Program{}, trust: &trustee{Trust: trust}}
	r.RegisterWorkflowWithOptions(i.CompositeTool, workflow.RegisterOptions{Name: WorkflowType})
	r.RegisterWorkflowWithOptions(BackendHost, workflow.RegisterOptions{Name: HostType, VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade})
	r.RegisterWorkflowWithOptions(Deliveries, workflow.RegisterOptions{Name: DeliveriesType, VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade})
	r.RegisterWorkflowWithOptions(BackendPermit, workflow.RegisterOptions{Name: PermitType})
}

// An interpreter keeps compiled definitions between workflow tasks. A program
// is a pure function of its digest, so what it keeps never shows in a run.
type interpreter struct {
	trust    *trustee
	mu       sync.Mutex
	programs map[string]*definitions.Program
}

// maxPrograms bounds the compiled definitions that are kept.
const maxPrograms = 1000

func (i *interpreter) program(p Pinned) (*definitions.Program, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if prog, ok := i.programs[p.Digest]; ok {
		return prog, nil
	}
	d, err := definitions.FromSource(p.Source)
	if err != nil {
		return nil, fmt.Errorf("reading definition %s: %w", p.Name, err)
	}
	prog, err := definitions.Compile(d)
	if err != nil {
		return nil, fmt.Errorf("compiling definition %s: %w", p.Name, err)
	}
	if len(i.programs) >= maxPrograms {
		clear(i.programs)
	}
	i.programs[p.Digest] = prog
	return prog, nil
}

// CompositeTool is the workflow: one call of a composite tool.
func (i *interpreter) CompositeTool(ctx workflow.Context, in RunInput) (*RunResult, error) {
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

// execute runs the graph: each step in a coroutine of its own, which starts
// the moment its own dependencies have settled.
func (r *run) execute(ctx workflow.Context) (*RunResult, error) {
	ctx = r.failures.cancellable(ctx)
	if err := r.answerQueries(ctx); err != nil {
		return nil, err
	}
	r.tasks.bound(ctx)
	ctx = r.keepTime(ctx)
	r.listen(ctx)

	left := len(r.program.Steps)
	for _, n := range r.program.Steps {
		workflow.GoNamed(ctx, n.ID, func(ctx workflow.Context) {
			r.steps.take(ctx, n)
			left--
		})
	}
	// The wait itself must outlive a cancelled run: its steps still settle.
	wait, stopWaiting := workflow.NewDisconnectedContext(ctx)
	defer stopWaiting()
	for {
		if err := workflow.Await(wait, func() bool { return left == 0 || r.drained(ctx) }); err != nil {
			return nil, err
		}
		switch {
		case left == 0:
			return r.finish(ctx)
		case r.tasks.fits(ctx, r.journal.Bytes()):
			return nil, r.continueAsNew(ctx)
		}
		r.tasks.next(ctx)
	}
}

// keepTime ends the run when the definition's timeout is over, as the context that
// it gives says.
func (r *run) keepTime(ctx workflow.Context) workflow.Context {
	limit := cmp.Or(r.in.Limit, time.Duration(r.program.Definition.Timeout))
	if limit == 0 {
		limit = definitions.DefaultTimeout
	}
	until := r.started.Add(limit)
	after(ctx, until, "timeout of the run", func() {
		r.failures.abort(&Error{
			Code: codes.RunTimeout, Category: codes.CategoryTimeout, Retryable: true,
			Message: fmt.Sprintf("%s timed out after %s%s", r.in.Definition.Name, limit, r.steps.unfinished()),
		})
	})
	return endsBy(ctx, until)
}

// drained says that a draining run has nothing under way but people, none of
// whom has just answered, and runs that it has called.
func (r *run) drained(ctx workflow.Context) bool {
	return r.budget.idle() && !r.signals.arrived() && ctx.Err() == nil && r.budget.draining(ctx)
}

// continueAsNew goes on in a new execution with what is done in its journal
// and the open elicitations as they stand.
func (r *run) continueAsNew(ctx workflow.Context) error {
	r.board.takeHoldsBack(ctx)
	next := r.in
	next.Continued, next.Started, next.Parent = true, r.started, r.parent.known()
	next.Journal = record.Carry(r.journal.Whole(), record.Terms{Reason: record.Continued})
	for _, part := range []interface{ next(*RunInput) }{r.sent, r.holds, r.elicitations, r.signals} {
		part.next(&next)
	}
	return workflow.NewContinueAsNewError(ctx, WorkflowType, next)
}

// finish makes the result of a run whose steps have all settled.
func (r *run) finish(ctx workflow.Context) (*RunResult, error) {
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
	result := &RunResult{Output: output, Errors: r.failures.reported}
	r.ledger.settleErrors(result)
	r.board.publish(ctx, Completed)
	r.parent.leave(ctx)
	r.tasks.makeRoom(ctx, record.PayloadSize(output))
	return result, nil
}

// output is the result of the run: the output block, or the output of the last
// completed step.
func (r *run) output(ctx workflow.Context) (json.RawMessage, *Error) {
	out, err := r.program.Output(r.steps.scope(ctx, Completed))
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

// fail undoes what the run has done, and makes the error with which it ends.
func (r *run) fail(ctx workflow.Context, why *Error) error {
	f := &Failure{Error: *why}
	partial := newPartial()
	r.steps.partial(partial)
	r.children.partial(partial)
	f.Partial, f.Omitted = partial.outputs, partial.omitted
	r.children.undone(f)
	r.undo.compensate(ctx, f)
	r.ledger.settleEffects(f)
	status, err := Failed, failed(f)
	switch {
	case why.Category == codes.CategoryCancelled:
		status, err = Cancelled, temporal.NewCanceledError(*f)
	case why.Category == codes.CategoryTimeout && why.StepID == "":
		status = TimedOut
	}
	r.board.publish(ctx, status)
	r.parent.leave(ctx)
	return err
}

// StatusOf is how a run ended that returned an error; nil = it completed.
func StatusOf(err error) Status {
	var app *temporal.ApplicationError
	var f Failure
	switch {
	case err == nil:
		return Completed
	case temporal.IsCanceledError(err):
		return Cancelled
	case errors.As(err, &app) && app.Type() == string(codes.CategoryTimeout) && app.Details(&f) == nil && f.Error.StepID == "":
		return TimedOut
	}
	return Failed
}

// failed is the error with which a run ends.
func failed(f *Failure) error {
	return temporal.NewApplicationErrorWithOptions(f.Error.Message, string(f.Error.Category),
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{*f}})
}

func decodeObject(data json.RawMessage) (map[string]any, error) {
	if len(data) == 0 {
		return map[string]any{}, nil
	}
	v, err := template.DecodeValue(data)
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("got %T", v)
	}
	return m, nil
}
