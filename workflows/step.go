package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/codes"
)

// A stepStatus is the state of a step.
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
	err     string
	why     string // it was skipped
	because string // what its condition read then, for people

	waits int                 // dependencies that have not settled
	after []*definitions.Node // that depend on it
}

// An Outcome is the result of executing a step or one item of a forEach.
type Outcome struct {
	status stepStatus
	output any
	answer *Answer // of an elicitation
	err    *Error
	skip   bool // skip_remaining
}

// A place is where a step is executed: its path, and the forEach variables
// that its templates see there.
type place struct {
	path    StepPath
	forEach map[string]any
}

// unknownKind is the outcome of a step of a build that knows more.
func unknownKind(n *definitions.Node, at place) Outcome {
	return Outcome{status: stepFailed, err: &Error{Code: codes.InvalidDefinition, Category: codes.CategoryValidation,
		Message: fmt.Sprintf("step %s: this worker does not know steps of the type %s", at.path, n.Step.Type)}}
}

// answeredAs keeps how an elicitation was answered that failed and continues.
func (o *Outcome) answeredAs(s *definitions.Step, by *Answer) {
	if by != nil && o.output != nil {
		o.output = s.Refused(by.Action)
		o.answer = by
	}
}

// failedStep is the outcome of a failed step: its defaults replace the output where it
// continues. A failure because the run is being stopped is not the step's own.
func failedStep(ctx workflow.Context, n *definitions.Node, at place, err *Error) Outcome {
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
	out.output, _ = n.FailedOutput()
	return out
}

// cancelledStep is the error of a step that was stopped.
func cancelledStep(path StepPath) *Error {
	return &Error{Code: codes.Cancelled, Category: codes.CategoryCancelled, Message: fmt.Sprintf("step %s was cancelled", path)}
}

func timeout(s *definitions.Step) time.Duration {
	if s.Timeout == 0 {
		return definitions.DefaultStepTimeout
	}
	return time.Duration(s.Timeout)
}

// templateError names the step, the field and the cause.
func templateError(n *definitions.Node, at place, err error) *Error {
	e := &Error{Code: codes.TemplateFailed, Category: codes.CategoryTemplate, Tool: n.Step.Tool}
	var te *template.FieldError
	if errors.As(err, &te) {
		e.Message = fmt.Sprintf("step %s: %s: %s", at.path, te.Field, te.Err)
		return e
	}
	e.Message = fmt.Sprintf("step %s: %s", at.path, err)
	return e
}

// whyShown is why the step was skipped, for people: with what its condition read.
func (s *stepState) whyShown() string {
	if s.because == "" {
		return s.why
	}
	return s.why + ", and " + s.because
}

// scope is what templates see of a step.
func (s *stepState) scope(n *definitions.Node) definitions.StepScope {
	seen := definitions.StepScope{Status: string(s.status), Output: s.output, Content: n.Step.Content(s.output), Error: s.err, Reason: s.why}
	if a := s.answer; a != nil {
		seen.Action, seen.By, seen.At = a.Action, a.AnsweredBy, a.At
	}
	return seen
}
