package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/service"
)

// roleFlags are the common flags of gateways and workers.
type roleFlags struct {
	logFlags        `embed:""`
	connectionFlags `embed:""`
	databaseFlags   `embed:""`
	telemetryFlags  `embed:""`
	payloadFlags    `embed:""`
	valueFlags      `embed:""`

	Config          string        `help:"Configuration file." required:"" placeholder:"FILE"`
	Definitions     []string      `help:"Directory of definitions, reloaded when they change. Repeatable." placeholder:"DIR" sep:"none"`
	CreateNamespace bool          `help:"Create the namespace if Temporal has none of that name, instead of refusing to start." env:"PERDURE_CREATE_NAMESPACE"`
	Retention       time.Duration `help:"How long ended runs are kept, with --create-namespace." default:"720h"`
	Grace           time.Duration `help:"How long requests and calls under way may take at a stop." default:"20s"`
}

// trustFlags decide which answers runs accept.
type trustFlags struct {
	AcceptUnprovenAnswers bool `help:"Accept unsigned answers to elicitations, such as those of temporal workflow signal. Everybody who reaches Temporal can then answer in any name; such answers are marked in the log of the run."`
}

const temporalHelp = `
--address and --namespace name the Temporal, else the variables TEMPORAL_ADDRESS,
TEMPORAL_NAMESPACE, TEMPORAL_API_KEY and TEMPORAL_TLS_… and the profiles of the
temporal command do; the default is localhost:7233. If Temporal is not reachable,
perdure waits for it. Missing search attributes are created if the credentials allow
it, a missing namespace with --create-namespace.`

type gatewayCommand struct {
	roleFlags    `embed:""`
	gatewayFlags `embed:""`
	keyFlags     `embed:""`

	Listen string `help:"Address of the MCP endpoint, of /healthz, /reachable and /readyz." default:"127.0.0.1:4483" placeholder:"ADDR"`
}

func (gatewayCommand) Help() string {
	return `Run any number of gateways behind a load balancer: they share only a key, so each
request may go to any of them. Workers execute the runs. At SIGTERM, clients
continue at another gateway.
` + temporalHelp + ` Example:

    perdure gateway --config perdure.yaml --key-file key --listen :4483 \
      --public-url https://tools.example.com`
}

func (g gatewayCommand) Run(ctx context.Context, c *console) error {
	return g.serve(ctx, c, role{clients: &g.gatewayFlags, keys: g.keyFlags, listen: g.Listen, flag: "--listen"})
}

type workerCommand struct {
	roleFlags  `embed:""`
	keyFlags   `embed:""`
	trustFlags `embed:""`
	buildFlags `embed:""`
	guardFlags `embed:""`

	HealthListen string `help:"Address of /healthz, /reachable and /readyz. Default: none." placeholder:"ADDR"`
}

func (workerCommand) Help() string {
	return `Run any number of workers; they share the runs. At SIGTERM, a worker starts no more
steps, lets calls under way finish within --grace, and other workers continue the
runs.
` + temporalHelp + ` Example:

    perdure worker --config perdure.yaml --key-file key --health-listen :4484`
}

func (w workerCommand) Run(ctx context.Context, c *console) error {
	return w.serve(ctx, c, role{worker: workerOptions(w.trustFlags, w.buildFlags, w.guardFlags), keys: w.keyFlags, listen: w.HealthListen, flag: "--health-listen"})
}

type serveCommand struct {
	roleFlags    `embed:""`
	gatewayFlags `embed:""`
	keyFlags     `embed:""`
	trustFlags   `embed:""`
	buildFlags   `embed:""`
	guardFlags   `embed:""`

	Listen string `help:"Address of the MCP endpoint, of /healthz, /reachable and /readyz." default:"127.0.0.1:4483" placeholder:"ADDR"`
}

func (serveCommand) Help() string {
	return `Runs a gateway and a worker in one process, the fastest and simplest way to operate.
Run several as replicas.
` + temporalHelp + ` Example:

    perdure serve --config perdure.yaml --key-file key --listen :4483 \
      --public-url https://tools.example.com`
}

func (s serveCommand) Run(ctx context.Context, c *console) error {
	return s.serve(ctx, c, role{clients: &s.gatewayFlags, keys: s.keyFlags, worker: workerOptions(s.trustFlags, s.buildFlags, s.guardFlags), listen: s.Listen, flag: "--listen"})
}

// A role is what a process does: serve clients, execute runs, or both.
type role struct {
	clients *gatewayFlags // nil = serves no clients
	keys    keyFlags
	worker  *service.WorkerOptions // nil = executes no runs
	listen  string                 // "" = do not listen
	flag    string                 // name of the flag for listen
}

// workerOptions converts the flags of a worker.
func workerOptions(trust trustFlags, build buildFlags, guard guardFlags) *service.WorkerOptions {
	return &service.WorkerOptions{Unproven: trust.AcceptUnprovenAnswers, Deployment: build.deployment(), QuarantineAfter: guard.QuarantineAfter, CachedRuns: guard.CachedRuns}
}

func (f roleFlags) serve(ctx context.Context, c *console, r role) error {
	src := config.Sources{Config: f.Config, Definitions: f.Definitions}
	found, log, err := f.begin(ctx, c, src)
	if err != nil {
		return err
	}
	metrics, stop, err := f.start(ctx, found, log)
	if err != nil {
		return err
	}
	defer stop()
	does := service.Role{
		Sources: src, Loaded: found, Version: programVersion(), Namespace: runs.Namespace{Register: f.CreateNamespace, Retention: f.Retention}, Database: f.Database, LargeValues: f.LargeValues,
		Worker: r.worker, Grace: f.Grace, Telemetry: metrics, Logger: log,
	}
	if does.Listener, err = listen(r.listen, r.flag); err != nil {
		return err
	}
	if does.Listener != nil {
		defer does.Listener.Close()
	}
	if err := f.complete(ctx, r, &does); err != nil {
		return err
	}
	return does.Run(ctx)
}

// complete fills in the connection to Temporal, the keys, and the options of the
// gateway.
func (f roleFlags) complete(ctx context.Context, r role, does *service.Role) (err error) {
	if r.clients != nil {
		if does.Listener == nil {
			return usagef("%s is empty; set it to the address at which to serve clients", r.flag)
		}
		if err := r.clients.refuseStrangers(does.Loaded.Auth, does.Listener.Addr()); err != nil {
			return err
		}
	}
	if does.Temporal, err = f.clientOptions(); err != nil {
		return err
	}
	if does.PayloadKeys, err = f.payloadFlags.keys(ctx); err != nil {
		return err
	}
	if does.Keys, err = r.keys.keys(); err != nil {
		return err
	}
	if r.clients != nil {
		does.Gateway = r.clients.options(service.Reachable(does.Listener.Addr()), does.Keys)
	}
	return f.check(does.Loaded, f.LargeValues)
}

// listen listens at the address of a flag; nil if it is "".
func listen(address, flag string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, taken(err, flag, address)
	}
	return listener, nil
}

// taken explains a failure to listen.
func taken(err error, flag, address string) error {
	var at *net.OpError
	if errors.As(err, &at) {
		err = at.Err
	}
	reason := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "bind: "), "listen: ")
	if _, _, err := net.SplitHostPort(address); err != nil {
		return usagef("cannot listen on %s: an address is HOST:PORT; write %s 127.0.0.1:%s", address, flag, portIn(address))
	}
	return fmt.Errorf("cannot listen on %s: %s; set another address with %s", address, reason, flag)
}

// portIn is the port that is meant by an address that has no host or no port.
func portIn(address string) string {
	port := strings.TrimLeft(address, ":")
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "8080"
	}
	return port
}

// mistakenFiles ends a command whose files have mistakes, which were printed.
func mistakenFiles(diags definitions.Diagnostics) error {
	return fmt.Errorf("nothing was started (%s): correct the files and start again; perdure explain CHECK explains a check in brackets", verdict(diags))
}
