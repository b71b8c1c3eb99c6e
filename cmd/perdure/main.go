// Command perdure serves durable composite tools over MCP, and is a client of such
// servers.
//
// Each command has a file, which parses flags, calls and prints; its help describes
// it. See `perdure --help`.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/internal/secrets"
)

// A commandLine is the commands and flags of perdure.
type commandLine struct {
	devCommands

	Init        initCommand        `cmd:"" group:"Begin" help:"Write a first configuration, composite tool and test from the MCP servers that you have."`
	Backend     backendCommand     `cmd:"" group:"Begin" help:"Add an MCP server to the configuration, or run a built-in one."`
	Call        callCommand        `cmd:"" group:"Begin" help:"Call a tool, watch its steps and answer its elicitations."`
	Tools       toolsCommand       `cmd:"" group:"Begin" help:"List and show the tools that a server offers."`
	Validate    validateCommand    `cmd:"" group:"Write" help:"Check configurations and definitions, as dev would when it loads them."`
	Test        testCommand        `cmd:"" group:"Write" help:"Run tests of definitions, with answers of tools and people from a file and simulated time."`
	Explain     explainCommand     `cmd:"" group:"Write" help:"Explain a check of validate, or evaluate the templates of a step."`
	Graph       graphCommand       `cmd:"" group:"Write" help:"Draw the steps of a definition and their dependencies."`
	Convert     convertCommand     `cmd:"" group:"Write" help:"Convert the steps of a definition to a script."`
	Schema      schemaCommand      `cmd:"" group:"Write" help:"Print the JSON Schema of definitions or configurations, for editors."`
	Script      scriptCommand      `cmd:"" aliases:"scripts" group:"Write" help:"Run scripts that call tools, and turn them into definitions."`
	Runs        runsCommand        `cmd:"" group:"Runs" help:"List, show, answer, cancel and resume runs."`
	Publish     publishCommand     `cmd:"" group:"Publish" help:"Publish versions of composite tools to a server."`
	Definitions definitionsCommand `cmd:"" group:"Publish" help:"List, show and compare composite tools and their published versions."`
	Serve       serveCommand       `cmd:"" group:"Operate" help:"Serve clients and execute runs, with an external Temporal."`
	Gateway     gatewayCommand     `cmd:"" group:"Operate" help:"Serve clients only; workers execute the runs."`
	Worker      workerCommand      `cmd:"" group:"Operate" help:"Execute runs only; gateways serve the clients."`
	Doctor      doctorCommand      `cmd:"" group:"Operate" help:"Check every part of an installation, and show how to fix what fails."`
	Ready       readyCommand       `cmd:"" group:"Operate" help:"Check whether a process is ready, for health checks and scripts."`
	Migrate     migrateCommand     `cmd:"" group:"Operate" help:"Bring the tables of the database up to date."`
	Rollout     rolloutCommand     `cmd:"" group:"Operate" help:"Roll out builds of workers while runs are under way."`
	Codec       codecCommand       `cmd:"" group:"Operate" help:"Open sealed values for Temporal's Web UI, for people who may see them."`
	Completion  completionCommand  `cmd:"" group:"This program" help:"Print a script that completes commands in a shell."`
	Complete    completeCommand    `cmd:"" hidden:""`
	Man         manCommand         `cmd:"" group:"This program" help:"Write manual pages."`
	Help        helpCommand        `cmd:"" group:"This program" help:"Show help for a command."`
	Version     versionCommand     `cmd:"" group:"This program" help:"Print the version."`
}

const description = `Durable composite tools for MCP: each call is a workflow that survives restarts.

` + beginning

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends at once
	adaptMemory()
	worker.SetBinaryChecksum(programVersion()) // else workers read and hash the whole program when they start
	c := systemConsole()
	if err := conceal(); err != nil {
		c.notef("perdure: %v", err)
	}
	os.Exit(run(ctx, os.Args[1:], c))
}

// run executes the command line and returns the exit status: 0, 1 for an error, 2
// for a usage error.
func run(ctx context.Context, args []string, c *console) int {
	var cli commandLine
	parser, err := newParser(ctx, &cli, c)
	if err != nil {
		return fail(c, err)
	}
	command, err := parser.Parse(asHelp(args))
	takeSecrets() // after kong, which reads variables of flags
	if err != nil {
		return fail(c, wrongUsage(err))
	}
	err = command.Run()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	return fail(c, err)
}

func newParser(ctx context.Context, cli *commandLine, c *console) (*kong.Kong, error) {
	return kong.New(cli,
		kong.Name("perdure"),
		kong.Description(description),
		kong.Writers(c.out, c.err),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Help(c.printHelp),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(readDuration)),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(c),
	)
}

// readDuration reads the value of a flag.
func readDuration(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 30s, 10m or 24h", text)
	}
	target.SetInt(int64(d))
	return nil
}

// secretVars are the variables with secrets. Those that a configuration names are
// removed from the environment when they are read.
var secretVars = []string{
	keyVar, payloadKeysVar, "PERDURE_TOKEN", "PERDURE_DATABASE_URL",
	"TEMPORAL_API_KEY", "TEMPORAL_TLS_CLIENT_KEY_DATA", "TEMPORAL_CODEC_AUTH",
}

// takeSecrets removes secrets from the environment, before any process is started.
func takeSecrets() {
	secrets.Take(secretVars...)
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "TEMPORAL_GRPC_META_") {
			secrets.Take(name)
		}
	}
}

// lacksArgument matches kong's error for missing arguments; it captures the first.
var lacksArgument = regexp.MustCompile(`^expected "<([^>]+)>`)

// missingArgument describes the argument that a command lacks; "" if message is another
// error.
func missingArgument(message string, command *kong.Node) string {
	m := lacksArgument.FindStringSubmatch(message)
	if m == nil {
		return ""
	}
	i := slices.IndexFunc(command.Positional, func(v *kong.Positional) bool { return v.Name == m[1] })
	if i < 0 {
		return ""
	}
	return fmt.Sprintf("missing argument <%s>: %s", m[1], strings.TrimSuffix(command.Positional[i].Help, "."))
}

// fail prints an error and returns its exit status.
func fail(c *console, err error) int {
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errReported):
		return 1
	case errors.As(err, &usage):
		c.notef("perdure: %s", plainJSON(err))
		return 2
	default:
		c.notef("perdure: %s", plainJSON(err))
		return 1
	}
}

// plainJSON is an error without the types of Go in which JSON was to be read.
func plainJSON(err error) string {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err.Error()
	}
	kinds := map[reflect.Kind]string{
		reflect.Map: "an object", reflect.Struct: "an object", reflect.Slice: "an array", reflect.Array: "an array", reflect.String: "text", reflect.Bool: "true or false",
	}
	what := cmp.Or(wrong.Field, "it")
	wanted := cmp.Or(kinds[wrong.Type.Kind()], "a number")
	return strings.Replace(err.Error(), wrong.Error(), fmt.Sprintf("%s must be %s, not %s", what, wanted, wrong.Value), 1)
}

// errReported ends a command whose error was printed already.
var errReported = errors.New("reported")

// A usageError is a mistake in the command line.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}
