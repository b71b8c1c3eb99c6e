package registry

import (
	"maps"
	"slices"

	"github.com/perdure/perdure/definitions"
)

// Resolve gives what a reference means. The error is a *NotFoundError.
func (r *Registry) Resolve(ref definitions.Reference) (Entry, error) {
	return r.resolve(ref, nil)
}

// resolve is Resolve as if others were published, too.
func (r *Registry) resolve(ref definitions.Reference, others []*definitions.Definition) (Entry, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	file, inFile := r.files[ref.Name]
	if inFile && ref.Version == "" {
		return file, nil
	}
	candidates := map[string]Entry{}
	for _, d := range others {
		if d.Name == ref.Name {
			candidates[d.Version] = Entry{Definition: d}
		}
	}
	if inFile && file.Definition.Version != "" {
		candidates[file.Definition.Version] = file
	}
	for _, e := range r.published[ref.Name] {
		if e.Definition != nil {
			candidates[e.Definition.Version] = e
		}
	}
	return latest(ref, candidates)
}

// latest gives the entry among candidates, by version, that a reference means; a
// deprecated one only if no other matches.
func latest(ref definitions.Reference, candidates map[string]Entry) (Entry, error) {
	for _, usable := range []func(Entry) bool{func(e Entry) bool { return e.Deprecated() == "" }, func(Entry) bool { return true }} {
		var versions []string
		for version, e := range candidates {
			if usable(e) {
				versions = append(versions, version)
			}
		}
		if version, ok := ref.Latest(versions); ok {
			return candidates[version], nil
		}
	}
	return Entry{}, &NotFoundError{ref, slices.SortedFunc(maps.Keys(candidates), compareVersions)}
}

// Module gives the published module that a reference means. The error is a
// *NotFoundError.
func (r *Registry) Module(ref definitions.Reference) (*definitions.Module, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.module(ref)
}

// module is Module; the caller has the lock.
func (r *Registry) module(ref definitions.Reference) (*definitions.Module, error) {
	e, err := r.moduleAmong(ref, nil)
	return e.Module, err
}

// Modules gives the latest version of each published module, by name.
func (r *Registry) Modules() []*definitions.Module {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []*definitions.Module
	for _, name := range slices.Sorted(maps.Keys(r.published)) {
		if m, err := r.module(definitions.Reference{Name: name}); err == nil {
			all = append(all, m)
		}
	}
	return all
}

// moduleAmong finds a module among published ones and those about to be.
func (r *Registry) moduleAmong(ref definitions.Reference, more []*definitions.Module) (Entry, error) {
	candidates := map[string]Entry{}
	for _, m := range more {
		if m.Name == ref.Name {
			candidates[m.Version] = Entry{Module: m}
		}
	}
	for _, e := range r.published[ref.Name] {
		if e.Module != nil {
			candidates[e.Module.Version] = e
		}
	}
	return latest(ref, candidates)
}

// Look gives the definition, or the published module, that a reference means. The
// error is a *NotFoundError.
func (r *Registry) Look(ref definitions.Reference) (Entry, error) {
	e, err := r.Resolve(ref)
	if err == nil || !definitions.IsModuleName(ref.Name) {
		return e, err
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.moduleAmong(ref, nil)
}

// resolved is Resolve as if the fresh definitions were published, once for each reference.
// It is for one goroutine.
func (r *Registry) resolved(fresh []*definitions.Definition) definitions.Definitions {
	known := map[definitions.Reference]*definitions.Definition{} // nil = not found
	return func(ref definitions.Reference) (*definitions.Definition, bool) {
		d, looked := known[ref]
		if !looked {
			if e, err := r.resolve(ref, fresh); err == nil {
				d = e.Definition
			}
			known[ref] = d
		}
		return d, d != nil
	}
}
