package record

import (
	"fmt"
	"slices"
	"strings"
)

// Effects are calls that would or might take effect a second time if what made them was
// called again: a run that has made some never reports that calling it again may help.
// Tools of class read and idempotent have none; of class keyed they have, since another
// run calls with another key.
type Effects struct {
	Unknown   []EffectCall `json:"unknown,omitempty"`   // whether they were executed is not known
	Completed []EffectCall `json:"completed,omitempty"` // were executed, and have not been undone
	More      int          `json:"more,omitempty"`      // how many are not named
	// BeforeReset is whether the run was reset: executions before may have made calls that
	// this one has not reached, which are not named.
	BeforeReset bool `json:"beforeReset,omitempty"`
}

// An EffectCall is one call, by the place at which it was made.
type EffectCall struct {
	StepPath StepPath `json:"stepPath"`
	Tool     string   `json:"tool,omitempty"` // composite tool, where it is not known what that has called; "" = not known
}

// maxEffects bounds the calls that are named, of each kind.
const maxEffects = 32

// Repeatable reports that calling again would repeat nothing.
func (e *Effects) Repeatable() bool {
	return e == nil || len(e.Unknown)+len(e.Completed) == 0 && !e.BeforeReset
}

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
	if e.BeforeReset {
		said = append(said, "What the run did before it was reset may have taken effect: check before calling again.")
	}
	return strings.Join(said, " ")
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

// Within are the effects of a run as the one sees them that has called it at a
// step.
func (e *Effects) Within(step StepPath) Effects {
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
	return Effects{Unknown: below(e.Unknown), Completed: below(e.Completed), More: e.More, BeforeReset: e.BeforeReset}
}

func (e *Effects) bytes() int {
	if e == nil {
		return 0
	}
	return (len(e.Unknown) + len(e.Completed)) * EntryBytes / 4
}

// Bound omits of the calls of each kind what is over a limit.
func (e *Effects) Bound() {
	for _, calls := range []*[]EffectCall{&e.Unknown, &e.Completed} {
		if n := len(*calls) - maxEffects; n > 0 {
			*calls, e.More = (*calls)[:maxEffects], e.More+n
		}
	}
}

// Tool is what was called; "" = nothing, or that is not known.
func (e Entry) Tool() string {
	switch k := e.Kind.(type) {
	case Call:
		return k.Tool
	case Given:
		return k.Tool
	case Child:
		tool, _, _ := strings.Cut(k.ID, "/")
		return tool
	}
	return ""
}

// Effects are those that a called run has reported; nil = none.
func (e Entry) Effects() *Effects {
	switch k := e.Kind.(type) {
	case Child:
		return k.Effects
	case Given:
		return k.Effects
	}
	return nil
}

// Executed reports whether the entry is that of a call of a tool that was executed, and
// has not itself undone another.
func (e Entry) Executed(path StepPath) (tool string, ok bool) {
	call, _ := e.Kind.(Call)
	if call.Undoes {
		return "", false
	}
	if err := e.Failure(); err != nil && err.StepPath == path {
		return err.Tool, err.Executed()
	}
	if _, child := e.Kind.(Child); child {
		return "", false // see Effects
	}
	return e.Tool(), e.Tool() != "" && e.Output() != nil
}

// Unknown reports whether the outcome of the call at a path is unknown, or of all calls
// of a called run; tool is "" where Tool has it. Reached: by the execution that asks.
func (e Entry) Unknown(path StepPath, reached bool) (tool string, unknown bool) {
	if err := e.Failure(); err.Unknown(path) {
		tool, unknown = err.Tool, true
	}
	switch k := e.Kind.(type) {
	case Call:
		if u := k.OutcomeUnknown; u != nil && !u.NotHappened {
			return u.Call.Tool, true
		}
	case Child:
		underWay := k.ID != "" && k.Again == nil && k.Output == nil && k.Error == nil // in an execution before
		unknown = unknown || k.OutcomeUnknown || !reached && underWay
	}
	if below := e.Effects(); below != nil && len(below.Unknown) > 0 {
		unknown = true
	}
	return tool, unknown
}
