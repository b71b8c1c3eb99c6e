package workflows

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"
)

// tellings are what passes between a run and those above and below it.
type tellings struct {
	received  workflow.ReceiveChannel // signals with a ChildTold
	early     []ChildTold             // of runs that no step listens to yet
	adoptions workflow.ReceiveChannel // signals with an Adopted

	states  map[string]ElicitationState // what the one above knows of elicitations, by ID
	pending int                         // signals to it that are on their way
	gone    bool                        // it has ended
	ends    bool                        // it was told that this run ends
}

// receiveAdoptions notes when the run above has to be told that this one ends.
func (r *run) receiveAdoptions(ctx workflow.Context) {
	r.tells.adoptions = workflow.GetSignalChannel(ctx, AdoptSignal)
	wait, _ := workflow.NewDisconnectedContext(ctx)
	workflow.GoNamed(wait, "adoptions", func(ctx workflow.Context) {
		for workflow.Await(ctx, func() bool { return r.tells.adoptions.Len() > 0 }) == nil {
			r.takeAdoptions()
		}
	})
}

func (r *run) takeAdoptions() {
	var a Adopted
	for r.tells.adoptions.ReceiveAsync(&a) {
		if r.in.Parent != nil {
			parent := *r.in.Parent
			parent.Adopted = true
			r.in.Parent = &parent
		}
	}
}

// tellParent tells the run that has called this one which elicitations have
// opened and closed.
func (r *run) tellParent(ctx workflow.Context) {
	if r.in.Parent == nil {
		return
	}
	for _, e := range slices.Clone(r.state.Elicitations) {
		if r.tells.states[e.ID] != e.State {
			r.tells.states[e.ID] = e.State
			r.tell(ctx, ChildTold{Elicitation: &e})
		}
	}
}

func (r *run) tell(ctx workflow.Context, told ChildTold) {
	told.StepPath = r.in.Parent.StepPath
	r.tells.pending++
	if told.Elicitation != nil {
		r.makeRoom(ctx, openBytes(*told.Elicitation))
	}
	r.signal(ctx, r.in.Parent.RunID, ChildSignal, told, func(err error) {
		r.tells.pending--
		if err != nil && !r.tells.gone { // nobody would be asked, and nobody would get the result
			r.tells.gone = true
			r.abort(&Error{Code: "parent_gone", Category: CategoryCancelled, Message: fmt.Sprintf(
				"%s was cancelled, since the run %s that has called it has ended", r.in.Definition.Name, r.in.Parent.RunID)})
		}
	})
}

// leaveParent makes sure that the run above knows everything that is not in the
// outcome of this one, before that ends.
func (r *run) leaveParent(ctx workflow.Context) {
	if r.in.Parent == nil {
		return
	}
	wait, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	for {
		_ = workflow.Await(wait, func() bool { return r.tells.pending == 0 }) // is never cancelled
		r.takeAdoptions()
		if !r.in.Parent.Adopted || r.tells.ends || r.tells.gone {
			return
		}
		r.tells.ends = true
		r.tell(wait, ChildTold{Ends: true})
	}
}
