package workflows

import (
	"cmp"
	"maps"
	"slices"
)

// FailedRuns are the called runs that did not complete, in the order of their ends.
type failedRuns []failedBelow

// A failedBelow is the failure of a called run. Its effects and undone calls are
// reported with those of this run.
type failedBelow struct {
	path StepPath // of the step
	*Failure
}

// seen are paths of the called run as they are seen from this one.
func (f failedBelow) seen(paths []StepPath) []StepPath {
	var here []StepPath
	for _, path := range paths {
		here = append(here, f.path.Below(path))
	}
	return here
}

// undone adds what the runs that did not complete have undone, and what they have not, as
// far as there is room.
func (fs failedRuns) undone(f *Failure) {
	room := maxUndoneBelow
	for _, below := range fs {
		f.Uncompensated = append(f.Uncompensated, fitting(below.seen(below.Uncompensated), &room)...)
		f.Compensated = append(f.Compensated, fitting(below.seen(below.Compensated), &room)...)
	}
}

// partial adds the outputs of their steps that have completed.
func (fs failedRuns) partial(p *partial) {
	for _, below := range slices.SortedStableFunc(slices.Values(fs), func(a, b failedBelow) int { return cmp.Compare(a.path, b.path) }) {
		for _, id := range slices.Sorted(maps.Keys(below.Partial)) {
			p.add(below.path.Below(id), below.Partial[id])
		}
		p.omit(below.seen(below.Omitted)...)
	}
}
