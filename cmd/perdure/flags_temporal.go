package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"
	"google.golang.org/grpc"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/secrets"
	"github.com/perdure/perdure/internal/web"
)

// temporalFlags name the Temporal with the runs, and the output format.
type temporalFlags struct {
	connectionFlags `embed:"" group:"Where the runs are:"`
	payloadFlags    `embed:"" group:"Where the runs are:"`
	databaseFlags   `embed:"" group:"Where the runs are:"`

	Data   dataDir `help:"Data directory of the dev with the runs. Default: .perdure." placeholder:"DIR" group:"Where the runs are:"`
	Output string  `short:"o" help:"Output format: text or json." enum:"text,json" default:"text"`
}

// again are the flags with which another command finds the same runs.
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

// dataFlag is the flag for a data directory; "" for the default one.
func dataFlag(dir dataDir) string {
	if dir == defaultData || dir == "" {
		return ""
	}
	return " --data " + view.ShellWord(string(dir))
}

// runsClient connects to the Temporal with the runs; close ends the connection. It
// has no key, so it cannot answer or signal runs.
func (f temporalFlags) runsClient(ctx context.Context) (c *runs.Client, close func(), err error) {
	return f.signingClient(ctx, nil)
}

// signingClient is a runsClient that signs answers and signals.
func (f temporalFlags) signingClient(ctx context.Context, keys *secrets.Keys) (c *runs.Client, close func(), err error) {
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
		return nil, nil, fmt.Errorf("cannot reach Temporal at %s; %s: %w", options.HostPort, cmp.Or(runs.Fix(err), "start perdure dev, or set --address"), err)
	}
	c = runs.New(runs.Config{
		Client: temporal, Namespace: options.Namespace, DataConverter: options.DataConverter, Keys: keys, LargeInputs: writing, Logger: slog.New(slog.DiscardHandler),
	})
	return c, func() { temporal.Close(); done() }, nil
}

// signFlags name the key that signs answers.
type signFlags struct {
	KeyFile string `help:"File with the key of the gateways and workers, which signs answers and signals to the run; runs ignore unsigned ones. Default: the key in PERDURE_KEY, or that of the running dev of --data." placeholder:"FILE"`
}

// client connects to the Temporal of f, with the keys.
func (s signFlags) client(ctx context.Context, f temporalFlags) (c *runs.Client, close func(), err error) {
	keys, err := s.signingKeys(f)
	if err != nil {
		return nil, nil, err
	}
	return f.signingClient(ctx, keys)
}

// signingKeys are the keys of the flags, else those of the dev of f; nil if that is
// not running.
func (s signFlags) signingKeys(f temporalFlags) (*secrets.Keys, error) {
	if s.KeyFile == "" && secrets.Variable(keyVar) == "" {
		if options, err := f.clientOptions(); err != nil || options.HostPort != "" && (f.Address != "" || f.Data == "") {
			return nil, cmp.Or(err, usagef("runs ignore what is not signed; set --key-file or PERDURE_KEY to the key of the gateways and workers; approvals can also be answered on the approvals page"))
		}
	}
	flags, found := keyFlags{KeyFile: s.KeyFile}.orOf(f.Data)
	if !found {
		return nil, nil // no dev runs there; connecting reports it
	}
	k, err := flags.keys()
	return k.Proofs, err
}

// where returns how to reach the Temporal of the flags, else that of the running dev.
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
			return options, fmt.Errorf("no perdure dev is running with data in %s; start it, name its data directory with --data, or set --address to a Temporal", f.Data)
		}
		pair, err := web.LoadPair(temporalKey(f.Data.String()))
		if err != nil {
			return options, err
		}
		options.ConnectionOptions = client.ConnectionOptions{TLS: pair.Client()}
		options.HostPort = dev.Temporal
		options.Namespace = cmp.Or(options.Namespace, dev.Namespace)
	}
	options.Namespace = cmp.Or(options.Namespace, client.DefaultNamespace)
	return options, nil
}

// noteTarget prints which Temporal a change was made at.
func (f temporalFlags) noteTarget(c *console) {
	if options, err := f.where(); err == nil {
		c.notef("at Temporal %s, namespace %s", options.HostPort, options.Namespace)
	}
}

// connectionFlags name the Temporal. The variables TEMPORAL_… and the profiles of the
// temporal command give the rest: address, namespace, API key, TLS.
type connectionFlags struct {
	Address   string `help:"Temporal frontend, HOST:PORT. Default: TEMPORAL_ADDRESS, or the profile of the temporal command." placeholder:"ADDR"`
	Namespace string `help:"Namespace of the runs. Default: TEMPORAL_NAMESPACE, or the profile, else default." placeholder:"NAME"`
}

// clientOptions are the options of a connection; HostPort and Namespace are "" if
// nothing sets them.
func (f connectionFlags) clientOptions() (client.Options, error) {
	options, err := profileOptions()
	if err != nil {
		return options, err
	}
	if first := options.ConnectionOptions.TLS; first != nil {
		options.ConnectionOptions.DialOptions = append(options.ConnectionOptions.DialOptions, grpc.WithTransportCredentials(web.Renewed(first, func() (*tls.Config, error) {
			now, err := profileOptions()
			return now.ConnectionOptions.TLS, err
		})))
	}
	options.HostPort = cmp.Or(f.Address, options.HostPort)
	options.Namespace = cmp.Or(f.Namespace, options.Namespace)
	return options, nil
}

// profileOptions are those of the variables and the profile, as they are now.
func profileOptions() (options client.Options, err error) {
	profile, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{EnvLookup: temporalEnv{}})
	if err == nil {
		options, err = profile.ToClientOptions(envconfig.ToClientOptionsRequest{})
	}
	if err != nil {
		return options, fmt.Errorf("reading how to reach Temporal: %w", err)
	}
	return options, nil
}

// temporalEnv is the environment for the settings of Temporal's clients, including
// the secrets that takeSecrets removed from the environment of the process.
type temporalEnv struct{}

// Environ returns all variables.
func (temporalEnv) Environ() []string { return secrets.Environ() }

// LookupEnv returns one variable.
func (temporalEnv) LookupEnv(name string) (string, bool) { return secrets.Lookup(name) }
