//go:build !nodev

package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/perdure/perdure/backends"
	"github.com/perdure/perdure/devserver"
	"github.com/perdure/perdure/workflows"
)

// shutdownGrace is how long requests under way get to end at a stop.
const shutdownGrace = 3 * time.Second

// devCommands are the commands that need the embedded Temporal.
type devCommands struct {
	Dev devCommand `cmd:"" help:"Serve everything from one process: Temporal with its Web UI, worker, gateway and backends."`
}

type devCommand struct {
	logFlags `embed:""`

	Config         string        `help:"Configuration file. Default: the backend repo and the composite tools that ship with perdure." placeholder:"FILE"`
	Definitions    []string      `help:"Directory of definitions, read again when they change. Repeatable." placeholder:"DIR" sep:"none"`
	Data           string        `help:"Directory for all that is kept. Default: .perdure." default:".perdure" placeholder:"DIR"`
	Listen         *string       `help:"Address of the MCP endpoint. Default: 127.0.0.1:4483." placeholder:"ADDR"`
	UIListen       *string       `help:"Address of the Web UI, empty for none. Default: 127.0.0.1:8233." placeholder:"ADDR"`
	TemporalListen *string       `help:"Address of the Temporal frontend. Default: 127.0.0.1:7233, or a free port if that is taken." placeholder:"ADDR"`
	Stdio          bool          `help:"Serve MCP on standard input and output, too, for a client that starts perdure."`
	Root           string        `help:"Repository that the built-in backend reads. Default: where you are." default:"." placeholder:"DIR" type:"existingdir"`
	CallPatience   time.Duration `help:"How long a call blocks for a client that cannot be asked questions; 0 = for ever." default:"50s"`
	Durable        bool          `help:"Flush each commit to the disk: survives a power cut as well, and takes a little longer."`
}

func (devCommand) Help() string {
	return `Runs are kept in --data and go on when dev is started there again, however it
ended. Ctrl-C stops in order; a second one at once. Examples:

    perdure dev
    perdure dev --config perdure.yaml --definitions definitions --ui-listen ''`
}

func (d devCommand) Run(ctx context.Context, c *console) error {
	src := d.sources()
	found, diags := load(src)
	if diags.HasErrors() {
		printDiagnostics(c, diags)
		return errReported
	}
	log := d.logger(c.err, found.LogLevel)
	for _, warning := range diags {
		log.Warn(warning.Message, "at", warning.Pos.String())
	}
	if d.Config == "" {
		if err := d.builtIn(found); err != nil {
			return err
		}
	}
	return d.serve(ctx, c, src, found, log)
}

func (d devCommand) sources() sources {
	return sources{Config: d.Config, Definitions: d.Definitions, Library: d.Config == ""}
}

// builtIn is what is served without a configuration: this very program as the
// backend repo, all of whose tools but one only read.
func (d devCommand) builtIn(found *loaded) error {
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
func (d devCommand) serve(ctx context.Context, c *console, src sources, found *loaded, log *slog.Logger) error {
	listener, err := d.listen()
	if err != nil {
		return err
	}
	defer listener.Close()
	if err := d.makeData(); err != nil {
		return err
	}
	temporal, err := d.startTemporal(ctx, log)
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	defer temporal.Stop()
	key, err := signingKey(filepath.Join(d.Data, "key"))
	if err != nil {
		return err
	}
	tc, err := client.DialContext(ctx, client.Options{
		HostPort: temporal.Address(), Logger: sdklog.NewStructuredLogger(quiet(log)),
		// Both ends are this process: compressing would be work for nothing.
		ConnectionOptions: client.ConnectionOptions{GrpcCompression: &client.GrpcCompressionNone{}},
	})
	if err != nil {
		return fmt.Errorf("reaching Temporal: %w", err)
	}
	defer tc.Close()
	s, err := startService(ctx, serviceOptions{Loaded: found, Temporal: tc, Key: key, Patience: callPatience(d.CallPatience), Logger: log})
	if err != nil {
		return err
	}
	defer s.stop()
	dev := devFile{
		PID: os.Getpid(), MCP: "http://" + reachable(listener.Addr()) + endpoint,
		Temporal: temporal.Address(), Namespace: client.DefaultNamespace,
	}
	if temporal.UIAddress() != "" {
		dev.UI = "http://" + temporal.UIAddress()
	}
	if err := dev.write(d.Data); err != nil {
		return err
	}
	defer os.Remove(devFilePath(d.Data))
	go s.reload(ctx, src, log)
	return d.serveClients(ctx, c, s, listener, func() { banner(c, dev, found, d.Stdio) })
}

// makeData makes the data directory. Where that lies in a repository, git does
// not see it, except for the reviews that the backend repo may write there.
func (d devCommand) makeData() error {
	if err := os.MkdirAll(d.Data, 0o700); err != nil {
		return fmt.Errorf("making the data directory: %w", err)
	}
	ignore := filepath.Join(d.Data, ".gitignore")
	if _, err := os.Stat(ignore); err == nil {
		return nil
	}
	return writeFile(ignore, []byte("/*\n!/reviews/\n"), 0o644)
}

// serveClients serves MCP until ctx ends or, on standard input, the client
// goes away.
func (d devCommand) serveClients(ctx context.Context, c *console, s *service, listener net.Listener, ready func()) error {
	// Requests outlive ctx: they get time to end. There is no WriteTimeout,
	// since a call may take days.
	web := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 2)
	go func() { ended <- web.Serve(listener) }()
	if d.Stdio {
		go func() { ended <- s.gateway.ServeStdio(ctx, c.in, c.out) }()
	}
	ready()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		c.notef("stopping; runs go on when perdure dev is started again")
	}
	s.gateway.Drain()
	grace, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	if web.Shutdown(grace) != nil {
		_ = web.Close()
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("serving MCP: %w", err)
	}
	return nil
}

// listen takes the port of the MCP endpoint. A client that starts perdure over
// stdio does not care for it, so any free one does then.
func (d devCommand) listen() (net.Listener, error) {
	address := defaultListen
	if d.Listen != nil {
		address = *d.Listen
	}
	listener, err := net.Listen("tcp", address)
	if err != nil && d.Stdio && d.Listen == nil {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return nil, taken(err, "--listen", address)
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

func (d devCommand) startTemporal(ctx context.Context, log *slog.Logger) (*devserver.Server, error) {
	ui, err := d.address(d.UIListen, defaultUIListen, "--ui-listen", d.Stdio)
	if err != nil {
		return nil, err
	}
	frontend, err := d.address(d.TemporalListen, defaultTemporal, "--temporal-listen", true)
	if err != nil {
		return nil, err
	}
	attributes := map[string]string{}
	for _, name := range []string{workflows.AttrTool, workflows.AttrVersion, workflows.AttrStatus, workflows.AttrCaller, workflows.AttrWaiting} {
		attributes[name] = "keyword"
	}
	return devserver.Start(ctx, devserver.Options{
		Dir:              d.Data,
		Listen:           frontend,
		UIListen:         ui,
		SearchAttributes: attributes,
		Durable:          d.Durable,
		Logger:           quiet(log),
	})
}

// address decides where to listen: where the flag says, else at the standard
// address, else, if that is taken and it does not matter, at any free port.
func (d devCommand) address(given *string, standard, flag string, anyPort bool) (string, error) {
	address := standard
	if given != nil {
		address = *given
	}
	if address == "" {
		return "", nil
	}
	listener, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return address, listener.Close()
	case given == nil && anyPort:
		return "127.0.0.1:0", nil
	default:
		return "", taken(err, flag, address)
	}
}

// signingKey reads the key that signs what clients carry, or makes it.
func signingKey(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		return key, writeFile(file, []byte(hex.EncodeToString(key)+"\n"), 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the signing key: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) < 32 {
		return nil, fmt.Errorf("the signing key %s is damaged; remove it, and open sessions of clients end", file)
	}
	return key, nil
}

// reachable is an address by which this machine reaches a listener.
func reachable(address net.Addr) string {
	tcp, ok := address.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", fmt.Sprint(tcp.Port))
	}
	return address.String()
}

// banner tells a person where everything is and what to try.
func banner(c *console, dev devFile, found *loaded, stdio bool) {
	out, mark := c.out, c.outStyle
	if stdio {
		out, mark = c.err, c.errStyle
	}
	fmt.Fprintf(out, `%s is ready: %s of %s

  MCP endpoint  %s
  Web UI        %s
  try           perdure %s

  for an MCP client:
  {"mcpServers": {"perdure": {"type": "http", "url": %q}}}

`, mark(bold, "perdure"), plural(len(found.Definitions), "composite tool"), plural(len(found.Backends), "backend"),
		mark(green, dev.MCP), cmp.Or(dev.UI, "off"), toTry(found), dev.MCP)
}

// toTry is a command that shows something: a call of the first composite tool,
// or of the one that the library is for.
func toTry(found *loaded) string {
	if len(found.Definitions) == 0 {
		return "tools"
	}
	first := found.Definitions[0]
	for _, d := range found.Definitions {
		if d.Name == "prepare_review" {
			first = d
		}
	}
	command := "call " + first.Name
	required, _ := first.Parameters["required"].([]any)
	for _, name := range required {
		command += fmt.Sprintf(" %v=…", name)
	}
	return command
}

// callPatience is the flag's value as the gateway wants it, whose 0 means default.
func callPatience(flag time.Duration) time.Duration {
	if flag == 0 {
		return -1
	}
	return flag
}
