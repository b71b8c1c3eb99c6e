package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/service"
)

// roleFlags are what every process has that works with a Temporal elsewhere.
type roleFlags struct {
	logFlags        `embed:""`
	connectionFlags `embed:""`
	databaseFlags   `embed:""`
	telemetryFlags  `embed:""`
	payloadFlags    `embed:""`
	valueFlags      `embed:""`

	Config      string        `help:"Configuration file." required:"" placeholder:"FILE"`
	Definitions []string      `help:"Directory of definitions, read again when they change. Repeatable." placeholder:"DIR" sep:"none"`
	Retention   time.Duration `help:"How long closed runs are kept, where the namespace does not exist and is registered." default:"720h"`
	Grace       time.Duration `help:"Time that requests and calls under way get to end at a stop." default:"20s"`
}

// trustFlags say what runs believe.
type trustFlags struct {
	AcceptUnprovenAnswers bool `help:"Take answers to elicitations that nobody has signed, such as those of temporal workflow signal: everybody who reaches Temporal can give one in anybody's name. What runs tell of such an answer says so."`
}

const whereTemporalIs = `
Temporal is found by --address and --namespace, the variables TEMPORAL_ADDRESS,
TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_TLS_… and the profiles of the
temporal command, else at localhost:7233. As long as it does not answer, it is
waited for. A namespace that does not exist and search attributes that are
missing are made, if that is permitted.`

type gatewayCommand struct {
	roleFlags    `embed:""`
	gatewayFlags `embed:""`
	keyFlags     `embed:""`

	Listen string `help:"Address of the MCP endpoint, of /healthz, /reachable and /readyz." default:"127.0.0.1:4483" placeholder:"ADDR"`
}

func (gatewayCommand) Help() string {
	return `Any number of gateways serve the same clients: each request may go to another
one, since they share a key and nothing else. Workers execute the runs. SIGTERM
lets clients go on at another gateway.
` + whereTemporalIs + ` Example:

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
	return `Any number of workers share the runs. SIGTERM stops taking up steps; calls under
way get --grace to end, and other workers go on with the runs.
` + whereTemporalIs + ` Example:

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
	return `A gateway and a worker in one process, which is the fastest and the least to run.
Several of them are replicas of each other.
` + whereTemporalIs + ` Example:

    perdure serve --config perdure.yaml --key-file key --listen :4483 \
      --public-url https://tools.example.com`
}

func (s serveCommand) Run(ctx context.Context, c *console) error {
	return s.serve(ctx, c, role{clients: &s.gatewayFlags, keys: s.keyFlags, worker: workerOptions(s.trustFlags, s.buildFlags, s.guardFlags), listen: s.Listen, flag: "--listen"})
}

// A role is what a command is for: to serve clients, to execute runs, or both.
type role struct {
	clients *gatewayFlags // nil = it serves none
	keys    keyFlags
	worker  *service.WorkerOptions // nil = it executes no runs
	listen  string                 // "" = nowhere
	flag    string                 // that says so
}

// workerOptions are what the flags of a worker say.
func workerOptions(trust trustFlags, build buildFlags, guard guardFlags) *service.WorkerOptions {
	return &service.WorkerOptions{Unproven: trust.AcceptUnprovenAnswers, Deployment: build.deployment(), QuarantineAfter: guard.QuarantineAfter}
}

func (f roleFlags) serve(ctx context.Context, c *console, r role) error {
	src := config.Sources{Config: f.Config, Definitions: f.Definitions}
	found, diags := config.Load(src)
	if diags.HasErrors() {
		printDiagnostics(c, diags)
		return errReported
	}
	log := f.logger(c.err, found.LogLevel)
	warnOf(log, diags)
	told, stop, err := f.start(ctx, found, log)
	if err != nil {
		return err
	}
	defer stop()
	does := service.Role{
		Sources: src, Loaded: found, Version: programVersion(), Retention: f.Retention, Database: f.Database, LargeValues: f.LargeValues,
		Worker: r.worker, Grace: f.Grace, Telemetry: told, Logger: log,
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

// complete adds to a role what flags name and what is read from elsewhere: Temporal,
// keys, and how clients are served.
func (f roleFlags) complete(ctx context.Context, r role, does *service.Role) (err error) {
	if r.clients != nil {
		if does.Listener == nil {
			return usagef("%s is empty: name the address at which clients are served", r.flag)
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

// listen takes the address of a flag; "" = none.
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

// taken explains why an address cannot be listened on.
func taken(err error, flag, address string) error {
	var at *net.OpError
	if errors.As(err, &at) {
		err = at.Err
	}
	reason := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "bind: "), "listen: ")
	return fmt.Errorf("cannot listen on %s: %s; choose another address with %s", address, reason, flag)
}
