package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"

	"github.com/perdure/perdure/internal/environ"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/signing"
	"github.com/perdure/perdure/internal/web"
)

// temporalFlags say where the runs are, and how to print.
type temporalFlags struct {
	connectionFlags `embed:""`
	payloadFlags    `embed:""`
	databaseFlags   `embed:""`

	Data   dataDir `help:"Data directory of the dev whose runs to see, and of no other. Default: .perdure." placeholder:"DIR"`
	Output string  `short:"o" help:"How to print: text or json." enum:"text,json" default:"text"`
}

// again are the flags by which another command comes to the same runs.
func (f temporalFlags) again() string {
	flags := dataFlag(f.Data)
	if f.Address != "" {
		flags += " --address " + f.Address
	}
	if f.Namespace != "" {
		flags += " --namespace " + f.Namespace
	}
	return flags
}

// dataFlag is the flag for a data directory that is not the usual one.
func dataFlag(dir dataDir) string {
	if dir == defaultData || dir == "" {
		return ""
	}
	return " --data '" + string(dir) + "'"
}

// runsClient is a connection to where the runs are; close ends it. By it nobody
// tells runs anything.
func (f temporalFlags) runsClient(ctx context.Context) (c *runs.Client, close func(), err error) {
	return f.signingClient(ctx, nil)
}

// signingClient is one that signs what it tells runs.
func (f temporalFlags) signingClient(ctx context.Context, keys *signing.Keys) (c *runs.Client, close func(), err error) {
	options, err := f.where()
	if err != nil {
		return nil, nil, err
	}
	options.Logger = sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err := f.seal(ctx, &options); err != nil {
		return nil, nil, err
	}
	writing, done, err := readValues(ctx, f.databaseFlags, f.Data.String(), &options)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	temporal, err := client.DialContext(ctx, options)
	if err != nil {
		done()
		return nil, nil, fmt.Errorf("no Temporal answers at %s; start perdure dev, or name another with --address: %w", options.HostPort, err)
	}
	c = runs.New(runs.Config{
		Client: temporal, Namespace: options.Namespace, DataConverter: options.DataConverter, Keys: keys, LargeInputs: writing, Logger: slog.New(slog.DiscardHandler),
	})
	return c, func() { temporal.Close(); done() }, nil
}

// signFlags say with which key answers are signed.
type signFlags struct {
	KeyFile string `help:"File with the key of the gateways and workers, which signs what the run is told: what is not signed does not count. Default: the key in PERDURE_KEY, or that of the running dev of --data." placeholder:"FILE"`
}

// signingKeys are those of the flags, else those of the dev to whose runs f leads;
// nil = that has none.
func (s signFlags) signingKeys(f temporalFlags) (*signing.Keys, error) {
	flags := keyFlags{KeyFile: s.KeyFile}
	if flags.KeyFile == "" && environ.Secret(keyVar) == "" {
		if options, err := f.clientOptions(); err != nil || options.HostPort != "" && (f.Address != "" || f.Data == "") {
			return nil, cmp.Or(err, usagef("a run believes nothing that is not signed: give the key of the gateways and workers by --key-file or PERDURE_KEY; approvals can be answered on the approvals page"))
		}
		flags.KeyFile = keyOf(f.Data.String())
		if _, err := os.Stat(flags.KeyFile); errors.Is(err, fs.ErrNotExist) {
			return nil, nil // nor is there a dev, as will be said
		}
	}
	k, err := flags.keys()
	return k.Proofs, err
}

// where is the Temporal of the flags, else that of the running dev.
func (f temporalFlags) where() (client.Options, error) {
	options, err := f.clientOptions()
	if err != nil {
		return options, err
	}
	if options.HostPort == "" || f.Address == "" && f.Data != "" {
		dev, err := f.Data.running()
		if err != nil {
			return options, err
		}
		if dev == nil {
			return options, fmt.Errorf("no dev is running with its data in %s; start perdure dev, or say where Temporal is with --address", f.Data)
		}
		pair, err := web.LoadPair(temporalKey(f.Data.String()))
		if err != nil {
			return options, err
		}
		options.ConnectionOptions.TLS = pair.Client()
		options.HostPort = dev.Temporal
		options.Namespace = cmp.Or(options.Namespace, dev.Namespace)
	}
	options.Namespace = cmp.Or(options.Namespace, client.DefaultNamespace)
	return options, nil
}

// tell names the Temporal to whose runs something was done.
func (f temporalFlags) tell(c *console) {
	if options, err := f.where(); err == nil {
		c.notef("at Temporal %s, namespace %s", options.HostPort, options.Namespace)
	}
}

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
