package workflows

import (
	"encoding/json"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/internal/codes"
)

// A parent is the run whose step has called this one, and what it knows of it.
type parent struct {
	*origin
	tasks        *tasks
	signals      *signals
	failures     *failures
	elicitations *elicitations

	adopted bool                        // Temporal does not report to it how this run ends, so this one does
	states  map[string]ElicitationState // what it knows of elicitations, by ID
	pending int                         // signals to it that are on their way
	gone    bool                        // it has ended, and no execution of it has adopted this run since
	ends    bool                        // its execution has the report that this run ends
}

func newParent(o *origin, t *tasks, s *signals, f *failures, e *elicitations) *parent {
	p := &parent{origin: o, tasks: t, signals: s, failures: f, elicitations: e, states: map[string]ElicitationState{}}
	p.adopted = o.in.Parent != nil && o.in.Parent.Adopted
	return p
}

// known is the parent, as the next execution has to know it; nil = a caller has called
// this run.
func (p *parent) known() *Parent {
	if p.in.Parent == nil {
		return nil
	}
	known := *p.in.Parent
	known.Adopted = p.adopted
	return &known
}

// readAdoption notes that this run must report its end to the parent, and reports again
// what it asks, where the parent lacks that.
func (p *parent) readAdoption(_ workflow.Context, s Signal, _ bool) reading {
	var a Adopted
	_ = json.Unmarshal(s.Body, &a) // what cannot be read lacks nothing
	return reading{take: func(ctx workflow.Context, _ Ruling) {
		p.adopted, p.gone, p.ends = true, false, false // whatever became of an execution of the parent before
		if a.Lacks {
			for _, e := range p.elicitations.waiting() {
				delete(p.states, e.ID)
			}
			p.reportElicitations(ctx)
		}
	}}
}

// reportElicitations reports to the parent which elicitations have opened and closed.
func (p *parent) reportElicitations(ctx workflow.Context) {
	if p.in.Parent == nil {
		return
	}
	for _, e := range p.elicitations.all() {
		if p.states[e.ID] != e.State {
			p.states[e.ID] = e.State
			p.report(ctx, ChildReport{Elicitation: &e})
		}
	}
}

// reportAgain reports how an elicitation stands for which an answer was passed down in vain:
// since the run above was reset, or this one, that takes another one for open. What this run
// has yet to ask it reports then; it tells only that it was reset, since signals of one task
// may arrive in another order.
func (p *parent) reportAgain(ctx workflow.Context, id string) {
	if p.in.Parent == nil {
		return
	}
	report := ChildReport{}
	if i := p.elicitations.index(id); i >= 0 {
		report.Elicitation = p.elicitations.at(i)
	} else if p.in.Continued && !p.in.WasReset {
		report.Elicitation = &Elicitation{ID: id, State: ElicitationDropped}
	}
	p.report(ctx, report)
}

func (p *parent) report(ctx workflow.Context, report ChildReport) {
	report.StepPath, report.RunID, report.Round = p.in.Parent.StepPath, p.id, p.in.Round
	p.pending++
	p.signals.send(ctx, p.in.Parent.RunID, ChildSignal, report, func(err error) {
		p.pending--
		if err != nil { // no one would be asked, or get the result
			p.isGone()
		}
	})
}

// isGone cancels this run, since the parent has ended.
func (p *parent) isGone() {
	if p.gone {
		return
	}
	p.gone = true
	p.failures.abort(&Error{Code: codes.ParentGone, Category: codes.CategoryCancelled, Message: fmt.Sprintf(
		"%s was cancelled, since the run %s that has called it has ended", p.in.Definition.Name, p.in.Parent.RunID)})
}

// leave makes sure that the run above knows everything that is not in the
// outcome of this one, before that ends.
func (p *parent) leave(ctx workflow.Context) {
	if p.in.Parent == nil {
		return
	}
	wait, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	for {
		_ = workflow.Await(wait, func() bool { return p.pending == 0 }) // is never cancelled
		p.signals.receiveNow(wait, AdoptSignal)
		if p.ends || p.gone || !p.mustReport(wait) {
			return
		}
		p.ends = true
		p.report(wait, ChildReport{Ends: true})
	}
}

// mustReport reports whether the run above may have no other way to hear that this one
// ends: it has adopted this one, or this one was reset, perhaps to a point of an execution
// before the one for which that waits. What had ended before such a point has not reported.
func (p *parent) mustReport(ctx workflow.Context) bool {
	return p.adopted || p.in.WasReset && workflow.GetVersion(ctx, "report ends", workflow.DefaultVersion, 1) > workflow.DefaultVersion
}

// makeRoom waits for a workflow task that has room for what the run above gets, after
// leave. Meanwhile that run may have adopted this one.
func (p *parent) makeRoom(ctx workflow.Context, bytes int) {
	for !p.tasks.fits(ctx, bytes) {
		p.tasks.next(ctx)
		p.leave(ctx)
	}
}
