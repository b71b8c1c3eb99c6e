package history

import (
	"cmp"
	"math"

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

// A scriptCall is what a script has called at a place; "" = with whatever arguments.
type scriptCall struct {
	site   workflows.StepPath
	digest string
}

// findRepeated finds the failures after which scripts have repeated what failed
// until it succeeded, or may have. Tried again, it would succeed at once, so that the
// script would not come to where it has succeeded before: it would be done twice.
func (r *planner) findRepeated() {
	reached := r.reached()
	failed := map[workflows.StepPath]record.Entry{}
	var repetitions []repetition
	for path, e := range r.was.Entries {
		if err := e.Failure(); err == nil || err.Category == codes.CategoryOutcomeUnknown || !r.ofScript(path) {
			continue
		}
		failed[path] = e
		if to := max(reached[scriptCall{path.Site(), e.Digest()}], reached[scriptCall{path.Site(), ""}]); to > e.Order {
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

// reached are the calls that have succeeded or may have, or whose result is given now, with
// the order of the last time. What was under way came after all that has ended.
func (r *planner) reached() map[scriptCall]int {
	reached := map[scriptCall]int{}
	add := func(path workflows.StepPath, digest string, order int) {
		if at := (scriptCall{path.Site(), digest}); r.ofScript(path) && !r.choice.undone[path] {
			reached[at] = max(reached[at], order)
		}
	}
	for path, e := range r.was.Entries {
		if _, given := r.req.Results[path]; given || e.Done() || mayBeDone(e) {
			add(path, e.Digest(), e.Order)
		}
	}
	for path, u := range r.unknown {
		e := r.was.Entries[path]
		digest := e.Digest()
		if digest == "" && u.Sent() != nil {
			digest = record.DigestOf(u.Sent())
		}
		add(path, digest, cmp.Or(e.Order, math.MaxInt))
	}
	for path := range r.was.Input.EarlierUnknown {
		add(path, r.was.Entries[path].Digest(), math.MaxInt)
	}
	return reached
}

// mayBeDone reports whether a call is to be decided, or a called run was stopped from
// outside or is under way.
func mayBeDone(e record.Entry) bool {
	call, _ := e.Kind.(record.Call)
	child, called := unfinished(e)
	return call.OutcomeUnknown != nil || called && (child.Error == nil || child.Error.FromOutside())
}

func (r *planner) ofScript(path workflows.StepPath) bool {
	n, _ := r.program.At(path)
	return n != nil && inScript(n, path)
}
