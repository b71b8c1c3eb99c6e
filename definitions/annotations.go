package definitions

import (
	"errors"
	"fmt"
	"slices"
)

// ToolNames gives the names of the tools that steps, probes and compensations use, and
// those visible in scripts, as written, sorted, once each.
func (d *Definition) ToolNames() []string {
	names := d.Scripts().toolNames()
	for _, s := range d.Steps {
		for ; s != nil; s = s.Step {
			if s.Tool != "" {
				names = append(names, s.Tool)
			}
			if s.Probe != nil && s.Probe.Tool != "" {
				names = append(names, s.Probe.Tool)
			}
			if s.Compensate != nil && s.Compensate.Tool != "" {
				names = append(names, s.Compensate.Tool)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// DeriveAnnotations gives all hints of the composite tool.
//
// They follow from the tools that it calls, also through other composite tools: it is
// read-only only if all of them are, destructive unless none can be, idempotent only
// if all are, and open to the world unless none is. An unknown tool, or one without a
// hint, counts as in the protocol: writing, destructive, not idempotent, open. The
// definition's own hints may be more cautious; promising more than the steps keep is
// an error, except idempotent, since steps that are not may be so together.
func (d *Definition) DeriveAnnotations(tools Tools, find Definitions) (Annotations, error) {
	derived, problems := d.deriveAnnotations(tools, find)
	var errs []error
	for _, p := range problems {
		if p.severity == SeverityError {
			errs = append(errs, fmt.Errorf("annotations.%s: %s", p.hint, p.message))
		}
	}
	return derived, errors.Join(errs...)
}

// A hintProblem is a hint that the steps contradict.
type hintProblem struct {
	hint, message string
	severity      Severity
}

func (d *Definition) deriveAnnotations(tools Tools, find Definitions) (Annotations, []hintProblem) {
	floor := floorOf(d, tools, find)
	stated := d.Annotations
	if stated == nil {
		stated = &Annotations{}
	}
	var problems []hintProblem
	// settle takes the definition's hint, if any; promise is the value that promises
	// something to the caller, blame the tool that breaks it.
	settle := func(name string, hint *bool, promise bool, blame string) *bool {
		if hint == nil {
			kept := promise == (blame == "")
			return &kept
		}
		if *hint == promise && blame != "" {
			severity := SeverityError
			if name == "idempotentHint" {
				severity = SeverityWarning
			}
			problems = append(problems, hintProblem{name, fmt.Sprintf("%v is more than the steps keep: %s %s", promise, blame, broken[name]), severity})
		}
		return hint
	}
	derived := Annotations{
		Title:           stated.Title,
		ReadOnlyHint:    settle("readOnlyHint", stated.ReadOnlyHint, true, floor.writes),
		DestructiveHint: settle("destructiveHint", stated.DestructiveHint, false, floor.destroys),
		IdempotentHint:  settle("idempotentHint", stated.IdempotentHint, true, floor.repeats),
		OpenWorldHint:   settle("openWorldHint", stated.OpenWorldHint, false, floor.opens),
	}
	if *derived.ReadOnlyHint && *derived.DestructiveHint {
		if stated.ReadOnlyHint != nil {
			problems = append(problems, hintProblem{"readOnlyHint", "what is read-only cannot be destructive, too", SeverityError})
		}
		derived.ReadOnlyHint = new(bool)
	}
	return derived, problems
}

// broken says how a tool breaks the promise of a hint.
var broken = map[string]string{
	"readOnlyHint":    "does not say that it is read-only",
	"destructiveHint": "does not say that it destroys nothing",
	"idempotentHint":  "does not say that it is idempotent",
	"openWorldHint":   "does not say that it keeps to a closed world",
}

// A floor names, for each promise, the first called tool that breaks it; "" = none.
type floor struct{ writes, destroys, repeats, opens string }

func floorOf(d *Definition, tools Tools, find Definitions) floor {
	var f floor
	called, missing := d.Called(find)
	for _, other := range append([]*Definition{d}, called...) {
		for _, name := range other.ToolNames() {
			hints := &Annotations{}
			if tools != nil {
				if tool, ok := tools(name); ok && tool.Annotations != nil {
					hints = tool.Annotations
				}
			}
			f.lower(toolNamed(name), hints)
		}
	}
	for _, other := range called {
		if other.Annotations != nil {
			f.lower(fmt.Sprintf("workflow %q", other.Name), other.Annotations.cautious())
		}
	}
	for _, workflow := range missing {
		f.lower(fmt.Sprintf("workflow %q", workflow), &Annotations{})
	}
	return f
}

// cautious keeps only the hints that deny a promise.
func (a *Annotations) cautious() *Annotations {
	writes, destroys := says(a.ReadOnlyHint, false), says(a.DestructiveHint, true)
	repeats, opens := !says(a.IdempotentHint, false), says(a.OpenWorldHint, true)
	readOnly := !writes && !destroys && repeats
	return &Annotations{ReadOnlyHint: &readOnly, DestructiveHint: &destroys, IdempotentHint: &repeats, OpenWorldHint: &opens}
}

// lower adds a called tool with its hints.
func (f *floor) lower(callee string, hints *Annotations) {
	blame := func(promise *string, kept bool) {
		if !kept && *promise == "" {
			*promise = callee
		}
	}
	readOnly := says(hints.ReadOnlyHint, true)
	blame(&f.writes, readOnly)
	blame(&f.destroys, readOnly || says(hints.DestructiveHint, false))
	blame(&f.repeats, readOnly || says(hints.IdempotentHint, true))
	blame(&f.opens, says(hints.OpenWorldHint, false))
}

// says reports whether a hint is set to want.
func says(hint *bool, want bool) bool { return hint != nil && *hint == want }
