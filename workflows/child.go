package workflows

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows/record"
)

// A childCall is one call of a composite tool by a step.
type childCall struct {
	path      StepPath      // of the step
	keyPath   StepPath      // for which the keys of its calls are made; "" = path
	undoable  bool          // what the run does can be undone
	workflow  string        // the tool: name, or name@constraint
	limit     time.Duration // for the run; 0 = from the tool's definition
	arguments func(inputSchema json.RawMessage) (json.RawMessage, error)
}

// callWorkflow is the one way from a run to another composite tool. It is a run
// of its own, which an execution of this one may have started before.
func (cs *children) callWorkflow(ctx workflow.Context, c childCall) (json.RawMessage, *Error) {
	if child, ok := cs.childBefore(c.path, ""); ok {
		cs.journal.Note(c.path, child)
		return child.Output, nil
	}
	if child, ok := cs.startedBefore(c.path); ok {
		cs.journal.Note(c.path, child)
		return cs.ended(cs.adopt(ctx, newCalled(c.path, child.ID, c.workflow)))
	}
	if err := cs.placeAnew(ctx, &c); err != nil {
		return nil, cancelledStep(c.path)
	}
	in, digest, failure := cs.childInput(ctx, c)
	if failure != nil {
		return nil, failure
	}
	if child, ok := cs.childBefore(c.path, digest); ok {
		cs.journal.Note(c.path, record.Child{Digest: digest, ID: child.ID, Started: child.Started, Output: child.Output, Effects: child.Effects})
		return child.Output, nil
	}
	if failure := cs.place(c, in); failure != nil {
		return nil, failure
	}
	return cs.ended(cs.startChild(ctx, c, in, digest))
}

// placeAnew has another run called where what one did was undone before a reset, as a
// resumption does. What a reset has copied was called without looking.
func (cs *children) placeAnew(ctx workflow.Context, c *childCall) error {
	if !c.undoable || !cs.in.WasReset || workflow.GetVersion(ctx, "look for what was undone: "+string(c.path), workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return nil
	}
	var times int
	err := cs.read(ctx, string(c.path), TimesAnewName, "", &times)
	if cs.in.Resumption != nil {
		times = max(times, cs.in.Resumption.Undone[c.path])
	}
	if times > 0 {
		c.keyPath = c.path.Redone(times)
	}
	return err
}

// childInput is what a called run starts with. The digest is that of its
// arguments.
func (cs *children) childInput(ctx workflow.Context, c childCall) (*RunInput, string, *Error) {
	if most := cmp.Or(cs.in.MaxDepth, definitions.MaxWorkflowDepth); cs.in.Depth >= most {
		return nil, "", &Error{Code: codes.WorkflowTooDeep, Category: codes.CategoryLimit, Message: fmt.Sprintf(
			"step %s: %s would be called at depth %d of workflows that call each other; maxWorkflowDepth is %d", c.path, c.workflow, cs.in.Depth+1, most)}
	}
	in, again := &RunInput{}, json.RawMessage(nil)
	if was, ok := cs.journal.Begun(c.path); ok {
		child, _ := was.Kind.(record.Child)
		again = child.Again
	}
	if again != nil { // without what it has done, it would do that twice
		mustRead(json.Unmarshal(again, in), "what a called run is started with again")
		in.WasReset = in.WasReset || cs.in.WasReset // an execution that nothing is known of may have started it so before
	} else {
		found, failure := cs.references.resolve(ctx, c)
		if failure != nil {
			return nil, "", failure
		}
		in = &RunInput{Definition: found.Definition, Tools: found.Tools}
	}
	if failure := cs.childArguments(c, in); failure != nil {
		return nil, "", failure
	}
	in.Caller, in.Ruled, in.As, in.Depth, in.Limit = cs.in.Caller, cs.in.Ruled, cs.actsAs(), cs.in.Depth+1, c.limit
	in.Lineage, in.Within = cs.in.Lineage, cs.in.Within+string(cmp.Or(c.keyPath, c.path))+"//"
	in.ScriptLimits, in.MaxDepth = cs.in.ScriptLimits, cs.in.MaxDepth
	in.MaxValue, in.MaxJournal = cs.in.MaxValue, cs.in.MaxJournal
	in.Parent, in.AboveEnds = &Parent{RunID: cs.id, StepPath: c.path}, earlier(endOf(ctx), cs.in.AboveEnds)
	if size := in.bytes(); size > cs.maxValue() {
		return nil, "", &Error{Code: codes.InputTooLarge, Category: codes.CategoryLimit, Message: fmt.Sprintf(
			"step %s: the arguments of %s, its definition and the schemas of its tools have %d bytes together; the limit is %d", c.path, c.workflow, size, cs.maxValue())}
	}
	return in, record.DigestOf(in.Arguments), nil
}

// childArguments expands and checks the arguments against the parameters of the called
// tool. If they differ from those of a resumed run, only records for the same arguments
// count.
func (cs *children) childArguments(c childCall, in *RunInput) *Error {
	program, err := cs.compile(in.Definition)
	if err != nil {
		return uncompiled(c, err)
	}
	args, err := c.arguments(program.Definition.InputSchema())
	if err == nil {
		args, err = program.Definition.Arguments(args)
	}
	var te *template.FieldError
	switch {
	case errors.As(err, &te):
		return &Error{Code: codes.TemplateFailed, Category: codes.CategoryTemplate, Message: fmt.Sprintf("step %s: %s: %s", c.path, te.Field, te.Err)}
	case err != nil:
		return &Error{Code: codes.InvalidArguments, Category: codes.CategoryValidation, Message: fmt.Sprintf("step %s: %s: %s", c.path, c.workflow, err)}
	}
	if in.Journal != nil && record.DigestOf(args) != record.DigestOf(in.Arguments) {
		in.Journal = record.Carry(in.Journal, record.Terms{Reason: record.Recalled})
	}
	in.Arguments = args
	return nil
}

func uncompiled(c childCall, err error) *Error {
	return &Error{Code: codes.InvalidDefinition, Category: codes.CategoryValidation, Message: fmt.Sprintf("step %s: %s", c.path, err)}
}

// bytes is what the input takes in a payload, about.
func (in *RunInput) bytes() int {
	encoded, err := json.Marshal(in)
	if err != nil {
		return 0 // cannot happen; the start would fail
	}
	return len(encoded)
}

// childID is the ID of a called run: the same whenever this step of this lineage
// calls it, so that it is started once.
func childID(in *RunInput) string {
	sum := sha256.Sum256([]byte(in.Lineage + "\x00" + in.Within))
	return in.Definition.Name + "/" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}

// A childEnd is how a called run ended.
type childEnd struct {
	call *called
	ChildOutcome
	err error // instead: it is not known how
}

// startChild starts a run and waits for its end. Where there is one already, an
// execution of this one that nothing is known of any more has started it, or somebody has
// resumed it by itself since this one was planned to resume it.
func (cs *children) startChild(ctx workflow.Context, c childCall, in *RunInput, digest string) childEnd {
	call := newCalled(c.path, childID(in), c.workflow)
	if since, err := cs.resumedSince(ctx, call, in.Resumption); err != nil {
		return childEnd{call: call, err: err}
	} else if since {
		return cs.takeUp(ctx, call, digest)
	}
	options := cs.childOptions(ctx, call, in)
	if err := cs.budget.waitWhileDraining(ctx); err != nil {
		return childEnd{call: call, err: err}
	}
	if failure := cs.results.check(ctx, c.path); failure != nil {
		return childEnd{call: call, err: failure}
	}
	if err := cs.slots.Acquire(ctx, 1); err != nil {
		return childEnd{call: call, err: err}
	}
	defer cs.slots.Release(1)
	if err := cs.tasks.readyToSend(ctx, in.bytes()); err != nil {
		return childEnd{call: call, err: err}
	}
	cs.journal.Note(c.path, record.Child{Digest: digest, ID: call.id})
	cs.relay.expect(ctx, call)
	defer cs.relay.dismiss(ctx, call)

	ended := cs.results.calls()
	future := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, options), in.WorkflowType(), *in)
	cs.budget.begins()
	err := future.GetChildWorkflowExecution().Get(ctx, nil)
	cs.budget.ends()
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		ended()
		return cs.takeUp(ctx, call, digest)
	}
	if err == nil {
		cs.journal.Amend(c.path, record.Child{Digest: digest, ID: call.id, Started: true})
	}
	return cs.awaitChild(ctx, call, future, ended)
}

// childOptions are how Temporal starts a called run.
func (cs *children) childOptions(ctx workflow.Context, call *called, in *RunInput) workflow.ChildWorkflowOptions {
	options := workflow.ChildWorkflowOptions{
		WorkflowID: call.id, WaitForCancellation: true,
		// Temporal takes a run that continues as new for one that has closed.
		ParentClosePolicy:     enums.PARENT_CLOSE_POLICY_ABANDON,
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		Memo:                  map[string]any{MemoParent: *in.Parent, MemoStarted: workflow.Now(ctx).UTC()},
		TypedSearchAttributes: childAttributes(ctx, in),
		StaticSummary:         fmt.Sprintf("%s called by %s of %s", in.Definition.Name, call.path, cs.id),
		StaticDetails:         fmt.Sprintf("- **tool** %s %s\n- **called by** step %s of %s\n", in.Definition.Name, in.Definition.Version, call.path, cs.id),
	}
	if in.Resumption != nil {
		options.WorkflowIDReusePolicy = enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY
		delete(options.Memo, MemoStarted) // it has begun before
		options.Memo[MemoResumption] = Resumption{Of: in.Resumption.Of, Number: in.Resumption.Number}
	}
	return options
}

// awaitChild waits for the end of a run that this one has started; ended is called then.
func (cs *children) awaitChild(ctx workflow.Context, call *called, future workflow.ChildWorkflowFuture, ended func()) childEnd {
	_ = workflow.Await(ctx, func() bool { return future.IsReady() || call.over }) // or this one is stopped
	if !future.IsReady() && !cs.endsSoon(ctx, future) {
		ended()
		return cs.adopt(ctx, call)
	}
	var result RunResult
	outcome := ChildOutcome{Result: &result}
	err := future.Get(ctx, &result)
	if ended(); err != nil {
		outcome = failedChild(err)
	}
	switch size := outcome.kept(); {
	case size > 0:
		return cs.fetch(ctx, call, size)
	case err != nil:
		return childEnd{call: call, ChildOutcome: outcome, err: ctx.Err()}
	}
	cs.tasks.makeRoom(ctx, 0)
	return childEnd{call: call, ChildOutcome: outcome}
}

// endPatience is how long Temporal may take to report the end of a called run, which has
// announced it or is stopped with this one, before this one looks itself.
const endPatience = 3 * time.Second

// endsSoon reports whether Temporal reports the end of a called run soon. It neither reports
// it, nor hands a stop down, to an execution that was reset to before it, or where the called
// run was reset to a point of an execution before the one that this one has started.
func (cs *children) endsSoon(ctx workflow.Context, future workflow.Future) bool {
	wait, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	soon, _ := workflow.AwaitWithTimeout(wait, endPatience, future.IsReady) // is never cancelled
	return soon
}

var (
	toolKey    = temporal.NewSearchAttributeKeyKeyword(AttrTool)
	versionKey = temporal.NewSearchAttributeKeyKeyword(AttrVersion)
	callerKey  = temporal.NewSearchAttributeKeyKeyword(AttrCaller)
)

// childAttributes are those with which a called run is found. Its caller is that
// of this one.
func childAttributes(ctx workflow.Context, in *RunInput) temporal.SearchAttributes {
	set := []temporal.SearchAttributeUpdate{toolKey.ValueSet(in.Definition.Name)}
	if caller, ok := workflow.GetTypedSearchAttributes(ctx).GetKeyword(callerKey); ok {
		set = append(set, callerKey.ValueSet(caller))
	}
	if in.Definition.Version != "" {
		set = append(set, versionKey.ValueSet(in.Definition.Version))
	}
	return temporal.NewSearchAttributes(set...)
}

// failedChild is how a run ended that did not complete, as Temporal reports it.
func failedChild(err error) ChildOutcome {
	var (
		app        *temporal.ApplicationError
		cancelled  *temporal.CanceledError
		terminated *temporal.TerminatedError
		failure    Failure
	)
	switch {
	case errors.As(err, &app) && app.HasDetails():
		mustRead(app.Details(&failure), howEnded) // without them the message is used
	case errors.As(err, &cancelled):
		if cancelled.HasDetails() {
			mustRead(cancelled.Details(&failure), howEnded)
		}
		failure.Error.Code, failure.Error.Category = cmp.Or(failure.Error.Code, codes.Cancelled), cmp.Or(failure.Error.Category, codes.CategoryCancelled)
	case errors.As(err, &terminated):
		failure.Error = Error{Code: codes.Terminated, Category: codes.CategoryTerminated, Message: "the run was terminated"}
	}
	if failure.Error.Code == "" {
		failure.Error = Error{Code: codes.Internal, Category: codes.CategoryInternal, Message: err.Error()}
	}
	return ChildOutcome{Failure: &failure}
}

const howEnded = "how a called run has ended"

// mustRead has the workflow task fail, and be tried again by a worker that can read what
// this one cannot: it has the payload key, or is of another build.
func mustRead(err error, what string) {
	if err != nil {
		panic(fmt.Errorf("reading %s: %w", what, err))
	}
}

// ended is the outcome of a called run for the step.
func (cs *children) ended(end childEnd) (json.RawMessage, *Error) {
	path := end.call.path
	var refused *Error
	if errors.As(end.err, &refused) {
		return nil, refused
	}
	cs.noteEffects(end)
	if end.Failure != nil {
		cs.failed = append(cs.failed, failedBelow{path, end.Failure})
	}
	switch {
	case end.Result != nil: // also where the step was cancelled a moment before
	case end.err != nil && (end.Failure == nil || end.Failure.Error.FromOutside()):
		return nil, cancelledStep(path)
	case end.Failure != nil:
		return nil, childFailed(end.call, end.Failure)
	}
	if end.Result.Output == nil {
		end.Result.Output = json.RawMessage("null")
	}
	cs.journal.Note(path, record.Child{Digest: cs.journal.At(path).Digest(), ID: end.call.id, Started: true,
		Output: end.Result.Output, Effects: end.Result.Effects})
	if _, before := cs.journal.Begun(path); before { // its place among what is undone is that of its end, not that of its start there
		cs.journal.MoveLast(path)
	}
	return end.Result.Output, nil
}

// childFailed is the error of a step whose run has failed: that of the run, with
// the path that it has seen from here.
func childFailed(call *called, f *Failure) *Error {
	e := f.Error
	tool, _, _ := strings.Cut(call.id, "/")
	e.Message = fmt.Sprintf("step %s: %s failed: %s", call.path, tool, e.Message)
	e.StepID, e.RunID = call.path.Top(), ""
	e.StepPath = call.path.Below(e.StepPath)
	if e.Category == codes.CategoryCancelled { // cancelled from elsewhere: this run continues
		e.Code, e.Category = codes.WorkflowCancelled, codes.CategoryTool
		e.Message = fmt.Sprintf("step %s: %s was cancelled", call.path, tool)
	}
	if e.Category == codes.CategoryTerminated {
		e.Code, e.Category = codes.WorkflowTerminated, codes.CategoryTool
	}
	return &e
}
