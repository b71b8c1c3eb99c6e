package workflows

import (
	"encoding/json"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/view"
)

// A StepKind is a type of steps as a run needs it.
type StepKind interface {
	view.StepKind
	// Execute executes a step whose turn has come and whose condition is true. It is
	// workflow code. Where the run continues as new meanwhile, or is repeated, it is
	// executed again, and finds what it has recorded.
	Execute(ctx workflow.Context, s StepRun) Outcome
	// Survives reports whether the recorded result of a step counts in a run that
	// repeats this one, and whether it does for the same digest only. doubtful: the
	// definition, the arguments or what the step reads may be others now.
	Survives(n *definitions.Node, result json.RawMessage, doubtful bool) (kept, exact bool)
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
func (s StepRun) Scope(ctx workflow.Context) *definitions.Scope { return s.run.scopeAt(ctx, s.at) }

// Record keeps the result of the step, and the digest of what it was made from.
func (s StepRun) Record(digest string, result json.RawMessage) {
	s.run.record.keep(s.at.path, digest, result)
}

// Recorded is the result that an execution before has recorded, if it counts for a
// digest.
func (s StepRun) Recorded(digest string) (json.RawMessage, bool) {
	return s.run.record.result(s.at.path, digest)
}

// Completed is the outcome of the step with an output, of JSON values.
func (StepRun) Completed(output any) Outcome { return Outcome{status: stepCompleted, output: output} }

// Failed is the outcome of the step with an error. onError says what follows.
func (StepRun) Failed(err *Error) Outcome { return Outcome{status: stepFailed, err: err} }

// kinds of steps that can be executed.
var kinds = definitions.Kinds[StepKind]{
	toolKind{StepKind: definitions.Must(view.KindOf(definitions.ToolStep))},
	elicitationKind{definitions.Must(view.KindOf(definitions.ElicitationStep))},
	forEachKind{StepKind: definitions.Must(view.KindOf(definitions.ForEachStep))},
	waitKind{StepKind: definitions.Must(view.KindOf(definitions.WaitStep))},
	workflowKind{StepKind: definitions.Must(view.KindOf(definitions.WorkflowStep))},
	scriptKind{StepKind: definitions.Must(view.KindOf(definitions.ScriptStep))},
}

// RegisterKind adds a kind of steps, to definitions and their views too, as
// [definitions.RegisterKind] does.
func RegisterKind(k StepKind) {
	view.RegisterKind(k)
	kinds = append(kinds, k)
}

// KindOf is the kind of steps of a type, as [definitions.Kinds.Of] gives it.
func KindOf(typ definitions.StepType) (k StepKind, known bool) { return kinds.Of(typ) }

// Counts is of steps whose recorded result counts when a run is repeated.
type counts struct{}

func (counts) Survives(_ *definitions.Node, _ json.RawMessage, doubtful bool) (kept, exact bool) {
	return true, doubtful
}

// Begins is of steps that begin again when a run is repeated: what they have called
// counts by itself, and a timeout of their own runs anew.
type begins struct{}

func (begins) Survives(_ *definitions.Node, result json.RawMessage, doubtful bool) (kept, exact bool) {
	hadNoTimeout := string(result) == "{}"
	return !doubtful && hadNoTimeout, false
}

type toolKind struct {
	view.StepKind
	counts
}

func (toolKind) Execute(ctx workflow.Context, s StepRun) Outcome {
	return s.run.callTool(ctx, s.Node, s.at)
}

type elicitationKind struct{ view.StepKind }

func (elicitationKind) Execute(ctx workflow.Context, s StepRun) Outcome {
	return s.run.elicit(ctx, s.Node, s.at)
}

// Survives: an answer that let the step fail is asked for again.
func (elicitationKind) Survives(n *definitions.Node, result json.RawMessage, doubtful bool) (kept, exact bool) {
	var answer Answer
	if json.Unmarshal(result, &answer) != nil {
		return false, doubtful
	}
	handler := n.Step.OnCancel
	switch answer.Action {
	case Accept:
		return true, doubtful
	case Decline:
		handler = n.Step.OnDecline
	}
	return continues(n.Step) || handler != nil && handler.Action != "" && handler.Action != definitions.Abort, doubtful
}

type forEachKind struct {
	view.StepKind
	begins
}

func (forEachKind) Execute(ctx workflow.Context, s StepRun) Outcome {
	return s.run.forEach(ctx, s.Node, s.at)
}

type waitKind struct {
	view.StepKind
	counts
}

func (waitKind) Execute(ctx workflow.Context, s StepRun) Outcome {
	return s.run.wait(ctx, s.Node, s.at)
}

type workflowKind struct {
	view.StepKind
	counts
}

func (workflowKind) Execute(ctx workflow.Context, s StepRun) Outcome {
	return s.run.callsWorkflow(ctx, s.Node, s.at)
}

type scriptKind struct {
	view.StepKind
	begins
}

func (scriptKind) Execute(ctx workflow.Context, s StepRun) Outcome {
	return s.run.script(ctx, s.Node, s.at)
}
