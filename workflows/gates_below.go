package workflows

import "go.temporal.io/sdk/workflow"

// What a called run asks is in the state of the run that has called it as well, under the
// path of the step: whoever follows, lists or answers the one sees all that those below it
// ask. A called run tells by signals what it asks and what became of it; answers are
// passed on to it, and it takes the first.

// reopenBelow opens again what a called run had asked when this one continued as new.
func (gs *gates) reopenBelow(ctx workflow.Context, call *called) {
	for _, was := range gs.in.Open {
		if _, told := call.path.CalledID(was.ID); was.Run != "" && told && !gs.elicitations.asked(was.ID) {
			gs.mirror(ctx, call, was)
		}
	}
}

// hearBelow takes what a called run has told of an elicitation, seen from this one.
func (gs *gates) hearBelow(ctx workflow.Context, call *called, e Elicitation) {
	g, open := gs.opened[e.ID]
	switch {
	case open && e.State != ElicitationOpen:
		gs.closeAs(ctx, g, e)
	case !open && !gs.elicitations.asked(e.ID) && !gs.elicitations.closedBefore(e):
		gs.mirror(ctx, call, e)
	}
}

// dropBelow closes what a called run asks that has ended.
func (gs *gates) dropBelow(ctx workflow.Context, call *called) {
	for _, e := range gs.elicitations.waiting() {
		if g := gs.opened[e.ID]; g != nil && g.child == call {
			gs.close(ctx, g, ElicitationDropped, Answer{})
		}
	}
}

// mirror puts what a called run asks into the run's state.
func (gs *gates) mirror(ctx workflow.Context, call *called, e Elicitation) {
	if e.State == ElicitationOpen && gs.elicitations.check(e) != nil {
		// There is no room to show all of it. What is asked is with the called run.
		e.Message, e.Schema, e.Call = oneLine(e.Message), nil, nil
	}
	e.Round += gs.round(ctx)
	index := gs.elicitations.add(e)
	if e.State != ElicitationOpen { // it was told before that it opened
		gs.board.publishState(ctx)
		return
	}
	gs.opened[e.ID] = &gate{index: index, kind: e.Kind, schema: e.AnswerSchema(), child: call}
	gs.journal.Grow(openBytes(e))
	gs.board.publish(ctx, Waiting)
	gs.takeEarly(ctx, e.ID)
}
