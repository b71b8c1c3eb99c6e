package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
)

// Effects are calls that would or might take effect a second time if what made
// them was called again: a run that has made some never says that calling it
// again may help. Tools of class read and idempotent have none; of class keyed
// they have, since another run calls with another key.
type Effects struct {
	Unknown   []EffectCall `json:"unknown,omitempty"`   // whether they were executed is not known
	Completed []EffectCall `json:"completed,omitempty"` // were executed, and have not been undone
	More      int          `json:"more,omitempty"`      // how many are not named
}

// An EffectCall is one call, by the place at which it was made.
type EffectCall struct {
	StepPath StepPath `json:"stepPath"`
	Tool     string   `json:"tool,omitempty"` // composite tool, where it is not known what that has called; "" = not known
}

// maxEffects bounds the calls that are named, of each kind.
const maxEffects = 32

// Repeatable says that calling again would repeat nothing.
func (e *Effects) Repeatable() bool { return e == nil || len(e.Unknown)+len(e.Completed) == 0 }

// String is a sentence for each kind of calls; "" if there are none.
func (e *Effects) String() string {
	if e.Repeatable() {
		return ""
	}
	var said []string
	if len(e.Unknown) > 0 {
		said = append(said, "Whether "+named(e.Unknown, "or")+" was executed is not known: check before calling again.")
	}
	if len(e.Completed) > 0 {
		said = append(said, "Calling again would repeat "+named(e.Completed, "and")+", which took effect.")
	}
	if e.More > 0 {
		said = append(said, fmt.Sprintf("So it is with %d more.", e.More))
	}
	return strings.Join(said, " ")
}

// Text says why a run failed, and what calling it again would repeat.
func (f *Failure) Text() string {
	if f.Effects.Repeatable() {
		return f.Error.Message
	}
	return strings.TrimRight(f.Error.Message, ". \n") + ". " + f.Effects.String()
}

// named are calls in a sentence.
func named(calls []EffectCall, and string) string {
	const most = 5
	var names []string
	for i, c := range calls {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(calls)-most))
			break
		}
		names = append(names, c.String())
	}
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " " + and + " " + names[last]
}

func (c EffectCall) String() string {
	if c.Tool == "" {
		return "step " + string(c.StepPath)
	}
	return fmt.Sprintf("%s (step %s)", c.Tool, c.StepPath)
}

// within are the effects of a run as the one sees them that has called it at a
// step.
func (e *Effects) within(step StepPath) Effects {
	if e == nil {
		return Effects{}
	}
	below := func(calls []EffectCall) []EffectCall {
		calls = slices.Clone(calls)
		for i := range calls {
			calls[i].StepPath = step.Below(calls[i].StepPath)
		}
		return calls
	}
	return Effects{Unknown: below(e.Unknown), Completed: below(e.Completed), More: e.More}
}

// effects are those of what the run has recorded, in this execution and in those
// before it; nil = none. What was undone has none any more.
func (r *run) effects() *Effects {
	var all Effects
	for path, e := range r.entries() {
		below := e.Effects.within(path)
		if call, left := r.unknownAt(path, e); left && len(below.Unknown) == 0 {
			all.Unknown = append(all.Unknown, call)
		}
		all.Unknown, all.More = append(all.Unknown, below.Unknown...), all.More+below.More
		if r.undo.covers(path) {
			continue
		}
		if tool, done := e.completed(path); done && r.hasEffects(tool) {
			all.Completed = append(all.Completed, EffectCall{StepPath: path, Tool: tool})
		}
		all.Completed = append(all.Completed, below.Completed...)
	}
	if all.Repeatable() {
		return nil
	}
	for _, calls := range []*[]EffectCall{&all.Unknown, &all.Completed} {
		if n := len(*calls) - maxEffects; n > 0 {
			*calls, all.More = (*calls)[:maxEffects], all.More+n
		}
	}
	return &all
}

// entries are what the run has recorded by step path, in that order, with calls of
// which it knows no more than that they have left.
func (r *run) entries() func(yield func(StepPath, JournalEntry) bool) {
	whole := r.record.whole()
	paths := slices.Concat(workflow.DeterministicKeys(whole), workflow.DeterministicKeys(r.sent.unsettled), workflow.DeterministicKeys(r.sent.keyed))
	slices.Sort(paths)
	return func(yield func(StepPath, JournalEntry) bool) {
		for _, path := range slices.Compact(paths) {
			if !yield(path, whole[path]) {
				return
			}
		}
	}
}

// unknownAt says whether it is unknown if a call was executed that was made at a
// path, or all that a called run has.
func (r *run) unknownAt(path StepPath, e JournalEntry) (EffectCall, bool) {
	call := EffectCall{StepPath: path, Tool: cmp.Or(e.Tool, e.Child.tool())}
	u, left := r.sent.unsettled[path]
	keyed, repeats := r.sent.keyed[path]
	switch {
	case left:
		call.Tool = u.Call.Tool
	case repeats:
		call.Tool = keyed
	case e.Unsettled != nil && !e.Unsettled.NotHappened:
		call.Tool = cmp.Or(e.Unsettled.Call.Tool, e.Tool)
	case e.Error != nil && e.Error.Category == codes.CategoryOutcomeUnknown && e.Error.StepPath == path:
		call.Tool = cmp.Or(e.Error.Tool, e.Tool)
	case e.Left, e.Effects != nil && len(e.Effects.Unknown) > 0:
	case !r.record.reached(path) && e.Child != nil && e.Child.Again == nil && e.Result == nil && e.Error == nil: // it was under way in an execution before
	default:
		return call, false
	}
	return call, true
}

// leftUnknown says whether it is unknown if the call at a path was executed, or all
// that a called run has.
func (r *run) leftUnknown(path StepPath) bool {
	_, left := r.unknownAt(path, r.record.at(path))
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
	if path := end.call.path; r.record.reached(path) && end.Result == nil { // else that is kept with the result
		r.record.amend(path, func(e *JournalEntry) {
			if f := end.Failure; f == nil || f.Error.brokeDown() {
				e.Left = true
			} else {
				e.Effects = f.Effects
			}
		})
	}
}

// brokeDown says whether a run has ended with an error without saying what it has
// done. Its script cannot say so: the categories are not for scripts.
func (e *Error) brokeDown() bool {
	return e.Category == codes.CategoryTerminated || (e.Code == codes.Internal || e.Code == codes.Quarantined) && e.Category == codes.CategoryInternal
}

// fromOutside says whether somebody has ended the run.
func (e *Error) fromOutside() bool {
	return e.Category == codes.CategoryCancelled || e.Category == codes.CategoryTerminated
}

// completed says whether an entry is that of a call of a tool that was executed.
func (e JournalEntry) completed(path StepPath) (tool string, ok bool) {
	switch {
	case e.Undoes:
		return "", false
	case e.Error != nil && e.Error.StepPath == path:
		return e.Error.Tool, e.Error.executed()
	}
	return e.Tool, e.Tool != "" && e.Result != nil
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
