package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/perdure/perdure/internal/runs"
)

type runsReconcileCommand struct {
	temporalFlags `embed:""`
	signFlags     `embed:""`

	ID          string `arg:"" help:"Run ID; any unique part of it works."`
	Step        string `help:"Step or step path of the call, if several outcomes are unknown."`
	Happened    bool   `help:"The call was executed: the run resumes with --result." xor:"outcome" required:""`
	NotHappened bool   `help:"The call was not executed: it is made now." xor:"outcome" required:""`
	Fail        bool   `help:"Let the step fail." xor:"outcome" required:""`
	Result      string `help:"Result of the call, a JSON object, with --happened. Default: {}." placeholder:"JSON"`
	By          string `help:"Name to record as the person who decides. Default: your user name."`
}

func (runsReconcileCommand) Help() string {
	return `For a run that waits for reconciliation: a call was sent, its response was lost, and
the tool must not be called twice. "perdure runs show" prints the call and its
idempotency key; check at the backend whether it was executed. Examples:

    perdure runs reconcile k3v9a2 --happened --result '{"id": 17}'
    perdure runs reconcile k3v9a2 --step 'create[3]' --not-happened`
}

func (r runsReconcileCommand) Run(ctx context.Context, c *console) error {
	if r.Result != "" && !r.Happened {
		return usagef("--result needs --happened")
	}
	rc, done, err := r.signFlags.client(ctx, r.temporalFlags)
	if err != nil {
		return err
	}
	defer done()
	id, err := findRun(ctx, rc, r.ID, runs.Filter{Waiting: true})
	if err != nil {
		return err
	}
	question, err := openElicitation(ctx, rc, id, func(e runs.Elicitation) bool {
		_, within := e.StepPath.From(runs.StepPath(r.Step))
		return e.Kind == runs.Reconciliation && (r.Step == "" || r.Step == e.StepID || within)
	}, r.Step)
	if err != nil {
		return err
	}
	content, err := json.Marshal(r.outcome())
	if err != nil {
		return err
	}
	err = r.send(ctx, c, rc, id, question, runs.Answer{Action: "accept", Content: content, By: r.By})
	if _, invalid := errors.AsType[*runs.InvalidAnswerError](err); invalid {
		return fmt.Errorf("the result does not fit, and %s still waits: %w", question.StepPath, err)
	}
	return err
}

func (r runsReconcileCommand) outcome() runs.Reconciled {
	switch {
	case r.Happened:
		return runs.Reconciled{Outcome: runs.Happened, Result: r.Result}
	case r.NotHappened:
		return runs.Reconciled{Outcome: runs.NotHappened}
	default:
		return runs.Reconciled{Outcome: runs.Fail}
	}
}
