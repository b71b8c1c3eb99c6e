package workflows

import (
	"cmp"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/workflows/record"
)

// Text says why a run failed, and what calling it again would repeat.
func (f *Failure) Text() string {
	if f.Effects.Repeatable() {
		return f.Error.Message
	}
	return strings.TrimRight(f.Error.Message, ". \n") + ". " + f.Effects.String()
}

// effects are those of what the run has recorded, in this execution and in those
// before it; nil = none. What was undone has none any more.
func (r *run) effects() *Effects {
	var all Effects
	for path, e := range r.entries() {
		below := e.Effects().Within(path)
		if call, left := r.unknownAt(path, e); left && len(below.Unknown) == 0 {
			all.Unknown = append(all.Unknown, call)
		}
		all.Unknown, all.More = append(all.Unknown, below.Unknown...), all.More+below.More
		if r.undo.covers(path) {
			continue
		}
		if tool, done := e.Executed(path); done && r.hasEffects(tool) {
			all.Completed = append(all.Completed, EffectCall{StepPath: path, Tool: tool})
		}
		all.Completed = append(all.Completed, below.Completed...)
	}
	if all.Repeatable() {
		return nil
	}
	all.Bound()
	return &all
}

// entries are what the run has recorded by step path, in that order, with calls of
// which it knows no more than that they have left.
func (r *run) entries() func(yield func(StepPath, record.Entry) bool) {
	whole := r.journal.Whole()
	paths := slices.Concat(workflow.DeterministicKeys(whole), workflow.DeterministicKeys(r.sent.unsettled), workflow.DeterministicKeys(r.sent.keyed))
	slices.Sort(paths)
	return func(yield func(StepPath, record.Entry) bool) {
		for _, path := range slices.Compact(paths) {
			if !yield(path, whole[path]) {
				return
			}
		}
	}
}

// unknownAt says whether it is unknown if a call was executed that was made at a
// path, or all that a called run has.
func (r *run) unknownAt(path StepPath, e record.Entry) (EffectCall, bool) {
	call := EffectCall{StepPath: path, Tool: e.Tool()}
	u, left := r.sent.unsettled[path]
	keyed, repeats := r.sent.keyed[path]
	switch {
	case left:
		call.Tool = u.Call.Tool
		return call, true
	case repeats:
		call.Tool = keyed
		return call, true
	}
	tool, unknown := e.Unknown(path, r.journal.Reached(path))
	call.Tool = cmp.Or(tool, call.Tool)
	return call, unknown
}

// leftUnknown says whether it is unknown if the call at a path was executed, or all
// that a called run has.
func (r *run) leftUnknown(path StepPath) bool {
	_, left := r.unknownAt(path, r.journal.At(path))
	return left
}

// leftBelow says the same of any call whose path begins so, of this execution and
// of those before.
func (r *run) leftBelow(prefix definitions.Prefix) bool {
	for path, e := range r.entries() {
		if _, left := r.unknownAt(path, e); left && prefix.Of(path) {
			return true
		}
	}
	return false
}

// noteEffects keeps those of a called run that has ended. Where it has not said
// what it has done, because it was terminated, they are unknown.
func (r *run) noteEffects(end childEnd) {
	path := end.call.path
	child, ok := r.journal.At(path).Kind.(record.Child)
	if !ok || end.Result != nil { // that is kept with the result
		return
	}
	if f := end.Failure; f == nil || f.Error.BrokeDown() {
		child.Left = true
	} else {
		child.Effects = f.Effects
	}
	r.journal.Amend(path, child)
}

// hasEffects says whether a tool, by the name under which clients know it, has
// effects that another run would repeat.
func (r *run) hasEffects(name string) bool {
	tool, ok := r.tool(name)
	return ok && tool.Effect != definitions.Read && tool.Effect != definitions.Idempotent
}

// covers says whether what was done at a path was undone, alone or with the run
// that has done it.
func (u *undoing) covers(path StepPath) bool {
	undone := false
	//workflowcheck:ignore whether there is any
	for step := range u.times {
		undone = undone || step.Covers(path)
	}
	return undone
}

// settleEffects is the one place that decides whether a failed run may say that
// calling it again may help.
func (r *run) settleEffects(f *Failure) {
	f.Effects = r.effects()
	f.Error.Retryable = f.Error.Retryable && f.Effects.Repeatable()
}

// settleErrors decides the same of failures in spite of which a run completes.
func (r *run) settleErrors(result *RunResult) {
	if len(result.Errors) == 0 && r.in.Parent == nil {
		return // nobody would hear of them
	}
	effects := r.effects()
	for i := range result.Errors {
		result.Errors[i].Retryable = result.Errors[i].Retryable && effects.Repeatable()
	}
	if r.in.Parent != nil {
		result.Effects = effects
	}
}
