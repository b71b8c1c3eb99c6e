package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"github.com/perdure/perdure/internal/environ"
	"github.com/perdure/perdure/internal/runs"
)

// connectionFlags say where Temporal is. Whatever they do not say comes from
// the variables TEMPORAL_… and the profiles of the temporal command: address,
// namespace, API key, TLS.
type connectionFlags struct {
	Address   string `help:"Temporal frontend, host:port. Default: TEMPORAL_ADDRESS, or that of the profile of the temporal command." placeholder:"ADDR"`
	Namespace string `help:"Namespace of the runs. Default: TEMPORAL_NAMESPACE, or that of the profile, else default." placeholder:"NAME"`
}

// clientOptions are those of a connection; HostPort is "" if nothing says
// where Temporal is, and so is Namespace.
func (f connectionFlags) clientOptions() (client.Options, error) {
	options, err := envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{EnvLookup: temporalEnv{}})
	if err != nil {
		return options, fmt.Errorf("reading how to reach Temporal: %w", err)
	}
	options.HostPort = cmp.Or(f.Address, options.HostPort)
	options.Namespace = cmp.Or(f.Namespace, options.Namespace)
	return options, nil
}

// temporalEnv is the environment for the settings of Temporal's clients, with the
// secrets that were taken out of it.
type temporalEnv struct{}

// Environ gives all variables.
func (temporalEnv) Environ() []string { return environ.All() }

// LookupEnv gives one.
func (temporalEnv) LookupEnv(name string) (string, bool) { return environ.Lookup(name) }

// prepareUntilDone returns what makes a namespace ready for runs, trying again
// for as long as Temporal cannot be reached.
func prepareUntilDone(c client.Client, address string, ns runs.Namespace) func(context.Context) error {
	return func(ctx context.Context) error {
		for pause := time.Second; ; pause = min(2*pause, 10*time.Second) {
			err := runs.Prepare(ctx, c, ns)
			if !errors.Is(err, runs.ErrUnavailable) || ctx.Err() != nil {
				return err
			}
			ns.Logger.Warn("Temporal is not ready; trying again", "address", address, "namespace", ns.Name,
				"in", pause.String(), "error", err)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}
