package workflows

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	r, err := newRun(ctx, in, prog)
	if err != nil {
		return nil, err
	}
	r.compile, r.signals.trust = i.program, i.trust
	return r.execute(ctx)
}

// A run is the state of one execution. Its coroutines take turns, so nothing
// in it needs a lock.
type run struct {
	in      RunInput
	program *definitions.Program
	id      string
	started time.Time
	params  map[string]any
	steps   map[string]*stepState

	root     workflow.Context    // of the workflow; done when somebody cancels the run
	cancel   workflow.CancelFunc // stops whatever is under way
	failure  *Error              // the first that ends the run; later ones are consequences
	errors   []Error             // of steps that failed without ending the run at once
	skipping bool                // skip_remaining: nothing new starts

	journal  *record.Log
	tasks    tasks
	calls    calls
	sent     sent
	holds    holds
	gates    gates
	signals  signals
	undo     undoing
	children children
	scripts  scripts

	compile func(Pinned) (*definitions.Program, error)
}

func newRun(ctx workflow.Context, in RunInput, prog *definitions.Program) (*run, error) {
	r := &run{
		in: in, program: prog, root: ctx,
		id:      workflow.GetInfo(ctx).WorkflowExecution.ID,
		started: in.Started,
		steps:   map[string]*stepState{},
		journal: newJournal(in),
		calls:   calls{slots: workflow.NewSemaphore(ctx, maxPending), awaited: map[string]int{}, largest: map[string]int{}},
		sent:    sent{keyed: map[StepPath]string{}, unsettled: map[StepPath]Unsettled{}},
		holds:   holds{calls: map[StepPath]heldCall{}, unread: map[StepPath]bool{}},
		gates:   gates{open: map[string]*gate{}, early: map[string][]Signal{}},
		undo:    undoing{times: map[StepPath]int{}},
		scripts: scripts{running: map[StepPath]*scriptHost{}},
		children: children{
			slots:       workflow.NewSemaphore(ctx, maxPending),
			resolutions: map[string]workflow.Future{}, called: map[StepPath]*called{},
			tells: tellings{states: map[string]ElicitationState{}},
		},
	}
	for _, e := range in.Open {
		r.gates.early[e.ID] = nil
	}
	maps.Copy(r.holds.unread, in.Unread) //workflowcheck:ignore a map again
	maps.Copy(r.sent.keyed, in.InDoubt)  //workflowcheck:ignore a map again
	if info := workflow.GetInfo(ctx); info.OriginalRunID != "" && info.OriginalRunID != info.WorkflowExecution.RunID {
		r.in.WasReset = true
	}
	if r.started.IsZero() {
		r.started = workflow.Now(ctx)
	}
	params, err := decodeObject(in.Arguments)
	if err != nil {
		return nil, failed(&Failure{Error: Error{
			Code: codes.InvalidArguments, Category: codes.CategoryValidation,
			Message: "the arguments of the run are not a JSON object: " + err.Error(), RunID: r.id,
		}})
	}
	r.params = params
	for _, n := range prog.Steps {
		future, settle := workflow.NewFuture(ctx)
		r.steps[n.ID] = &stepState{status: stepPending, settled: future, settle: settle}
	}
	return r, nil
}

// execute runs the graph: each step in a coroutine of its own, which starts
// the moment its own dependencies have settled.
func (r *run) execute(ctx workflow.Context) (*RunResult, error) {
	ctx, r.cancel = workflow.WithCancel(ctx)
	if err := r.answerQueries(ctx); err != nil {
		return nil, err
	}
	r.tasks.bound(ctx)
	ctx = r.keepTime(ctx)
	r.receiveSignals(ctx)

	left := len(r.program.Steps)
	for _, n := range r.program.Steps {
		workflow.GoNamed(ctx, n.ID, func(ctx workflow.Context) {
			r.runStep(ctx, n)
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
		r.abort(&Error{
			Code: codes.RunTimeout, Category: codes.CategoryTimeout, Retryable: true,
			Message: fmt.Sprintf("%s timed out after %s%s", r.in.Definition.Name, limit, r.unfinished()),
		})
	})
	return endsBy(ctx, until)
}

// abort stops the run with an error; the first one counts.
func (r *run) abort(err *Error) {
	if r.failure == nil {
		err.RunID = r.id
		r.failure = err
	}
	r.cancel()
}

// finish makes the result of a run whose steps have all settled.
func (r *run) finish(ctx workflow.Context) (*RunResult, error) {
	if r.root.Err() != nil && r.failure == nil {
		r.failure = &Error{Code: codes.Cancelled, Category: codes.CategoryCancelled, RunID: r.id,
			Message: r.in.Definition.Name + " was cancelled" + r.unfinished()}
	}
	r.reportedBefore()
	if r.in.Continued { // those of the execution before came in another order
		slices.SortStableFunc(r.errors, func(a, b Error) int { return r.journal.At(a.StepPath).Order - r.journal.At(b.StepPath).Order })
	}
	if r.failure == nil && len(r.errors) > 0 && r.program.Definition.FailureMode == definitions.FailLate {
		r.failure = &r.errors[0]
	}
	var output json.RawMessage
	if r.failure == nil {
		output, r.failure = r.output(ctx)
	}
	if r.failure != nil {
		return nil, r.fail(ctx)
	}
	result := &RunResult{Output: output, Errors: r.errors}
	r.settleErrors(result)
	r.publish(ctx, Completed)
	r.leaveParent(ctx)
	r.tasks.makeRoom(ctx, record.PayloadSize(output))
	return result, nil
}

func (r *run) fail(ctx workflow.Context) error {
	f := &Failure{Error: *r.failure}
	f.Partial, f.Omitted = r.partial()
	room := maxUndoneBelow
	for _, below := range r.children.failed {
		f.Uncompensated = append(f.Uncompensated, fitting(below.seen(below.Uncompensated), &room)...)
		f.Compensated = append(f.Compensated, fitting(below.seen(below.Compensated), &room)...)
	}
	r.compensate(ctx, f)
	r.settleEffects(f)
	status, err := Failed, failed(f)
	switch {
	case r.failure.Category == codes.CategoryCancelled:
		status, err = Cancelled, temporal.NewCanceledError(*f)
	case r.failure.Category == codes.CategoryTimeout && r.failure.StepID == "":
		status = TimedOut
	}
	r.publish(ctx, status)
	r.leaveParent(ctx)
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

// output is the result of the run: the output block, or the output of the last
// completed step in the stable order of the graph; null if there is none.
func (r *run) output(ctx workflow.Context) (json.RawMessage, *Error) {
	out, err := r.program.Output(r.scope(ctx, Completed))
	if err == nil && out == nil && r.program.Definition.Output == nil {
		out, err = r.lastOutput()
	}
	if err != nil {
		return nil, &Error{Code: codes.OutputFailed, Category: codes.CategoryTemplate, Message: err.Error(), RunID: r.id}
	}
	size := record.PayloadSize(out)
	for _, e := range r.errors {
		size += record.PayloadSize(e.Message) + record.EntryBytes
	}
	if size > r.maxValue() {
		return nil, &Error{Code: codes.ResultTooLarge, Category: codes.CategoryLimit, RunID: r.id,
			Message: fmt.Sprintf("the result has %d bytes; the limit is %d: let the output block select what is needed", size, r.maxValue())}
	}
	return out, nil
}

func (r *run) lastOutput() (json.RawMessage, error) {
	order := r.program.Order()
	for i := len(order) - 1; i >= 0; i-- {
		if s := r.steps[order[i].ID]; s.status == stepCompleted {
			return template.EncodeValue(s.output)
		}
	}
	return json.RawMessage("null"), nil
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
