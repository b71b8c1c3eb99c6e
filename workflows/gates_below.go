package workflows

import (
	"strings"

	"go.temporal.io/sdk/workflow"
)

// Elicitations of a called run are also in the state of the calling run, below the path of
// the step: following, listing or answering a run includes the runs below it. A called run
// reports its elicitations and their ends by signals; answers are passed on to it, and it
// takes the first.

// reopenBelow opens the elicitations of a called run again after continue-as-new. Those of a
// run that was reset since are others.
func (gs *gates) reopenBelow(ctx workflow.Context, call *called) {
	for _, was := range gs.in.Open {
		if _, below := call.path.CalledID(was.ID); was.Run != "" && below && !gs.elicitations.asked(was.ID) {
			if !strings.HasSuffix(was.Round, gs.in.Round) {
				was.Round += gs.in.Round
			}
			gs.mirror(ctx, call, was)
		}
	}
}

// updateBelow takes a called run's report on an elicitation, with paths as seen from here.
// One of another round is another one than that with the same ID before: a run was reset.
func (gs *gates) updateBelow(ctx workflow.Context, call *called, e Elicitation) {
	closed := gs.elicitations.closedBefore(e)
	e.Round += gs.in.Round
	i := gs.elicitations.index(e.ID)
	anew := i >= 0 && gs.elicitations.at(i).Round != e.Round
	if anew && e.State != ElicitationOpen && e.Message != "" {
		return // signals of one task arrive in any order, and this one was replaced
	}
	g, open := gs.opened[e.ID]
	if open && anew {
		gs.close(ctx, g, ElicitationDropped, Answer{})
		open = false
	}
	switch {
	case open && e.State != ElicitationOpen:
		gs.closeAs(ctx, g, e)
	case e.State != ElicitationOpen && e.Message == "": // the called run does not know it
	case !open && (anew || i < 0 && !closed):
		gs.mirror(ctx, call, e)
	}
}

// dropBelow closes elicitations of a called run that it no longer asks.
func (gs *gates) dropBelow(ctx workflow.Context, call *called, void func(Elicitation) bool) {
	for _, e := range gs.elicitations.waiting() {
		if g := gs.opened[e.ID]; g != nil && g.child == call && void(e) {
			gs.close(ctx, g, ElicitationDropped, Answer{})
		}
	}
}

// mirror adds an elicitation of a called run to the state.
func (gs *gates) mirror(ctx workflow.Context, call *called, e Elicitation) {
	if e.State == ElicitationOpen && gs.elicitations.check(e) != nil {
		// There is no room for all of it; the called run has the rest.
		e.Message, e.Schema, e.Call = oneLine(e.Message), nil, nil
	}
	index := gs.elicitations.add(e)
	if e.State != ElicitationOpen { // reported out of order
		gs.board.publishState(ctx)
		return
	}
	gs.opened[e.ID] = &gate{index: index, kind: e.Kind, schema: e.AnswerSchema(), child: call}
	gs.journal.Grow(openBytes(e))
	gs.board.publish(ctx, Waiting)
	gs.takePendingAnswers(ctx, e.ID)
}
