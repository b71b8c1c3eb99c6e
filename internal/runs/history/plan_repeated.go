package history

import (
	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows"
	"github.com/perdure/perdure/workflows/record"
)

// A repetition is what a script did from a call that failed to one at the same
// place, with the same arguments, that succeeded.
type repetition struct {
	within   definitions.Prefix // of the paths of its calls
	from, to int                // their order
}

func (p repetition) has(path workflows.StepPath, e record.Entry) bool {
	return p.within.Of(path) && p.from <= e.Order && e.Order <= p.to
}

// findRepeated finds the failures after which scripts have repeated what failed
// until it succeeded. Tried again, it would succeed at once, so that the script
// would not come to where it has succeeded before: it would be done twice.
func (r *planner) findRepeated() {
	type call struct {
		site   workflows.StepPath
		digest string
	}
	succeeded := map[call]int{} // the order of the last time
	for path, e := range r.was.Entries {
		if e.Done() && !r.choice.undone[path] && r.ofScript(path) {
			at := call{path.Site(), e.Digest()}
			succeeded[at] = max(succeeded[at], e.Order)
		}
	}
	failed := map[workflows.StepPath]record.Entry{}
	var repetitions []repetition
	for path, e := range r.was.Entries {
		if err := e.Failure(); err == nil || err.Category == codes.CategoryOutcomeUnknown || !r.ofScript(path) {
			continue
		}
		failed[path] = e
		if to := succeeded[call{path.Site(), e.Digest()}]; to > e.Order {
			repetitions = append(repetitions, repetition{path.Around(), e.Order, to})
		}
	}
	for path, e := range failed {
		for _, p := range repetitions {
			r.choice.repeated[path] = r.choice.repeated[path] || p.has(path, e)
		}
		if e.StaysFailed(r.choice.terms(path, nil, nil)) {
			delete(r.called, path) // which is left as it is
		}
	}
}

func (r *planner) ofScript(path workflows.StepPath) bool {
	n, _ := r.program.At(path)
	return n != nil && inScript(n, path)
}
