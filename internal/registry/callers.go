package registry

import (
	"slices"

	"github.com/perdure/perdure/definitions"
)

// callers warns of composite tools that a publication makes wrong, since they call a
// name by its new meaning: their runs would fail midway.
func (b *batch) callers(fresh []*definitions.Definition) {
	for _, e := range b.registry.Current() {
		if e.Definition == nil || b.unread(e.Definition.Name) || slices.ContainsFunc(fresh, func(d *definitions.Definition) bool { return d.Name == e.Definition.Name }) {
			continue
		}
		for _, d := range fresh {
			if callsName(e.Definition, d.Name) {
				b.caller(e.Definition, d, fresh)
			}
		}
	}
}

// unread reports whether the publisher must not learn of a composite tool.
func (b *batch) unread(name string) bool {
	return b.publisher.MayRead != nil && !b.publisher.MayRead(name)
}

// caller reports the mistakes of a definition that calls a fresh one.
func (b *batch) caller(calling, d *definitions.Definition, fresh []*definitions.Definition) {
	before := b.wrong(calling, nil)
	for _, found := range b.wrong(calling, fresh) {
		if slices.ContainsFunc(before, func(was definitions.Diagnostic) bool { return was.Message == found.Message }) {
			continue
		}
		what := "of the callers, " + calling.Title() + " is no longer right: " + found.Message
		i := slices.IndexFunc(b.publications, func(p Publication) bool { return p.Name == d.Name })
		if slices.Contains(b.publications[i].Breaks, what) {
			continue // a mistake of another publication
		}
		b.publications[i].Breaks = append(b.publications[i].Breaks, what)
		warning := problem(d.Pos, checkBreaking, "%s %s: %s", d.Name, d.Version, what)
		warning.Severity = definitions.SeverityWarning
		b.diags = append(b.diags, warning)
	}
}

// wrong is the errors of a definition together with others that are published.
func (b *batch) wrong(d *definitions.Definition, others []*definitions.Definition) definitions.Diagnostics {
	return definitions.Check([]*definitions.Definition{d}, definitions.CheckOptions{All: b.registry.resolved(others), MaxDepth: b.publisher.MaxDepth})
}

// callsName reports whether a definition itself calls a composite tool of a name.
func callsName(d *definitions.Definition, name string) bool {
	return slices.ContainsFunc(d.WorkflowNames(), func(written string) bool {
		ref, err := definitions.ParseReference(written)
		return err == nil && ref.Name == name
	})
}
