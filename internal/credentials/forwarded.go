package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/store"
)

// forwarded is what backends get of the request that started a run, as sealed in the store.
type forwarded struct {
	Headers map[string]string          `json:"headers,omitempty"`
	Meta    map[string]json.RawMessage `json:"meta,omitempty"`
}

// KeepForwarded keeps what the request of a caller has for backends, for the run that it
// starts. What is kept for the run already stays: the request that started it counts.
func (b *Broker) KeepForwarded(ctx context.Context, caller, run string, what backends.Forwarded) error {
	kept := forwarded{Headers: map[string]string{}, Meta: what.Meta}
	for name, value := range what.Headers {
		kept.Headers[name] = string(value)
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return fmt.Errorf("keeping headers for a run: %w", err)
	}
	return b.grants.Change(ctx, store.RunKey(caller, run), func(_ context.Context, was store.Grant) (store.Grant, error) {
		if len(was.Secret) > 0 {
			return was, nil
		}
		return store.Grant{Secret: text}, nil
	})
}

// Forwarded gives what KeepForwarded has kept for a run. The error is a
// *backends.CredentialsError unless ctx has ended.
func (b *Broker) Forwarded(ctx context.Context, caller, run string) (backends.Forwarded, error) {
	if b.grants == nil {
		return backends.Forwarded{}, &backends.CredentialsError{Reason: "this process does not forward headers, and the run has some of its caller: give all processes the same passthroughHeaders"}
	}
	g, err := b.grants.Get(ctx, store.RunKey(caller, run))
	if err != nil {
		return backends.Forwarded{}, b.passing(ctx, err)
	}
	var kept forwarded
	if json.Unmarshal(g.Secret, &kept) != nil {
		return backends.Forwarded{}, &backends.CredentialsError{Reason: "the headers that the caller sent for this run are no longer kept; start it anew"}
	}
	out := backends.Forwarded{Headers: backends.Headers{}, Meta: kept.Meta}
	for name, value := range kept.Headers {
		out.Headers[name] = backends.Secret(value)
	}
	return out, nil
}

// SweepForwarded removes what is kept for runs that have ended.
func (b *Broker) SweepForwarded(ctx context.Context, ended func(ctx context.Context, run string) (bool, error)) error {
	if err := b.grants.SweepRuns(ctx, ended); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("removing headers of runs that have ended: %w", err)
	}
	return nil
}
