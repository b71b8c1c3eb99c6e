package service

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/credentials"
	"github.com/perdure/perdure/internal/store"
)

// OpenFiles opens the store of a single process, in its data directory.
func OpenFiles(l *config.Loaded, data string, k Keys, log *slog.Logger) (store.Grants, error) {
	if len(l.KeepsForCallers()) == 0 {
		return nil, nil
	}
	sealing, err := k.Sealing()
	if err != nil {
		return nil, err
	}
	return store.OpenFiles(filepath.Join(data, "grants"), sealing, log)
}

// maxSmallAnswer bounds an answer of a backend where large values are not kept: an output
// of the size that a history takes, a second time as text, and what is around them.
const maxSmallAnswer = 8 << 20

// NewPool makes the backends, and the broker of their credentials.
func NewPool(o Options) (*backends.Pool, *credentials.Broker, error) {
	broker, err := credentials.New(credentials.Options{Strategies: o.Loaded.Outgoing, Grants: o.Grants, Logger: o.Logger})
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
	return pool, broker, nil
}
