package workflows

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
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
			Code: "invalid_definition", Category: CategoryValidation, Message: err.Error(),
			RunID: workflow.GetInfo(ctx).WorkflowExecution.ID,
		}})
	}
	r, err := newRun(ctx, in, prog)
	if err != nil {
		return nil, err
	}
	r.compile, r.trust = i.program, i.trust
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
	gates    map[string]*gate    // open elicitations by ID
	early    map[string][]Signal // with answers to elicitations that this execution has yet to open again, by ID
	state    State
	undo     []undoable     // completed steps that can be undone, in the order of completion
	undone   map[string]int // by step path: how often it was undone
	undoing  bool           // the run has failed, and what it has done is being undone

	scripts map[string]*scriptHost // by step path: scripts that run
	told    int                    // lines that scripts have told

	away      map[string]bool      // by step path: calls of keyed tools that were sent and of which nothing is known
	unsettled map[string]Unsettled // by step path: calls of unsafe tools that were sent and of which nothing is known

	held     map[string]heldCall // by step path: calls that the limits of their backend hold back
	unread   map[string]bool     // by step path: calls of unsafe tools that workers could not read; see ToolCall.Unread
	toldHold string              // what the search attributes say holds the run; "" = nothing

	inFlight  int                     // calls that were started and have not ended
	journal   map[string]JournalEntry // what ended, for the next execution
	order     int                     // of the last entry
	task      task                    // what the workflow task under way adds to history
	pending   workflow.Semaphore      // of calls
	nextBytes int                     // what the input of the next execution would have
	reopened  int                     // bytes that history has of the questions carried over, as they were opened again
	unreached int                     // what entries of in.Journal that this execution has not come to add to that

	compile     func(Pinned) (*definitions.Program, error)
	resolutions map[string]workflow.Future // of definitions that steps call, by how they are written
	children    workflow.Semaphore         // of called runs
	called      map[string]*called         // runs that steps have called and that have not ended, by step path
	failedBelow []failedBelow              // called runs that did not complete, in the order of their ends
	tells       tellings                   // of the run to the one that has called it

	trust     *trustee          // what signals are believed
	mail      []*mailbox        // by signal
	unchecked []UncheckedSignal // that wait for a worker with their key
}

func newRun(ctx workflow.Context, in RunInput, prog *definitions.Program) (*run, error) {
	r := &run{
		in: in, program: prog, root: ctx,
		id:      workflow.GetInfo(ctx).WorkflowExecution.ID,
		started: in.Started,
		steps:   map[string]*stepState{},
		gates:   map[string]*gate{},
		early:   map[string][]Signal{},
		journal: map[string]JournalEntry{},

		resolutions: map[string]workflow.Future{}, called: map[string]*called{},
		tells: tellings{states: map[string]ElicitationState{}},

		unread:  map[string]bool{},
		scripts: map[string]*scriptHost{},
		undone:  map[string]int{}, away: map[string]bool{}, unsettled: map[string]Unsettled{}, held: map[string]heldCall{},
	}
	r.pending = workflow.NewSemaphore(ctx, maxPending)
	r.children = workflow.NewSemaphore(ctx, maxPending)
	r.expectJournal()
	maps.Copy(r.unread, in.Unread) //workflowcheck:ignore a map again
	if info := workflow.GetInfo(ctx); info.OriginalRunID != "" && info.OriginalRunID != info.WorkflowExecution.RunID {
		r.in.WasReset = true
	}
	if r.started.IsZero() {
		r.started = workflow.Now(ctx)
	}
	params, err := decodeObject(in.Arguments)
	if err != nil {
		return nil, failed(&Failure{Error: Error{
			Code: "invalid_arguments", Category: CategoryValidation,
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
	r.boundTasks(ctx)
	r.keepTime(ctx)
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
		case r.fits(ctx, r.nextBytes+r.unreached):
			return nil, r.continueAsNew(ctx)
		}
		r.nextTask(ctx)
	}
}

// keepTime ends the run when the definition's timeout is over.
func (r *run) keepTime(ctx workflow.Context) {
	limit := cmp.Or(r.in.Limit, time.Duration(r.program.Definition.Timeout))
	if limit == 0 {
		limit = definitions.DefaultTimeout
	}
	after(ctx, r.started.Add(limit), "timeout of the run", func() {
		r.abort(&Error{
			Code: "run_timeout", Category: CategoryTimeout, Retryable: true,
			Message: fmt.Sprintf("%s timed out after %s%s", r.in.Definition.Name, limit, r.unfinished()),
		})
	})
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
		r.failure = &Error{Code: "cancelled", Category: CategoryCancelled, RunID: r.id,
			Message: r.in.Definition.Name + " was cancelled" + r.unfinished()}
	}
	r.reportedBefore()
	if r.in.Continued { // those of the execution before came in another order
		slices.SortStableFunc(r.errors, func(a, b Error) int { return r.journal[a.StepPath].Order - r.journal[b.StepPath].Order })
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
	r.makeRoom(ctx, PayloadSize(output))
	return result, nil
}

func (r *run) fail(ctx workflow.Context) error {
	f := &Failure{Error: *r.failure}
	f.Partial, f.Omitted = r.partial()
	room := maxUndoneBelow
	for _, below := range r.failedBelow {
		f.Uncompensated = append(f.Uncompensated, fitting(below.seen(below.Uncompensated), &room)...)
		f.Compensated = append(f.Compensated, fitting(below.seen(below.Compensated), &room)...)
	}
	r.compensate(ctx, f)
	r.settleEffects(f)
	status, err := Failed, failed(f)
	switch {
	case r.failure.Category == CategoryCancelled:
		status, err = Cancelled, temporal.NewCanceledError(*f)
	case r.failure.Category == CategoryTimeout && r.failure.StepID == "":
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
	case errors.As(err, &app) && app.Type() == string(CategoryTimeout) && app.Details(&f) == nil && f.Error.StepID == "":
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
		return nil, &Error{Code: "output_failed", Category: CategoryTemplate, Message: err.Error(), RunID: r.id}
	}
	size := PayloadSize(out)
	for _, e := range r.errors {
		size += PayloadSize(e.Message) + entryBytes
	}
	if size > r.maxValue() {
		return nil, &Error{Code: "result_too_large", Category: CategoryLimit, RunID: r.id,
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

// maxPartial bounds the outputs that travel with a failure.
const maxPartial = 64 << 10

// maxUndoneBelow bounds the paths of what called runs have undone, in bytes, that
// travel with a failure: a forEach may have called a thousand. Each of these runs
// tells its own.
const maxUndoneBelow = 64 << 10

// fitting are those paths for which there is room, the first ones.
func fitting(paths []string, room *int) []string {
	for i, path := range paths {
		if *room -= len(path); *room < 0 {
			return paths[:i]
		}
	}
	return paths
}

// maxOmitted bounds how many steps a failure names whose outputs do not fit.
const maxOmitted = 256

// partial are the outputs of completed steps, as far as they fit, and the paths
// of those that do not.
func (r *run) partial() (partial map[string]json.RawMessage, omitted []string) {
	partial = map[string]json.RawMessage{}
	room := maxPartial
	add := func(path string, out json.RawMessage) {
		switch size := PayloadSize(out); {
		case size <= room:
			room -= size
			partial[path] = out
		default:
			omitted = append(omitted, path)
		}
	}
	scripts := false
	for _, n := range r.program.Steps {
		if s := r.steps[n.ID]; s.status == stepCompleted {
			if out, err := template.EncodeValue(s.output); err == nil {
				add(n.ID, out)
			}
		} else {
			scripts = scripts || s.started && n.Script != nil
		}
	}
	if scripts {
		r.partialOfScripts(add)
	}
	for _, below := range slices.SortedStableFunc(slices.Values(r.failedBelow), func(a, b failedBelow) int { return strings.Compare(a.path, b.path) }) {
		for _, id := range slices.Sorted(maps.Keys(below.Partial)) {
			add(below.path+"/"+id, below.Partial[id])
		}
		omitted = append(omitted, below.seen(below.Omitted)...)
	}
	return partial, omitted[:min(len(omitted), maxOmitted)]
}

// partialOfScripts adds the outputs of calls that scripts had made which have not
// completed, the first call first.
func (r *run) partialOfScripts(add func(path string, out json.RawMessage)) {
	journal := r.wholeJournal()
	paths := workflow.DeterministicKeys(journal)
	slices.SortStableFunc(paths, func(a, b string) int { return journal[a].Order - journal[b].Order })
	for _, path := range paths {
		s, below := r.steps[topLevel(path)], strings.Contains(path, "/")
		if s == nil || !below || s.status == stepCompleted || !strings.Contains(path[strings.LastIndexByte(path, '/'):], ":") {
			continue
		}
		var result ToolResult // or that of a run, which has an output, too
		if json.Unmarshal(journal[path].Result, &result) == nil && result.Output != nil {
			add(path, result.Output)
		}
	}
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
