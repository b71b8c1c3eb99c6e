package workflows

import (
	"cmp"
	"encoding/json"
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// A ChildTold is what a called run tells the one that has called it.
type ChildTold struct {
	RunID       string       `json:"runId"`                 // that tells it
	StepPath    StepPath     `json:"stepPath"`              // of the step that has called it
	Elicitation *Elicitation `json:"elicitation,omitempty"` // that has opened or closed, as its own state has it
	Ends        bool         `json:"ends,omitempty"`        // the run ends
}

// An Adopted tells a called run that the one that has called it goes on in an
// execution which Temporal does not tell how it ends.
type Adopted struct {
	StepPath StepPath `json:"stepPath"` // of the step that has called it
}

// hearChild hands on what called runs tell, also when the run has failed and waits
// for them to end. What is told of a step that has not come to it stays for when
// it has.
func (cs *children) hearChild(_ workflow.Context, s Signal, _ bool) hearing {
	var told ChildTold
	unreadable := json.Unmarshal(s.Body, &told) != nil
	return hearing{take: func(ctx workflow.Context, _ Ruling) {
		switch call := cs.called[told.StepPath]; {
		case unreadable:
		case call != nil:
			cs.hear(ctx, call, told)
		default:
			cs.early = append(cs.early, told)
		}
	}}
}

// expect begins to listen to a called run. What it had asked when this one
// continued as new is open again.
func (cs *children) expect(ctx workflow.Context, call *called) {
	cs.called[call.path] = call
	cs.gates.reopenBelow(ctx, call)
	early := cs.early
	cs.early = nil
	for _, told := range early {
		if told.StepPath == call.path {
			cs.hear(ctx, call, told)
		} else {
			cs.early = append(cs.early, told)
		}
	}
}

// dismiss ends that: the run has ended, and asks nothing any more.
func (cs *children) dismiss(ctx workflow.Context, call *called) {
	if cs.called[call.path] != call {
		return
	}
	delete(cs.called, call.path)
	cs.gates.dropBelow(ctx, call)
}

func (cs *children) hear(ctx workflow.Context, call *called, told ChildTold) {
	if told.RunID != call.id {
		return // which the step had called before
	}
	call.over = call.over || told.Ends
	if told.Elicitation == nil {
		return
	}
	e := *told.Elicitation
	e.ID, e.StepPath, e.StepID = call.path.Tells(e.ID), call.path.Below(e.StepPath), call.path.Top()
	e.Run, e.Askings = cmp.Or(e.Run, call.id), nil
	cs.gates.hearBelow(ctx, call, e)
}

// passOn gives an answer to the called run that asks.
func (cs *children) passOn(ctx workflow.Context, call *called, a Answer) {
	if own, ok := call.path.Told(a.ElicitationID); ok {
		a.ElicitationID = own
	}
	cs.signals.send(ctx, call.id, AnswerSignal, a, func(err error) {
		if err != nil {
			workflow.GetLogger(ctx).Warn("an answer could not be passed on", "run", call.id, "elicitation", a.ElicitationID, "error", err.Error())
		}
	})
}

// adoptInterval is how often it is looked whether an adopted run is still there:
// one that is terminated says nothing.
const adoptInterval = time.Hour

// outcomeInterval is how often it is looked whether a run has ended that has
// told that it will.
const outcomeInterval = 100 * time.Millisecond

// adopt waits for the end of a run that an execution before has started.
func (cs *children) adopt(ctx workflow.Context, call *called) childEnd {
	cs.expect(ctx, call)
	defer cs.dismiss(ctx, call)
	wait, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	gone, cancelled := false, false
	for !gone && !call.over {
		told := false
		cs.signals.send(wait, call.id, AdoptSignal, Adopted{StepPath: call.path}, func(err error) { told, gone = true, err != nil })
		_ = workflow.Await(wait, func() bool { return told })
		if gone {
			break
		}
		if !cancelled {
			_, err := workflow.AwaitWithTimeout(ctx, adoptInterval, func() bool { return call.over })
			if cancelled = err != nil; !cancelled {
				continue
			}
			_ = workflow.RequestCancelExternalWorkflow(wait, call.id, "").Get(wait, nil)
			continue // for whether it was still there, which this does not tell
		}
		// It may have to undo things, and to ask, before it ends.
		_, _ = workflow.AwaitWithTimeout(wait, adoptInterval, func() bool { return call.over })
	}
	outcome, err := cs.outcomeOf(wait, call)
	return childEnd{call: call, ChildOutcome: outcome, err: cmp.Or(err, ctx.Err())}
}

// outcomeOf asks how a run has ended, or ends now.
func (cs *children) outcomeOf(ctx workflow.Context, call *called) (outcome ChildOutcome, err error) {
	cs.tasks.makeRoom(ctx, 0)
	cs.budget.begins()
	defer func() { cs.budget.ends() }()
	actx := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		Summary: Summary(call.path, call.tool), StartToCloseTimeout: time.Minute,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: outcomeInterval, MaximumInterval: 10 * time.Second},
	})
	err = workflow.ExecuteActivity(actx, OutcomeName, call.id).Get(ctx, &outcome)
	if err == nil && outcome.Result == nil && outcome.Failure == nil {
		err = errors.New("the run that was called has no outcome")
	}
	return outcome, err
}
