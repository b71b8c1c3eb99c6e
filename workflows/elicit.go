package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/codes"
)

type elicitationKind struct{ view.StepKind }

// Execute asks, and waits.
func (elicitationKind) Execute(ctx workflow.Context, s StepRun) Outcome {
	r, n, at := s.run, s.Node, s.at
	message, err := n.Message(r.steps.scopeAt(ctx, at))
	if err != nil {
		return Outcome{status: stepFailed, err: templateError(n, at, err)}
	}
	e := Elicitation{StepPath: at.path, Message: message, Schema: n.Step.Schema.Form()}
	if n.Step.Mode == definitions.URLMode {
		e.Mode = definitions.URLMode
	}
	answer, failure := r.ask(ctx, e, timeout(n.Step))
	if failure != nil {
		return Outcome{status: stepFailed, err: failure}
	}
	return answered(n.Step, at.path, answer)
}

// ask asks what a definition asks, unless Temporal is about to end the run.
func (r *run) ask(ctx workflow.Context, e Elicitation, limit time.Duration) (Answer, *Error) {
	if failure := r.calls.room(ctx, e.StepPath); failure != nil {
		return Answer{}, failure
	}
	return r.gates.ask(ctx, e, limit)
}

// answered turns an answer into the outcome of the step.
func answered(s *definitions.Step, path StepPath, a Answer) Outcome {
	if a.Action == Accept {
		content, err := decodeObject(a.Content)
		if err != nil {
			content = map[string]any{} // cannot happen: the answer was checked
		}
		return Outcome{status: stepCompleted, answer: &a, output: map[string]any{"action": Accept, "content": content}}
	}
	handler := s.OnCancel
	if a.Action == Decline {
		handler = s.OnDecline
	}
	out := Outcome{status: stepCompleted, answer: &a, output: s.Refused(a.Action)}
	switch {
	case handler != nil && handler.Action == definitions.Continue:
		return out
	case handler != nil && handler.Action == definitions.SkipRemaining:
		if members, ok := out.output.(map[string]any); ok {
			members["skipped"] = true
		}
		out.skip = true
		return out
	}
	return Outcome{status: stepFailed, answer: &a, err: refusal(s, path, a)}
}

// refusal is the error of an elicitation that was not accepted.
func refusal(s *definitions.Step, path StepPath, a Answer) *Error {
	e := &Error{Category: codes.CategoryDeclined}
	switch a.Action {
	case Decline:
		e.Code, e.Message = codes.Declined, fmt.Sprintf("step %s was declined", path)
	case Cancel:
		e.Code, e.Message = codes.ElicitationCancelled, fmt.Sprintf("step %s: the elicitation was cancelled", path)
	default:
		e.Code, e.Category, e.Retryable = codes.ElicitationTimeout, codes.CategoryTimeout, true
		e.Message = fmt.Sprintf("step %s timed out: nobody answered within %s", path, timeout(s).Round(time.Millisecond))
		return e
	}
	if a.AnsweredBy != "" {
		e.Message += " by " + a.AnsweredBy
	}
	return e
}
