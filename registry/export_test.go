package registry

import "github.com/perdure/perdure/store"

// StoreOf is what a registry keeps its versions in.
func StoreOf(r *Registry) store.Registry { return r.store }
