package workflows

import (
	"cmp"
	"maps"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/workflows/record"
)

// Children are the runs that a run calls.
type children struct {
	*origin
	tasks      *tasks
	journal    *record.Log
	budget     *budget
	gates      *gates
	signals    *signals
	references *references

	slots  workflow.Semaphore   // of which each takes one
	called map[StepPath]*called // that have not ended, by step path
	failed []failedBelow        // that did not complete, in the order of their ends
	early  []ChildTold          // of runs that no step listens to yet
}

// childBefore is a run that a step has called and that has completed, or what a person has
// given instead, if that counts for a digest of arguments.
func (cs *children) childBefore(path StepPath, digest string) (record.Child, bool) {
	if given, ok := record.Found[record.Given](cs.journal, path, digest); ok {
		return record.Child{Output: given.Output, Effects: given.Effects}, true
	}
	return record.Found[record.Child](cs.journal, path, digest)
}

// noteEffects keeps those of a called run that has ended. Where it has not said
// what it has done, because it was terminated, they are unknown.
func (cs *children) noteEffects(end childEnd) {
	path := end.call.path
	child, ok := cs.journal.At(path).Kind.(record.Child)
	if !ok || end.Result != nil { // that is kept with the result
		return
	}
	if f := end.Failure; f == nil || f.Error.BrokeDown() {
		child.Left = true
	} else {
		child.Effects = f.Effects
	}
	cs.journal.Amend(path, child)
}

// undone adds what the runs that did not complete have undone, and what they have not, as
// far as there is room.
func (cs *children) undone(f *Failure) {
	room := maxUndoneBelow
	for _, below := range cs.failed {
		f.Uncompensated = append(f.Uncompensated, fitting(below.seen(below.Uncompensated), &room)...)
		f.Compensated = append(f.Compensated, fitting(below.seen(below.Compensated), &room)...)
	}
}

// partial adds the outputs of their steps that have completed.
func (cs *children) partial(p *partial) {
	for _, below := range slices.SortedStableFunc(slices.Values(cs.failed), func(a, b failedBelow) int { return cmp.Compare(a.path, b.path) }) {
		for _, id := range slices.Sorted(maps.Keys(below.Partial)) {
			p.add(below.path.Below(id), below.Partial[id])
		}
		p.omit(below.seen(below.Omitted)...)
	}
}
