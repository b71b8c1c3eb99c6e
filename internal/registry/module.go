package registry

import (
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/perdure/perdure/definitions"
)

// module finds a module among what is published now or was before. A module that the
// publisher may not read is not found.
func (b *batch) module(ref definitions.Reference) (*definitions.Module, error) {
	if b.publisher.MayRead != nil && !b.publisher.MayRead(ref.Name) {
		return nil, &NotFoundError{Reference: ref}
	}
	b.registry.mu.RLock()
	defer b.registry.mu.RUnlock()
	e, err := b.registry.moduleAmong(ref, b.modules)
	return e.Module, err
}

// addModule checks one module.
func (b *batch) addModule(m module) Publication {
	p := Publication{Name: m.Name, Version: m.Version, Digest: m.Digest()}
	versions := b.registry.Versions(m.Name)
	p.New = b.isNew(m.pos, &p, versions)
	if !p.New {
		return p
	}
	if _, err := definitions.ParseModule(m.Name + "@1"); err != nil {
		b.diags = append(b.diags, problem(m.pos, checkName, "%s is no name for a module: 1 to 64 letters, digits, _, . and -, with .star at the end", m.Name))
	}
	b.diags = append(b.diags, definitions.CheckModule(m.pos.File, m.Module, b.module)...)
	b.compare(&p, versions, func(string) definitions.Position { return m.pos }, func(before Entry) []Change { return ChangesLoading(before.Module, m.Module) })
	b.write(m.pos, p, m.Source(), "")
	return p
}

// checkPinned compares the modules within a definition with the published ones, and
// warns of deprecated ones.
func (b *batch) checkPinned(d *definitions.Definition) {
	for _, pinned := range d.Scripts().Published() {
		m, err := b.module(definitions.Reference{Name: pinned.Name, Version: pinned.Version})
		switch {
		case err != nil:
			b.diags = append(b.diags, problem(d.Pos, checkLoads, "%s loads %s %s: %v", d.Name, pinned.Name, pinned.Version, err))
		case m.Digest() != pinned.Digest:
			b.diags = append(b.diags, problem(d.Pos, checkLoads, "%s loads %s %s (%s), and what is published as that is something else (%s): leave pinned and its modules out, and it is looked up",
				d.Name, pinned.Name, pinned.Version, short(pinned.Digest), short(m.Digest())))
		}
		if e, ok := published(b.registry.Versions(pinned.Name), pinned.Version); ok && e.Deprecated() != "" {
			warning := problem(d.Pos, checkLoads, "%s loads %s %s, which is deprecated: %s", d.Name, pinned.Name, pinned.Version, e.Deprecated())
			warning.Severity = definitions.SeverityWarning
			b.diags = append(b.diags, warning)
		}
	}
}

// ChangesLoading gives the changes of a module that break scripts which load it: names
// that are gone, and other parameters of functions. It does not compare bodies.
func ChangesLoading(was, now *definitions.Module) (changes []Change) {
	exports := map[string]definitions.Export{}
	for _, e := range now.Exports() {
		exports[e.Name] = e
	}
	breaks := func(format string, args ...any) {
		changes = append(changes, Change{What: fmt.Sprintf(format, args...), Breaks: true})
	}
	for _, before := range was.Exports() {
		after, ok := exports[before.Name]
		switch {
		case !ok:
			breaks("%s is gone", before)
		case before.Function && !after.Function:
			breaks("%s is no function any more", before)
		case before.Function:
			if what := callsBreak(before, after); what != "" {
				breaks("%s is now %s: %s", before, after, what)
			}
		}
	}
	return changes
}

// callsBreak says why calls that were right may be wrong now; "" = they are not.
func callsBreak(before, after definitions.Export) string {
	more := ""
	for i, p := range after.Params {
		was, known := paramOf(before, p.Name)
		switch {
		case p.Prefix != "" || p.Optional:
		case !known:
			more = p.Name + " is required"
		case was.Optional:
			more = p.Name + " became required"
		}
		if more != "" {
			return more
		}
		if i < len(before.Params) && p.Prefix == "" && before.Params[i].Prefix == "" && before.Params[i].Name != p.Name {
			return fmt.Sprintf("%s is where %s was", p.Name, before.Params[i].Name)
		}
	}
	for _, p := range before.Params {
		if _, known := paramOf(after, p.Name); !known && p.Name != "" {
			return strings.TrimSpace(p.Prefix+p.Name) + " is gone"
		}
	}
	return ""
}

func paramOf(e definitions.Export, name string) (definitions.Param, bool) {
	for _, p := range e.Params {
		if p.Name == name {
			return p, true
		}
	}
	return definitions.Param{}, false
}

// A ModuleDrift describes later changes of a module within a published definition. They
// do not affect its runs.
type ModuleDrift struct {
	definitions.PinnedModule
	Latest     string `json:"latest,omitempty"`     // version that publishing would pin now; "" = the same
	Deprecated string `json:"deprecated,omitempty"` // why the version must not be used; "" = it may
}

// ModuleDrift gives the modules of an entry that are deprecated or have a later version
// that matches. It leaves out modules that the caller may not read.
func (r *Registry) ModuleDrift(e Entry, mayRead func(name string) bool) []ModuleDrift {
	if e.Definition == nil {
		return nil
	}
	var drifted []ModuleDrift
	for _, pinned := range e.Definition.Scripts().Published() {
		if !mayRead(pinned.Name) {
			continue
		}
		d := ModuleDrift{PinnedModule: pinned}
		if ref, err := definitions.ParseModule(pinned.Load); err == nil {
			if m, err := r.Module(ref); err == nil && isLater(m.Version, pinned.Version) {
				d.Latest = m.Version
			}
		}
		if was, ok := published(r.Versions(pinned.Name), pinned.Version); ok {
			d.Deprecated = was.Deprecated()
		}
		if d.Latest != "" || d.Deprecated != "" {
			drifted = append(drifted, d)
		}
	}
	return drifted
}

func isLater(a, b string) bool {
	x, errX := semver.StrictNewVersion(a)
	y, errY := semver.StrictNewVersion(b)
	return errX == nil && errY == nil && x.GreaterThan(y)
}
