package workflows

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/workflows/record"
)

// Children are the runs that a run calls.
type children struct {
	slots       workflow.Semaphore         // of which each takes one
	resolutions map[string]workflow.Future // of definitions that steps call, by how they are written
	called      map[StepPath]*called       // that have not ended, by step path
	failed      []failedBelow              // that did not complete, in the order of their ends
	tells       tellings                   // of the run to the one that has called it
}

// What a called run asks stands in the state of the run that has called it as
// well, under the path of the step: whoever follows, lists or answers the one
// sees all that those below it ask. A called run tells by signals what it asks
// and what became of it; answers are passed on to it, and it takes the first.

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
func (r *run) hearChild(_ workflow.Context, s Signal, _ bool) hearing {
	var told ChildTold
	unreadable := json.Unmarshal(s.Body, &told) != nil
	return hearing{take: func(ctx workflow.Context, _ Ruling) {
		switch call := r.children.called[told.StepPath]; {
		case unreadable:
		case call != nil:
			r.hear(ctx, call, told)
		default:
			r.children.tells.early = append(r.children.tells.early, told)
		}
	}}
}

// expect begins to listen to a called run. What it had asked when this one
// continued as new is open again.
func (r *run) expect(ctx workflow.Context, call *called) {
	r.children.called[call.path] = call
	for _, was := range r.in.Open {
		if _, told := call.path.Told(was.ID); was.Run != "" && told && !r.gates.asked(was.ID) {
			r.mirror(ctx, call, was)
		}
	}
	early := r.children.tells.early
	r.children.tells.early = nil
	for _, told := range early {
		if told.StepPath == call.path {
			r.hear(ctx, call, told)
		} else {
			r.children.tells.early = append(r.children.tells.early, told)
		}
	}
}

// dismiss ends that: the run has ended, and asks nothing any more.
func (r *run) dismiss(ctx workflow.Context, call *called) {
	if r.children.called[call.path] != call {
		return
	}
	delete(r.children.called, call.path)
	for _, e := range r.gates.waiting() {
		if g := r.gates.open[e.ID]; g != nil && g.child == call {
			r.close(ctx, g, ElicitationDropped, Answer{})
		}
	}
}

func (r *run) hear(ctx workflow.Context, call *called, told ChildTold) {
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
	g, open := r.gates.open[e.ID]
	switch {
	case open && e.State != ElicitationOpen:
		r.closeAs(ctx, g, e)
	case !open && !r.gates.asked(e.ID) && !r.closedBefore(e):
		r.mirror(ctx, call, e)
	}
}

// closedBefore says whether an elicitation of a called run was closed in an
// execution before this one: it is told once more by somebody who has kept that.
func (r *run) closedBefore(e Elicitation) bool {
	return r.in.Continued && e.StepPath.Time(e.ID) <= r.in.Asked[e.StepPath] && !slices.ContainsFunc(r.in.Open, func(o Elicitation) bool { return o.ID == e.ID })
}

// mirror puts what a called run asks into the run's state.
func (r *run) mirror(ctx workflow.Context, call *called, e Elicitation) {
	if e.State == ElicitationOpen && r.gates.check(e) != nil {
		// There is no room to show all of it. What is asked is with the called run.
		e.Message, e.Schema, e.Call = oneLine(e.Message), nil, nil
	}
	e.Round += r.round(ctx)
	r.gates.state.Elicitations = append(r.gates.state.Elicitations, e)
	if e.State != ElicitationOpen { // it was told before that it opened
		r.publishState(ctx)
		return
	}
	r.gates.open[e.ID] = &gate{index: len(r.gates.state.Elicitations) - 1, kind: e.Kind, schema: e.AnswerSchema(), child: call}
	r.journal.Grow(openBytes(e))
	r.publish(ctx, Waiting)
	r.takeEarly(ctx, e.ID)
}

// passOn gives an answer to the called run that asks.
func (r *run) passOn(ctx workflow.Context, call *called, a Answer) {
	if own, ok := call.path.Told(a.ElicitationID); ok {
		a.ElicitationID = own
	}
	r.signal(ctx, call.id, AnswerSignal, a, func(err error) {
		if err != nil {
			workflow.GetLogger(ctx).Warn("an answer could not be passed on", "run", call.id, "elicitation", a.ElicitationID, "error", err.Error())
		}
	})
}

// signal sends a signal, with proof, to another run. It is under way until then: a run that
// has ended or continued sends nothing more.
func (r *run) signal(ctx workflow.Context, id, name string, value any, then func(error)) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	s := r.signed(ctx, name, id, value)
	r.tasks.makeRoom(ctx, record.PayloadSize(s.Body))
	r.tasks.carries(ctx)
	sent := workflow.SignalExternalWorkflow(ctx, id, "", name, s)
	r.calls.underWay++
	workflow.GoNamed(ctx, name+" "+id, func(ctx workflow.Context) {
		err := sent.Get(ctx, nil)
		r.calls.underWay--
		then(err)
	})
}

// adoptInterval is how often it is looked whether an adopted run is still there:
// one that is terminated says nothing.
const adoptInterval = time.Hour

// outcomeInterval is how often it is looked whether a run has ended that has
// told that it will.
const outcomeInterval = 100 * time.Millisecond

// adopt waits for the end of a run that an execution before has started.
func (r *run) adopt(ctx workflow.Context, call *called) childEnd {
	r.expect(ctx, call)
	defer r.dismiss(ctx, call)
	wait, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	gone, cancelled := false, false
	for !gone && !call.over {
		told := false
		r.signal(wait, call.id, AdoptSignal, Adopted{StepPath: call.path}, func(err error) { told, gone = true, err != nil })
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
	outcome, err := r.outcomeOf(wait, call)
	return childEnd{call: call, ChildOutcome: outcome, err: cmp.Or(err, ctx.Err())}
}

// outcomeOf asks how a run has ended, or ends now.
func (r *run) outcomeOf(ctx workflow.Context, call *called) (outcome ChildOutcome, err error) {
	r.tasks.makeRoom(ctx, 0)
	r.calls.underWay++
	defer func() { r.calls.underWay-- }()
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
