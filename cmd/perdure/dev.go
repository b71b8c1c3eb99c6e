//go:build !nodev

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/devserver"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/scaffold"
	"github.com/perdure/perdure/internal/service"
	"github.com/perdure/perdure/internal/store"
	"github.com/perdure/perdure/internal/web"
)

// shutdownGrace is how long requests and calls under way may take at a stop.
const shutdownGrace = 5 * time.Second

const beginning = `Start with "perdure dev", which needs no configuration, and call a tool:
"perdure call prepare_review". For help on a command: perdure COMMAND --help.`

// hasDev says whether this build has the embedded Temporal.
const hasDev = true

// devCommands are the commands that need the embedded Temporal.
type devCommands struct {
	Dev       devCommand       `cmd:"" group:"Begin" help:"Serve everything from one process: Temporal with its Web UI, worker, gateway and backends."`
	Approvals approvalsCommand `cmd:"" group:"Runs" help:"Open the page on which people answer elicitations."`
}

type devCommand struct {
	logFlags       `embed:""`
	gatewayFlags   `embed:""`
	telemetryFlags `embed:""`
	payloadFlags   `embed:""`
	valueFlags     `embed:""`
	trustFlags     `embed:""`
	guardFlags     `embed:""`

	Config         string         `help:"Configuration file, or the file in which an MCP client lists its servers, such as .mcp.json. Default: the built-in backend repo and the composite tools that ship with perdure." placeholder:"FILE" aliases:"mcp-config"`
	Definitions    []string       `help:"Directory of definitions, reloaded when they change. Repeatable." placeholder:"DIR" sep:"none"`
	Data           string         `help:"Directory for all state. Default: .perdure." default:".perdure" placeholder:"DIR"`
	Listen         *string        `help:"Address of the MCP endpoint. Default: 127.0.0.1:4483." placeholder:"ADDR"`
	UICodec        service.WebURL `name:"ui-codec" help:"URL of a perdure codec, with which the Web UI opens sealed values." placeholder:"URL"`
	UIListen       *string        `help:"Address of the Web UI, empty for none. Default: 127.0.0.1:8233." placeholder:"ADDR"`
	UIWrite        bool           `name:"ui-write" help:"Let everybody who reaches the Web UI start, signal, reset and end runs. Default: the Web UI is read-only."`
	TemporalListen *string        `help:"Address of the Temporal frontend. Default: 127.0.0.1:7233, or a free port if that is taken." placeholder:"ADDR"`
	Stdio          bool           `help:"Also serve MCP on standard input and output, for a client that starts perdure."`
	Root           string         `help:"Repository that the built-in backend reads. Default: the working directory." default:"." placeholder:"DIR" type:"existingdir"`
	Durable        bool           `help:"Flush each commit to the disk, to survive a power cut as well; slightly slower."`
}

func (devCommand) Help() string {
	return `Runs are kept in --data. They continue when dev is started there again, however it
ended. Ctrl-C shuts down in order, a second Ctrl-C at once. Examples:

    perdure dev
    perdure dev --config perdure.yaml --definitions definitions --ui-listen ''`
}

func (d devCommand) Run(ctx context.Context, c *console) error {
	collectLess()
	src := d.sources()
	found, log, err := d.begin(ctx, c, src)
	if err != nil {
		return err
	}
	if d.Config == "" {
		if _, err := os.Stat(scaffold.ConfigFile); err == nil {
			log.Warn(scaffold.ConfigFile + " is not used; to serve it, set --config " + scaffold.ConfigFile)
		}
		if err := d.builtIn(found); err != nil {
			return err
		}
	}
	return d.serve(ctx, c, src, found, log)
}

func (d devCommand) sources() config.Sources {
	return config.Sources{Config: d.Config, Definitions: d.Definitions, Library: d.Config == ""}
}

// builtIn is what is served without a configuration: this very program as the
// backend repo, all of whose tools but one only read.
func (d devCommand) builtIn(found *config.Loaded) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	root, err := filepath.Abs(d.Root)
	if err != nil {
		return fmt.Errorf("--root %s: %w", d.Root, err)
	}
	found.Backends = []backends.Config{{
		Name:      "repo",
		Transport: backends.Stdio,
		Command:   program,
		Args:      []string{"backend", "repo", "--root", root},
		Effects:   []backends.EffectRule{{Tool: "write_*", Class: "unsafe"}, {Tool: "*", Class: "read"}},
	}}
	return nil
}

// serve runs everything until ctx ends.
func (d devCommand) serve(ctx context.Context, c *console, src config.Sources, found *config.Loaded, log *slog.Logger) error {
	listener, err := d.listen()
	if err != nil {
		return err
	}
	defer listener.Close()
	if err := d.refuseStrangers(found.Auth, listener.Addr()); err != nil {
		return err
	}
	if err := d.makeData(log); err != nil {
		return err
	}
	o := service.Options{
		Version: programVersion(), Loaded: found, Namespace: client.DefaultNamespace, Worker: true, Unproven: d.AcceptUnprovenAnswers,
		Grace: shutdownGrace, Logger: log,
	}
	var stop func()
	if o.Telemetry, stop, err = d.telemetryFlags.start(ctx, found, log); err != nil {
		return err
	}
	defer stop()
	temporal, err := d.startTemporal(ctx, log)
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	defer temporal.Stop()
	o.OnStop = func() {
		if temporal.HoldsData() {
			c.notef("stopping; runs continue when perdure dev is started again")
		}
	}
	keys, err := keptKeys(keyOf(d.Data))
	if err != nil {
		return err
	}
	o.Keys = keys.Proofs
	if err := d.connect(ctx, temporal, &o); err != nil {
		return err
	}
	defer o.Temporal.Close()
	o.Gateway = d.options(service.Reachable(listener.Addr()), keys)
	o.Gateway.Retention, o.Gateway.SignInByLink = devserver.DefaultRetention, true
	closeData, err := o.OpenData(d.Data, keys)
	defer closeData()
	if err != nil {
		return err
	}
	service.LetPublish(&found.Auth, listener.Addr().String(), o.Gateway)
	s, err := service.New(o)
	if err != nil {
		return err
	}
	dev := newDevFile(listener.Addr(), temporal, s)
	if err := dev.write(d.Data); err != nil {
		return err
	}
	defer func() {
		if temporal.HoldsData() { // else it may be that of another dev
			os.Remove(devFilePath(d.Data))
		}
	}()
	go s.Reload(ctx, src)
	return s.Serve(ctx, listener, s.Clients(), func() <-chan error {
		banner(c, dev, d.Data, found, s.Withheld(), keys, d.Stdio)
		ended := make(chan error, 2)
		go func() { ended <- temporal.AwaitDataLoss(ctx) }()
		if d.Stdio {
			go func() { ended <- serveStdio(ctx, c, s) }()
		}
		return ended
	})
}

// connect connects o to Temporal.
func (d devCommand) connect(ctx context.Context, temporal *devserver.Server, o *service.Options) (err error) {
	if o.Values, err = d.fileValues(d.Data); err != nil {
		return err
	}
	keys, err := d.payloadFlags.keys(ctx)
	if err != nil {
		return err
	}
	at := client.Options{
		HostPort: temporal.Address(), Logger: sdklog.NewStructuredLogger(service.Quiet(o.Logger)),
		// Both ends are this process: compressing would be work for nothing.
		ConnectionOptions: client.ConnectionOptions{GrpcCompression: &client.GrpcCompressionNone{}, TLS: temporal.TLS()},
	}
	err = o.Connect(at, keys, workerOptions(d.trustFlags, buildFlags{}, d.guardFlags), func(at client.Options) (client.Client, error) { return client.DialContext(ctx, at) })
	if err != nil {
		return fmt.Errorf("reaching Temporal: %w", err)
	}
	return nil
}

func newDevFile(mcp net.Addr, temporal *devserver.Server, s *service.Service) devFile {
	dev := devFile{
		PID: os.Getpid(), MCP: "http://" + service.Reachable(mcp) + service.Endpoint,
		Temporal: temporal.Address(), TemporalInternal: temporal.InternalAddresses(), Namespace: client.DefaultNamespace,
		SignInByLink: s.SignIn() == auth.LoginLink, ApprovalsClosed: s.SignIn() == auth.LoginClosed,
	}
	if temporal.UIAddress() != "" {
		dev.UI = "http://" + temporal.UIAddress()
	}
	return dev
}

// serveStdio serves a client on standard input until that ends.
func serveStdio(ctx context.Context, c *console, s *service.Service) error {
	if err := s.ServeStdio(ctx, c.in, c.exact); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// makeData creates the data directory, with a .gitignore: in a repository, git sees
// only the reviews that the backend repo writes there.
func (d devCommand) makeData(log *slog.Logger) error {
	if err := os.MkdirAll(d.Data, 0o700); err != nil {
		return fmt.Errorf("creating the data directory: %w; set another with --data", err)
	}
	for _, open := range restrictData(d.Data) {
		log.Warn("other users of this machine can read the data directory; restrict it to the user of dev", "path", open)
	}
	ignore := filepath.Join(d.Data, ".gitignore")
	if _, err := os.Stat(ignore); err == nil {
		return nil
	}
	return store.WriteFile(ignore, []byte("/*\n!/reviews/\n"), 0o644)
}

// listen listens at the MCP endpoint. A client that starts perdure over stdio needs
// no fixed port, so any free one serves. An address that is taken is mostly that of the
// dev that runs with the same data.
func (d devCommand) listen() (net.Listener, error) {
	listener, _, err := d.take(d.Listen, defaultListen, "--listen", d.Stdio)
	if err == nil {
		return listener, nil
	}
	if dev, _ := dataDir(d.Data).running(); dev != nil {
		err = withHolder(&store.DataInUseError{Dir: d.Data, PID: dev.PID})
	}
	return nil, err
}

func (d devCommand) startTemporal(ctx context.Context, log *slog.Logger) (*devserver.Server, error) {
	ui, err := d.address(d.UIListen, defaultUIListen, "--ui-listen", d.Stdio)
	if err != nil {
		return nil, err
	}
	if ui != "" && !d.AllowAnonymous && !web.OnLoopback(ui) {
		return nil, usagef("--ui-listen %s would show every run to everybody who reaches it; use a loopback address such as 127.0.0.1:8233, or --allow-anonymous if that is intended", ui)
	}
	frontend, err := d.address(d.TemporalListen, defaultTemporal, "--temporal-listen", true)
	if err != nil {
		return nil, err
	}
	stdlog.SetOutput(io.Discard) // the Web UI logs the source of its certificates there
	s, err := devserver.Start(ctx, devserver.Options{
		Dir:              d.Data,
		Listen:           frontend,
		UIListen:         ui,
		UIWrite:          d.UIWrite,
		UICodec:          string(d.UICodec),
		SearchAttributes: runs.SearchAttributes(),
		Durable:          d.Durable,
		Logger:           service.Quiet(log),
	})
	return s, withHolder(err)
}

// withHolder adds to the error of a data directory in use where its dev is, and what can
// be done.
func withHolder(err error) error {
	var used *store.DataInUseError
	if !errors.As(err, &used) {
		return err
	}
	at := ""
	if dev, _ := readDevFile(used.Dir); dev != nil && dev.PID == used.PID {
		at = ", perdure dev at " + dev.MCP
	}
	return fmt.Errorf("%w%s; use that one, stop it, or give this one a directory of its own with --data DIR", err, at)
}

// address chooses the address of another listener, as take does; "" = none, if the
// flag is empty.
func (d devCommand) address(given *string, standard, flag string, anyPort bool) (string, error) {
	if given != nil && *given == "" {
		return "", nil
	}
	listener, address, err := d.take(given, standard, flag, anyPort)
	if err != nil {
		return "", err
	}
	return address, listener.Close()
}

// take listens at the address of the flag, else at the standard address, else, if
// that is taken and anyPort, at a free port. address is what to write.
func (d devCommand) take(given *string, standard, flag string, anyPort bool) (listener net.Listener, address string, err error) {
	address = standard
	if given != nil {
		address = *given
	}
	listener, err = net.Listen("tcp", address)
	if err != nil && given == nil && anyPort {
		address = "127.0.0.1:0"
		listener, err = net.Listen("tcp", address)
	}
	if err != nil {
		return nil, "", taken(err, flag, address)
	}
	return listener, address, nil
}
