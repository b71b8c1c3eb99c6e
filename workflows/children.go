package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/workflows/record"
)

// Children are the runs that a run calls.
type children struct {
	*origin
	tasks      *tasks
	journal    *record.Journal
	budget     *budget
	signals    *signals
	references *references
	results    *results

	relay *relay             // listens to them
	tree  Tree               // with the calls of this execution
	slots workflow.Semaphore // each called run takes one

	failed failedRuns // of them
}

// childBefore is a run that a step has called and that has completed, or what a person has
// given instead, if that counts for a digest of arguments.
func (cs *children) childBefore(path StepPath, digest string) (record.Child, bool) {
	if given, ok := record.Found[record.Given](cs.journal, path, digest); ok {
		return record.Child{Output: given.Output, Effects: given.Effects}, true
	}
	return record.Found[record.Child](cs.journal, path, digest)
}

// noteEffects keeps the effects of a called run that has ended. A terminated one has
// not reported them, so they are unknown.
func (cs *children) noteEffects(end childEnd) {
	path := end.call.path
	child, ok := cs.journal.At(path).Kind.(record.Child)
	if !ok || end.Result != nil { // that is kept with the result
		return
	}
	if f := end.Failure; f == nil || f.Error.BrokeDown() {
		child.OutcomeUnknown = true
	} else {
		child.Effects = f.Effects
	}
	cs.journal.Amend(path, child)
}

// leave notes that it is not known what a called run has done that has ended.
func (cs *children) leave(path StepPath) {
	if child, ok := cs.journal.At(path).Kind.(record.Child); ok {
		child.OutcomeUnknown = true
		cs.journal.Amend(path, child)
	}
}

// addFailed adds what the runs that did not complete have undone, and their outputs.
func (cs *children) addFailed(f *Failure, p *partial) {
	cs.failed.undone(f)
	cs.failed.partial(p)
}
