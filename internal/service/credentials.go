package service

import (
	"context"
	"fmt"
	"slices"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/credentials"
	"github.com/perdure/perdure/internal/store"
)

// maxSmallAnswer bounds an answer of a backend where large values are not kept: an output
// of the size that a history takes, a second time as text, and what is around them.
const maxSmallAnswer = 8 << 20

// newPool makes the backends, and the broker of their credentials.
func newPool(o Options) (*backends.Pool, *credentials.Broker, error) {
	broker, err := credentials.New(credentials.Options{Strategies: o.Loaded.Outgoing, Grants: o.grants(), Logger: o.Logger})
	if err != nil {
		return nil, nil, fmt.Errorf("outgoingAuth: %w", err)
	}
	configs := slices.Clone(o.Loaded.Backends)
	for i := range configs {
		configs[i].Credentials = broker.For(configs[i].Name)
		if o.Values == nil && configs[i].MaxResultBytes == 0 {
			configs[i].MaxResultBytes = maxSmallAnswer
		}
	}
	pool, err := backends.New(configs, o.Loaded.Aggregation, o.Logger)
	if err != nil {
		return nil, nil, err
	}
	broker.OnDeposit(pool.Wake) // some list tools only now
	if o.Kept != nil {
		pool.Keep(listings{o.Kept})
	}
	return pool, broker, nil
}

// listings are those of backends, in the store.
type listings struct{ kept store.Grants }

// Last gives what a backend has listed last; nil = nothing is kept.
func (l listings) Last(ctx context.Context, backend string) ([]byte, error) {
	g, err := l.kept.Get(ctx, store.ListKey(backend))
	return g.Secret, err
}

// Keep replaces it.
func (l listings) Keep(ctx context.Context, backend string, listed []byte) error {
	return l.kept.Change(ctx, store.ListKey(backend), func(context.Context, store.Grant) (store.Grant, error) {
		return store.Grant{Secret: listed}, nil
	})
}
