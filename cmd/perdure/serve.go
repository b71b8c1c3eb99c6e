package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/perdure/perdure/internal/payloads"
	"github.com/perdure/perdure/internal/quarantine"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/workflows"
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
	Grace       time.Duration `help:"How long requests and calls under way get to end at a stop." default:"20s"`
}

// trustFlags say what runs believe.
type trustFlags struct {
	AcceptUnprovenAnswers bool `help:"Take answers to elicitations that nobody has signed, such as those of temporal workflow signal: whoever reaches Temporal can give one in anybody's name. What runs tell of such an answer says so."`
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

	Listen string `help:"Address of the MCP endpoint, of /healthz and /readyz." default:"127.0.0.1:4483" placeholder:"ADDR"`
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

	HealthListen string `help:"Address of /healthz and /readyz. Default: none." placeholder:"ADDR"`
}

func (workerCommand) Help() string {
	return `Any number of workers share the runs. SIGTERM stops taking up steps; calls under
way get --grace to end, and other workers go on with the runs.
` + whereTemporalIs + ` Example:

    perdure worker --config perdure.yaml --key-file key --health-listen :4484`
}

func (w workerCommand) Run(ctx context.Context, c *console) error {
	return w.serve(ctx, c, role{works: true, build: w.buildFlags, guard: w.guardFlags, keys: w.keyFlags, trust: w.trustFlags, listen: w.HealthListen, flag: "--health-listen"})
}

type serveCommand struct {
	roleFlags    `embed:""`
	gatewayFlags `embed:""`
	keyFlags     `embed:""`
	trustFlags   `embed:""`
	buildFlags   `embed:""`
	guardFlags   `embed:""`

	Listen string `help:"Address of the MCP endpoint, of /healthz and /readyz." default:"127.0.0.1:4483" placeholder:"ADDR"`
}

func (serveCommand) Help() string {
	return `A gateway and a worker in one process, which is the fastest and the least to run.
Several of them are replicas of each other.
` + whereTemporalIs + ` Example:

    perdure serve --config perdure.yaml --key-file key --listen :4483 \
      --public-url https://tools.example.com`
}

func (s serveCommand) Run(ctx context.Context, c *console) error {
	return s.serve(ctx, c, role{clients: &s.gatewayFlags, keys: s.keyFlags, works: true, trust: s.trustFlags, build: s.buildFlags, guard: s.guardFlags, listen: s.Listen, flag: "--listen"})
}

// A role is what a process does beside others.
type role struct {
	clients *gatewayFlags // nil = it serves none
	keys    keyFlags
	trust   trustFlags // of the worker
	works   bool
	build   buildFlags // of the worker
	guard   guardFlags // of the worker
	listen  string     // "" = nowhere
	flag    string     // that says so
}

func (f roleFlags) serve(ctx context.Context, c *console, r role) error {
	src := sources{Config: f.Config, Definitions: f.Definitions}
	found, diags := load(src)
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
	listener, err := listen(r.listen, r.flag)
	if err != nil {
		return err
	}
	if listener != nil {
		defer listener.Close()
		if r.clients != nil {
			if err := r.clients.refuseStrangers(found.Auth, listener.Addr()); err != nil {
				return err
			}
		}
	}
	options, err := f.options(ctx, r, found, listener, told, log)
	if err != nil {
		return err
	}
	defer options.close()
	s, err := newService(options)
	if err != nil {
		return err
	}
	handler := s.health()
	if r.clients != nil {
		handler = s.clients()
		go s.reload(ctx, src)
	}
	err = s.serve(ctx, listener, handler, func() <-chan error {
		log.Info("ready", f.where(s, listener)...)
		return nil
	})
	log.Info("stopped; runs go on where others work, or when this is started again")
	return err
}

// options are those of the service in a role. Whoever has them closes them.
func (f roleFlags) options(ctx context.Context, r role, found *loaded, listener net.Listener, told *telemetry.Telemetry, log *slog.Logger) (serviceOptions, error) {
	o, err := f.connect(ctx, r, found, told, log)
	if err != nil {
		return o, err
	}
	o.Worker, o.Build, o.Unproven = r.works, r.build, r.trust.AcceptUnprovenAnswers
	k, err := r.keys.keys()
	if err == nil {
		o.Keys = k.proofs
		err = f.use(ctx, &o, k)
	}
	if err != nil {
		o.close()
		return o, err
	}
	if r.clients != nil {
		o.Gateway = r.clients.options(reachable(listener.Addr()), k)
	}
	return o, nil
}

// connect makes a client of Temporal, which need not answer yet, and the
// options that belong to it.
func (f roleFlags) connect(ctx context.Context, r role, found *loaded, told *telemetry.Telemetry, log *slog.Logger) (serviceOptions, error) {
	o, err := f.clientOptions()
	if err != nil {
		return serviceOptions{}, err
	}
	o.HostPort = cmp.Or(o.HostPort, client.DefaultHostPort)
	o.Namespace = cmp.Or(o.Namespace, client.DefaultNamespace)
	o.Logger = sdklog.NewStructuredLogger(quiet(log))
	if err := errors.Join(told.Temporal(&o), f.seal(ctx, &o)); err != nil {
		return serviceOptions{}, err
	}
	db, err := f.keepValues(ctx, &o, log)
	if err != nil {
		return serviceOptions{}, err
	}
	payloads.ReportUnread(&o, workflows.Unread)
	var guard *quarantine.Guard
	if r.works {
		guard = r.guard.guard(&o, db != nil, told, log)
	}
	tc, err := client.NewLazyClient(o)
	if err != nil {
		return serviceOptions{}, fmt.Errorf("connecting to Temporal at %s: %w", o.HostPort, err)
	}
	options := serviceOptions{
		Loaded: found, Temporal: tc, Namespace: o.Namespace, Converter: o.DataConverter,
		Prepare: prepareUntilDone(tc, o.HostPort, runs.Namespace{Name: o.Namespace, Retention: f.Retention, Logger: log}),
		Guard:   guard,
		Grace:   f.Grace, Telemetry: told, Logger: log,
		OnStop: func() { log.Info("stopping", "grace", f.Grace.String()) },
	}
	if db != nil {
		options.Values, options.ValuesIn = db.Values(), db
	}
	return options, nil
}

// where tells the log where the service is.
func (f roleFlags) where(s *service, listener net.Listener) []any {
	at := []any{"namespace", s.opts.Namespace, "worker", s.worker != nil}
	if listener != nil {
		at = append(at, "listen", listener.Addr().String())
	}
	if s.gateway != nil {
		at = append(at, "mcp", string(s.opts.Gateway.PublicURL)+endpoint, "definitions", len(s.opts.Loaded.Definitions))
	}
	return at
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

// reachable is an address by which this machine reaches a listener.
func reachable(address net.Addr) string {
	tcp, ok := address.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", fmt.Sprint(tcp.Port))
	}
	return address.String()
}
