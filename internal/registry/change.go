package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
)

// A Change is a difference that callers notice between two versions of what they call.
type Change struct {
	What string
	// Breaks: calls that were right may fail, or their results may differ from what was
	// promised.
	Breaks bool
	place  string // path in the later definition; "" = all of it
}

// Changes gives what callers of a definition notice when they get another one: that it
// is no longer offered to them, or not by its name; parameters that became required,
// take less, are gone or have another default; results that are gone, may be missing
// or may be of other types; and calls that share a run. Prefix is the server's prefix
// for names. nil = nothing.
func Changes(was, now *definitions.Definition, prefix string) []Change {
	params := narrower{defaults: true}
	params.compare("", decoded(was.InputSchema()), decoded(now.InputSchema()))
	results := wider{}
	results.compare("", decoded(was.OutputSchema()), decoded(now.OutputSchema()))
	return slices.Concat(
		exposure(was, now, prefix),
		breaking("parameter", "parameters", params.found),
		breaking("output", "output", results.found),
		defaults(decoded(was.InputSchema()), decoded(now.InputSchema())),
		rights(was, now),
		behaviour(was, now),
	)
}

// breaking makes Changes that break callers of changes of the schema at root.
func breaking(one, root string, found []change) (changes []Change) {
	for i, line := range prefixed(one, root, found) {
		changes = append(changes, Change{line, true, found[i].place(root)})
	}
	return changes
}

// place is the path of the property that a change is in.
func (c change) place(root string) string {
	name, _, _ := strings.Cut(c.path, ".")
	if name = strings.TrimSuffix(name, "[]"); name == "" {
		return root
	}
	return root + ".properties." + name
}

// exposure compares for whom definitions are offered, and under which name.
func exposure(was, now *definitions.Definition, prefix string) []Change {
	switch {
	case was.Expose.Hidden:
		return nil
	case now.Expose.Hidden:
		return []Change{{"clients do not see it any more, since it is hidden", true, "expose.hidden"}}
	}
	var changes []Change
	if before, name := was.Expose.Name(prefix, was.Name), now.Expose.Name(prefix, now.Name); before != name {
		changes = append(changes, Change{fmt.Sprintf("clients see it as %s, and saw it as %s", name, before), true, "expose.as"})
	}
	if lost := shutOut(was.Expose, now.Expose); lost != "" {
		changes = append(changes, Change{"it is not offered any more to " + lost, true, "expose"})
	}
	return changes
}

// shutOut names callers who can no longer see a definition; "" = none.
func shutOut(was, now definitions.Expose) string {
	switch {
	case forAll(now):
		return ""
	case forAll(was):
		return "callers other than " + named(now.Groups, now.Subjects)
	}
	return named(without(was.Groups, now.Groups), without(was.Subjects, now.Subjects))
}

func forAll(e definitions.Expose) bool {
	return len(e.Groups)+len(e.Subjects) == 0 || slices.Contains(e.Groups, "*")
}

// named writes groups and subjects.
func named(groups, subjects []string) string {
	var parts []string
	if len(groups) > 0 {
		parts = append(parts, "members of "+list(groups))
	}
	if len(subjects) > 0 {
		parts = append(parts, list(subjects))
	}
	return strings.Join(parts, " and ")
}

// defaults compares the defaults of parameters.
func defaults(was, now map[string]any) (changes []Change) {
	before, _ := was["properties"].(map[string]any)
	after, _ := now["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, known := after[name]; !known || slices.Contains(needed(was, true), name) || slices.Contains(needed(now, true), name) {
			continue // gone or required now, which is reported as such, or required before
		}
		if a, b := defaultText(before[name]), defaultText(after[name]); a != b {
			changes = append(changes, Change{fmt.Sprintf("parameter %s is %s where it is left out, and was %s", name, b, a), false, "parameters.properties." + name})
		}
	}
	return changes
}

// defaultText writes the default of a property.
func defaultText(property any) string {
	standard, ok := object(property)["default"]
	if !ok {
		return "nothing"
	}
	return encoded(standard)
}

// behaviour compares which calls share a run, and what happens to a run whose steps
// fail.
func behaviour(was, now *definitions.Definition) (changes []Change) {
	if now.BusinessKey != "" && now.BusinessKey != was.BusinessKey {
		changes = append(changes, Change{"calls whose businessKey is the same mean one run, and it is another key than before", false, "businessKey"})
	}
	if now.BusinessKey == "" && was.BusinessKey != "" {
		changes = append(changes, Change{"each call is a run of its own, since there is no businessKey any more", false, ""})
	}
	if now.FailureMode == definitions.BestEffort && was.FailureMode != definitions.BestEffort {
		changes = append(changes, Change{"it completes although steps have failed, by its failureMode, and results may be missing", false, "failureMode"})
	}
	return changes
}

// rights compares with whose permission tools are called.
func rights(was, now *definitions.Definition) []Change {
	if was.RunAs != definitions.AsComposite || now.RunAs == definitions.AsComposite {
		return nil
	}
	return []Change{{"it calls tools in the right of its callers, and did in its own: they need to be allowed to call them", false, "runAs"}}
}
