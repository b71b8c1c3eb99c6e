package workflows

import (
	"encoding/json"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/workflows/record"
)

// A StepKind is a type of steps as a run needs it.
type StepKind interface {
	view.StepKind
	// Execute executes a step whose turn has come and whose condition is true. It is
	// workflow code. Where the run continues as new meanwhile, or is repeated, it is
	// executed again, and finds what it has recorded.
	Execute(ctx workflow.Context, s StepRun) Outcome
}

// A StepRun is one execution of a step, or of the inner step of a forEach for an item.
type StepRun struct {
	Node *definitions.Node

	run *run
	at  place
}

// Path of the step, such as deploy or check[17].
func (s StepRun) Path() definitions.StepPath { return s.at.path }

// Scope is what the templates of the step see.
func (s StepRun) Scope(ctx workflow.Context) *definitions.Scope {
	return s.run.steps.scopeAt(ctx, s.at)
}

// Record keeps the result of the step, and the digest of what it was made from.
func (s StepRun) Record(digest string, result json.RawMessage) {
	s.run.journal.Note(s.at.path, record.Value{Digest: digest, Result: result})
}

// Recorded is the result that an execution before has recorded, if it counts for a
// digest.
func (s StepRun) Recorded(digest string) (json.RawMessage, bool) {
	value, ok := record.Found[record.Value](s.run.journal, s.at.path, digest)
	return value.Result, ok
}

// Completed is the outcome of the step with an output, of JSON values.
func (StepRun) Completed(output any) Outcome { return Outcome{status: stepCompleted, output: output} }

// Failed is the outcome of the step with an error. onError decides what follows.
func (StepRun) Failed(err *Error) Outcome { return Outcome{status: stepFailed, err: err} }

// kinds of steps that can be executed.
var kinds = definitions.Kinds[StepKind]{
	toolKind{definitions.Must(view.KindOf(definitions.ToolStep))},
	elicitationKind{definitions.Must(view.KindOf(definitions.ElicitationStep))},
	forEachKind{definitions.Must(view.KindOf(definitions.ForEachStep))},
	waitKind{definitions.Must(view.KindOf(definitions.WaitStep))},
	workflowKind{definitions.Must(view.KindOf(definitions.WorkflowStep))},
	scriptKind{definitions.Must(view.KindOf(definitions.ScriptStep))},
}

// RegisterKind adds a kind of steps, to definitions and their views too, as
// [definitions.RegisterKind] does.
func RegisterKind(k StepKind) {
	view.RegisterKind(k)
	kinds = append(kinds, k)
}

// KindOf is the kind of steps of a type, as [definitions.Kinds.Of] gives it.
func KindOf(typ definitions.StepType) (k StepKind, known bool) { return kinds.Of(typ) }
