package registry

import (
	"context"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/store"
)

// Deprecate marks versions that a reference names as deprecated, for a reason;
// "" = not any more. Without a version it is all of the name. It gives those that
// were not so before.
func (r *Registry) Deprecate(ctx context.Context, by string, ref definitions.Reference, reason string) (done []store.Version, err error) {
	if r.store == nil {
		return nil, ErrNoStore
	}
	err = r.edit(ctx, by, func() ([]store.Edit, error) {
		edits, err := r.deprecations(ref, reason)
		for _, e := range edits {
			done = append(done, e.Version)
		}
		return edits, err
	})
	return done, err
}

func (r *Registry) deprecations(ref definitions.Reference, reason string) ([]store.Edit, error) {
	action := store.Deprecated
	if reason == "" {
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
		if v.Deprecated != reason {
			v.Deprecated = reason
			edits = append(edits, store.Edit{Action: action, Version: v, Note: reason})
		}
	}
	if !matched {
		return nil, &NotFoundError{ref, versions}
	}
	return edits, nil
}
