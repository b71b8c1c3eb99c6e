package config

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/backends"
)

// checkNoMatch is reported where a rule names what no tool is called.
const checkNoMatch = "no-match"

// A toolRule is a name or a pattern of tools in a configuration.
type toolRule struct {
	pos     definitions.Position
	key     string
	backend string // whose own names it means; "" = names as clients see them
	pattern string
}

// names notes that a rule names tools: of a backend, or as clients see them.
func (r *reader) names(p keyPath, backend, pattern string) {
	node, _ := lookup(r.root, p)
	r.rules = append(r.rules, toolRule{positionOf(r.file, node), p.String(), backend, pattern})
}

// Unmatched warns of names and patterns that no tool has, where that is known: of a
// backend that lists tools, and among all names where each backend does. offered are
// the names of composite tools; nil = they are not known, and rules of names as
// clients see them are not checked.
func (l *Loaded) Unmatched(tools []backends.Tool, offered []string) (diags definitions.Diagnostics) {
	own, seen := map[string][]string{}, []string{}
	name := func(composite string) { seen = append(seen, l.Prefix+composite, composite) }
	for _, t := range tools {
		own[t.Backend] = append(own[t.Backend], t.Original)
		seen = append(seen, t.Name)
	}
	for _, composite := range offered {
		name(composite)
	}
	for _, d := range l.Definitions {
		name(d.Name)
	}
	for _, v := range l.Publishing.Versions {
		name(v.As)
	}
	complete := offered != nil && !slices.ContainsFunc(l.Backends, func(b backends.Config) bool { return own[b.Name] == nil })
	for _, rule := range l.rules {
		names, of := seen, ""
		if rule.backend != "" {
			names, of = slices.Concat(own[rule.backend], l.overridden(rule.backend)), " of backend "+rule.backend
		}
		known := rule.backend == "" && complete || own[rule.backend] != nil
		if !known || rule.matches(names) {
			continue
		}
		diags = append(diags, definitions.Diagnostic{
			Pos: rule.pos, Severity: definitions.SeverityWarning, Check: checkNoMatch,
			Message: fmt.Sprintf("%s: %q matches no tool%s%s", rule.key, rule.pattern, of, rule.nearest(names)),
		})
	}
	return diags
}

// overridden are the names that tools of a backend are given, which a filter may use.
func (l *Loaded) overridden(backend string) (names []string) {
	for _, w := range l.Aggregation.Tools {
		for _, o := range w.Overrides {
			if w.Workload == backend && o.Name != "" {
				names = append(names, o.Name)
			}
		}
	}
	return names
}

// ofPerdure begins the names of tools of perdure's own, which rules may name.
var ofPerdure = []string{"perdure_", "execute_tool_script"}

func (r toolRule) matches(names []string) bool {
	if slices.ContainsFunc(ofPerdure, func(begin string) bool { return strings.HasPrefix(r.pattern, begin) }) {
		return true
	}
	return r.pattern == "*" || slices.ContainsFunc(names, func(name string) bool {
		ok, err := path.Match(strings.ReplaceAll(r.pattern, "/", "\x00"), strings.ReplaceAll(name, "/", "\x00"))
		return ok || err != nil // a pattern that is none is reported elsewhere
	})
}

// maxListed is how many tools are named in place of one that is not there.
const maxListed = 6

// nearest says which tools may be meant: one with nearly the name, those that have
// the word of a pattern in theirs, or all of few.
func (r toolRule) nearest(names []string) string {
	word := strings.Trim(r.pattern, "*?[]_-.")
	if hint := template.DidYouMean(word, names); hint != "" && word == r.pattern {
		return hint
	}
	var near []string
	for _, name := range names {
		if word != "" && strings.Contains(strings.ToLower(name), strings.ToLower(word)) {
			near = append(near, name)
		}
	}
	if near == nil {
		near = names
	}
	near = template.ByNearness(word, near)
	if near = slices.Compact(near); len(near) > maxListed {
		near = append(near[:maxListed], "…")
	}
	return "; near ones are " + strings.Join(near, ", ")
}
