package workflows

import (
	"fmt"
	"slices"

	"github.com/perdure/perdure/internal/codes"
	"go.temporal.io/sdk/workflow"
)

// tellings are what passes between a run and those above and below it.
type tellings struct {
	early   []ChildTold                 // of runs that no step listens to yet
	states  map[string]ElicitationState // what the one above knows of elicitations, by ID
	pending int                         // signals to it that are on their way
	gone    bool                        // it has ended
	ends    bool                        // it was told that this run ends
}

// hearAdoption notes when the run above has to be told that this one ends.
func (r *run) hearAdoption(workflow.Context, Signal, bool) hearing {
	return hearing{take: func(workflow.Context, Ruling) {
		if r.in.Parent != nil {
			parent := *r.in.Parent
			parent.Adopted = true
			r.in.Parent = &parent
		}
	}}
}

// tellParent tells the run that has called this one which elicitations have
// opened and closed.
func (r *run) tellParent(ctx workflow.Context) {
	if r.in.Parent == nil {
		return
	}
	for _, e := range slices.Clone(r.gates.state.Elicitations) {
		if r.children.tells.states[e.ID] != e.State {
			r.children.tells.states[e.ID] = e.State
			r.tell(ctx, ChildTold{Elicitation: &e})
		}
	}
}

func (r *run) tell(ctx workflow.Context, told ChildTold) {
	told.StepPath, told.RunID = r.in.Parent.StepPath, r.id
	r.children.tells.pending++
	r.signal(ctx, r.in.Parent.RunID, ChildSignal, told, func(err error) {
		r.children.tells.pending--
		if err != nil && !r.children.tells.gone { // nobody would be asked, and nobody would get the result
			r.children.tells.gone = true
			r.abort(&Error{Code: codes.ParentGone, Category: codes.CategoryCancelled, Message: fmt.Sprintf(
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
		_ = workflow.Await(wait, func() bool { return r.children.tells.pending == 0 }) // is never cancelled
		r.receive(wait, r.signals.box(AdoptSignal))
		if !r.in.Parent.Adopted || r.children.tells.ends || r.children.tells.gone {
			return
		}
		r.children.tells.ends = true
		r.tell(wait, ChildTold{Ends: true})
	}
}
