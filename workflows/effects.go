package workflows

import (
	"cmp"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/workflows/record"
)

// Text reports why a run failed, and what calling it again would repeat.
func (f *Failure) Text() string {
	if f.Effects.Repeatable() {
		return f.Error.Message
	}
	return strings.TrimRight(f.Error.Message, ". \n") + ". " + f.Effects.String()
}

// A ledger reports which effects a run has had.
type ledger struct {
	*origin
	journal *record.Journal
	sent    *sent
	undo    *undoing
}

// effects are those of what the run has recorded, in this execution and in those
// before it; nil = none. What was undone has none any more.
func (l *ledger) effects() *Effects {
	all := Effects{BeforeReset: l.in.WasReset}
	for path, e := range l.entries() {
		below := e.Effects().Within(path)
		if call, left := l.unknownAt(path, e); left && len(below.Unknown) == 0 {
			all.Unknown = append(all.Unknown, call)
		}
		all.Unknown, all.More = append(all.Unknown, below.Unknown...), all.More+below.More
		all.BeforeReset = all.BeforeReset || below.BeforeReset
		if l.undo.covers(path) {
			continue
		}
		if tool, done := e.Executed(path); done && l.hasEffects(tool) {
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

// entries are what the run has recorded by step path, in that order, and the calls
// known only to have been sent.
func (l *ledger) entries() func(yield func(StepPath, record.Entry) bool) {
	whole := l.journal.Whole()
	paths := slices.Concat(workflow.DeterministicKeys(whole), l.sent.paths())
	slices.Sort(paths)
	return func(yield func(StepPath, record.Entry) bool) {
		for _, path := range slices.Compact(paths) {
			if !yield(path, whole[path]) {
				return
			}
		}
	}
}

// unknownAt reports whether it is unknown if a call was executed that was made at a
// path, or all that a called run has.
func (l *ledger) unknownAt(path StepPath, e record.Entry) (EffectCall, bool) {
	if tool, left := l.sent.at(path); left {
		return EffectCall{StepPath: path, Tool: tool}, true
	}
	tool, unknown := e.Unknown(path, l.journal.Reached(path))
	return EffectCall{StepPath: path, Tool: cmp.Or(tool, e.Tool())}, unknown
}

// outcomeUnknown reports whether it is unknown if the call at a path was executed, or all
// that a called run has.
func (l *ledger) outcomeUnknown(path StepPath) bool {
	_, left := l.unknownAt(path, l.journal.At(path))
	return left
}

// outcomeUnknownBelow reports the same of any call below a path, of this execution and earlier
// ones.
func (l *ledger) outcomeUnknownBelow(prefix definitions.Prefix) bool {
	for path, e := range l.entries() {
		if _, left := l.unknownAt(path, e); left && prefix.Of(path) {
			return true
		}
	}
	return false
}

// settleEffects is the one place that decides whether a failed run may report that
// calling it again may help.
func (l *ledger) settleEffects(f *Failure) {
	f.Effects = l.effects()
	f.Error.Retryable = f.Error.Retryable && f.Effects.Repeatable()
}

// settleErrors decides the same of failures that do not fail a run.
func (l *ledger) settleErrors(result *RunResult) {
	if len(result.Errors) == 0 && l.in.Parent == nil {
		return // no one would see them
	}
	effects := l.effects()
	for i := range result.Errors {
		result.Errors[i].Retryable = result.Errors[i].Retryable && effects.Repeatable()
	}
	if l.in.Parent != nil {
		result.Effects = effects
	}
}
