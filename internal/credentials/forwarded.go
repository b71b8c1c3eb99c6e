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
// starts, and gives the name under which the run finds it: of several requests that would
// start the run, that of the one which does counts. drop removes it.
func (b *Broker) KeepForwarded(ctx context.Context, caller, run string, what backends.Forwarded) (as string, drop func(), err error) {
	kept := forwarded{Headers: map[string]string{}, Meta: what.Meta}
	for name, value := range what.Headers {
		kept.Headers[name] = string(value)
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return "", nil, fmt.Errorf("keeping headers for a run: %w", err)
	}
	key := store.RunKey(caller, run, what.Mark())
	put := func(ctx context.Context, g store.Grant) error {
		return b.grants.Change(ctx, key, func(context.Context, store.Grant) (store.Grant, error) { return g, nil })
	}
	drop = func() {
		if err := put(ctx, store.Grant{}); err != nil {
			b.log.Debug("headers are kept until the run ends, which has others", "run", run, "error", err)
		}
	}
	return key.Backend, drop, put(ctx, store.Grant{Secret: text})
}

// Forwarded gives what KeepForwarded has kept under a name. The error is a
// *backends.CredentialsError unless ctx has ended.
func (b *Broker) Forwarded(ctx context.Context, caller, as string) (backends.Forwarded, error) {
	if b.grants == nil {
		return backends.Forwarded{}, &backends.CredentialsError{Reason: "this process does not forward headers, and the run has some of its caller: give all processes the same passthroughHeaders"}
	}
	g, err := b.grants.Get(ctx, store.Key{Caller: caller, Backend: as})
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
