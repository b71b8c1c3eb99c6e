package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows/record"
)

// A stepStatus is where a step stands. Templates see the last three.
type stepStatus string

const (
	stepPending   stepStatus = "pending"
	stepRunning   stepStatus = "running"
	stepStopped   stepStatus = "stopped" // the run ended before the step did
	stepCompleted stepStatus = "completed"
	stepFailed    stepStatus = "failed"
	stepSkipped   stepStatus = "skipped"
)

// A stepState is what the run knows of a step.
type stepState struct {
	status  stepStatus
	started bool
	broken  bool    // it failed without continuing, or depends on a step that did
	output  any     // nil until there is one
	answer  *Answer // of an elicitation
	content any
	err     string
	settled workflow.Future // ready once status no longer changes
	settle  workflow.Settable
}

// An Outcome is what came of executing a step or one item of a forEach.
type Outcome struct {
	status  stepStatus
	output  any
	answer  *Answer // of an elicitation
	content any     // of an elicitation
	err     *Error
	skip    bool // skip_remaining
}

// A place is where a step is executed: its path, and the forEach variables
// that its templates see there.
type place struct {
	path    StepPath
	forEach map[string]any
}

// runStep takes a step of the graph from its dependencies to its end.
func (r *run) runStep(ctx workflow.Context, n *definitions.Node) {
	s := r.steps[n.ID]
	defer func() { s.settle.Set(nil, nil) }()
	for _, id := range n.Deps {
		if err := r.steps[id].settled.Get(ctx, nil); err != nil {
			break // the run was stopped; seen below
		}
		s.broken = s.broken || r.steps[id].broken
	}
	switch {
	case ctx.Err() != nil:
		s.status = stepStopped
		return
	case r.skipping || s.broken:
		s.status, s.output = stepSkipped, n.Step.Defaults()
		return
	}
	s.status, s.started = stepRunning, true
	out := r.attempt(ctx, n, place{path: StepPath(n.ID)})
	s.status, s.output, s.answer, s.content = out.status, out.output, out.answer, out.content
	if out.err != nil {
		s.err = out.err.Message
	}
	r.skipping = r.skipping || out.skip
	if out.status == stepFailed && !continues(n.Step) {
		s.broken = true
		if n.Whole() && r.failsAlone() {
			r.abort(out.err)
			return
		}
		r.stepFailed(out.err)
	}
	r.showDetails(ctx)
}

// failsAlone says whether a script that is the definition fails the run whatever
// the failure mode is, which is for what the script reports.
func (r *run) failsAlone() bool {
	mode := r.program.Definition.FailureMode
	return mode == definitions.FailLate || mode == definitions.BestEffort
}

// stepFailed does what the definition's failure mode says about a step that
// failed and does not continue.
func (r *run) stepFailed(err *Error) {
	switch r.program.Definition.FailureMode {
	case definitions.FailLate, definitions.BestEffort:
		err.RunID = r.id
		r.errors = append(r.errors, *err)
	default:
		r.abort(err)
	}
}

// attempt executes a step, or the inner step of a forEach, once its turn has
// come: condition, work, and what onError makes of a failure.
func (r *run) attempt(ctx workflow.Context, n *definitions.Node, at place) Outcome {
	var out Outcome
	if was, ok := r.journal.Begun(at.path); ok && was.Failure() != nil {
		failure := *was.Failure()
		r.canUndoItems(ctx, n, at)
		out = r.failedStep(ctx, n, at, &failure)
	} else {
		out = r.work(ctx, n, at)
	}
	switch {
	case out.answer != nil: // that says it
	case out.status == stepSkipped:
		r.journal.NoteSkipped(at.path)
	case out.status == stepFailed:
		r.journal.NoteFailed(at.path, out.err)
	}
	return out
}

// isDue says whether a step is to run. One that has begun in the execution
// before goes on, whatever its condition would say now.
func (r *run) isDue(ctx workflow.Context, n *definitions.Node, at place) (bool, error) {
	if was, ok := r.journal.Begun(at.path); ok {
		end, _ := was.Kind.(record.End)
		return !end.Skipped, nil
	}
	if r.askedBefore(at.path) || r.askedBefore(credentialsPath(at.path)) {
		return true, nil
	}
	return n.Condition(r.scopeAt(ctx, at))
}

func (r *run) work(ctx workflow.Context, n *definitions.Node, at place) Outcome {
	run, err := r.isDue(ctx, n, at)
	if err != nil {
		return r.failedStep(ctx, n, at, r.templateError(n, at, err))
	}
	if !run {
		return Outcome{status: stepSkipped, output: n.Step.Defaults()}
	}
	out := unknownKind(n, at)
	if kind, known := KindOf(n.Step.Type); known {
		out = kind.Execute(ctx, StepRun{Node: n, run: r, at: at})
	}
	r.canUndo(n, at, out)
	if out.status == stepFailed {
		answer := out.answer
		out = r.failedStep(ctx, n, at, out.err)
		out.answeredAs(n.Step, answer)
	}
	return out
}

// unknownKind is the outcome of a step of a build that knows more.
func unknownKind(n *definitions.Node, at place) Outcome {
	return Outcome{status: stepFailed, err: &Error{Code: codes.InvalidDefinition, Category: codes.CategoryValidation,
		Message: fmt.Sprintf("step %s: this worker does not know steps of the type %s", at.path, n.Step.Type)}}
}

// answeredAs keeps how an elicitation was answered that failed and continues.
func (o *Outcome) answeredAs(s *definitions.Step, by *Answer) {
	if by != nil && o.output != nil {
		o.output, o.content = s.Refused(by.Action)
		o.answer = by
	}
}

// failedStep is the outcome of a failed step: its defaults stand in for the
// output where it continues. What fails because the run is being stopped is
// not a failure of its own.
func (r *run) failedStep(ctx workflow.Context, n *definitions.Node, at place, err *Error) Outcome {
	if ctx.Err() != nil && err.Category == codes.CategoryCancelled {
		return Outcome{status: stepStopped, err: err}
	}
	if err.StepPath == "" {
		err.StepID, err.StepPath = at.path.Top(), at.path
	}
	if err.Tool == "" {
		err.Tool = n.Step.Tool
	}
	out := Outcome{status: stepFailed, err: err}
	if continues(n.Step) {
		out.output = n.Step.Defaults()
	}
	return out
}

func continues(s *definitions.Step) bool {
	return s.OnError != nil && s.OnError.Action == definitions.Continue
}

func timeout(s *definitions.Step) time.Duration {
	if s.Timeout == 0 {
		return definitions.DefaultStepTimeout
	}
	return time.Duration(s.Timeout)
}

// templateError names the step, the field and the cause.
func (r *run) templateError(n *definitions.Node, at place, err error) *Error {
	e := &Error{Code: codes.TemplateFailed, Category: codes.CategoryTemplate, Tool: n.Step.Tool}
	var te *template.FieldError
	if errors.As(err, &te) {
		e.Message = fmt.Sprintf("step %s: %s: %s", at.path, te.Field, te.Err)
		return e
	}
	e.Message = fmt.Sprintf("step %s: %s", at.path, err)
	return e
}

// scope is what templates see outside of a forEach.
func (r *run) scope(ctx workflow.Context, status Status) *definitions.Scope {
	s := &definitions.Scope{
		Params: r.params,
		Steps:  make(map[string]definitions.StepScope, len(r.steps)),
		Workflow: definitions.WorkflowScope{
			ID: r.id, Status: string(status),
			DurationMS: workflow.Now(ctx).Sub(r.started).Milliseconds(), StartTime: r.started,
		},
	}
	for _, n := range r.program.Steps {
		st := r.steps[n.ID]
		switch st.status {
		case stepCompleted, stepFailed, stepSkipped:
			s.Steps[n.ID] = st.scope()
		}
	}
	s.Workflow.StepCount = len(s.Steps)
	return s
}

// scope is what templates see of a step that has ended.
func (s *stepState) scope() definitions.StepScope {
	seen := definitions.StepScope{Status: string(s.status), Output: s.output, Content: s.content, Error: s.err}
	if a := s.answer; a != nil {
		seen.Action, seen.By, seen.At = a.Action, a.AnsweredBy, a.At
	}
	return seen
}

// scopeAt is what templates see at a place.
func (r *run) scopeAt(ctx workflow.Context, at place) *definitions.Scope {
	s := r.scope(ctx, Running)
	s.ForEach = at.forEach
	return s
}
