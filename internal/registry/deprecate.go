package registry

import (
	"context"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/store"
)

// A Deprecation deprecates or restores versions.
type Deprecation struct {
	Reason string // why they must not be used; "" = restore them
	Keep   bool   // versions that are already deprecated keep their reason
}

// Deprecate deprecates or restores the versions that a reference names; without a
// version, all of the name. It gives those that it changed.
func (r *Registry) Deprecate(ctx context.Context, by string, ref definitions.Reference, d Deprecation) (done []store.Version, err error) {
	if r.store == nil {
		return nil, ErrNoStore
	}
	err = r.edit(ctx, by, func() ([]store.Edit, error) {
		edits, err := r.deprecations(ref, d)
		for _, e := range edits {
			done = append(done, e.Version)
		}
		return edits, err
	})
	return done, err
}

func (r *Registry) deprecations(ref definitions.Reference, d Deprecation) ([]store.Edit, error) {
	action := store.Deprecated
	if d.Reason == "" {
		action = store.Restored
	}
	var edits []store.Edit
	var versions []string
	matched := false
	for _, e := range r.Versions(ref.Name) {
		v := *e.Published
		versions = append(versions, v.Version)
		if ref.Version != "" && !ref.Matches(v.Version) {
			continue
		}
		matched = true
		if v.Deprecated != d.Reason && !(d.Keep && v.Deprecated != "") {
			v.Deprecated = d.Reason
			edits = append(edits, store.Edit{Action: action, Version: v, Note: d.Reason})
		}
	}
	if !matched {
		return nil, &NotFoundError{ref, versions}
	}
	return edits, nil
}
