package runs

import (
	"strings"

	"github.com/perdure/perdure/workflows"
)

// A repetition is what a script did from a call that failed to one at the same
// place, with the same arguments, that succeeded.
type repetition struct {
	within   string // what the paths of its calls begin with
	from, to int    // their order
}

func (p repetition) has(path string, e workflows.JournalEntry) bool {
	return strings.HasPrefix(path, p.within) && p.from <= e.Order && e.Order <= p.to
}

// findRepeated finds the failures after which scripts have repeated what failed
// until it succeeded. Tried again, it would succeed at once, so that the script
// would not come to where it has succeeded before: it would be done twice.
func (r *repairer) findRepeated() {
	type call struct{ place, digest string }
	succeeded := map[call]int{} // the order of the last time
	for path, e := range r.record.Journal {
		if e.Result != nil && !r.undone[path] && r.ofScript(path) {
			at := call{placeOf(path), e.ArgumentsDigest}
			succeeded[at] = max(succeeded[at], e.Order)
		}
	}
	failed := map[string]workflows.JournalEntry{}
	var repetitions []repetition
	for path, e := range r.record.Journal {
		if e.Error == nil || e.Error.Category == workflows.CategoryOutcomeUnknown || !r.ofScript(path) {
			continue
		}
		failed[path] = e
		if to := succeeded[call{placeOf(path), e.ArgumentsDigest}]; to > e.Order {
			repetitions = append(repetitions, repetition{path[:strings.LastIndexByte(path, '/')+1], e.Order, to})
		}
	}
	for path, e := range failed {
		for _, p := range repetitions {
			r.repeated[path] = r.repeated[path] || p.has(path, e)
		}
		if r.staysFailed(path, e) {
			delete(r.called, path) // which is left as it is
		}
	}
}

func (r *repairer) ofScript(path string) bool {
	n, _ := r.program.At(path)
	return n != nil && inScript(n, path)
}

// placeOf is where a call of a script stands, however often it came there.
func placeOf(path string) string {
	last := strings.LastIndexByte(path, '/') + 1
	name, _, _ := strings.Cut(path[last:], "#")
	return path[:last] + name
}
