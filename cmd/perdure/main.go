// Command perdure serves composite tools over MCP whose calls survive
// restarts, and speaks to a server that does.
//
// It is wiring only: each command has a file, and says in its help what it
// does. See `perdure --help`.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/perdure/perdure/internal/environ"
)

// A commandLine is all that can be typed after perdure.
type commandLine struct {
	devCommands

	Serve       serveCommand       `cmd:"" help:"Serve clients and execute runs, with a Temporal elsewhere."`
	Gateway     gatewayCommand     `cmd:"" help:"Serve clients only; workers execute the runs."`
	Worker      workerCommand      `cmd:"" help:"Execute runs only; gateways serve the clients."`
	Validate    validateCommand    `cmd:"" help:"Check configurations and definitions, with the same code that dev loads them with."`
	Test        testCommand        `cmd:"" help:"Run tests of definitions: what tools and people answer is written down, time costs nothing."`
	Explain     explainCommand     `cmd:"" help:"Evaluate the templates of a step with given data."`
	Graph       graphCommand       `cmd:"" help:"Draw the steps of a definition, and what they wait for."`
	Convert     convertCommand     `cmd:"" help:"Print the script that does what the steps of a definition do."`
	Schema      schemaCommand      `cmd:"" help:"Print the JSON Schema of definitions, for editors."`
	Call        callCommand        `cmd:"" help:"Call a tool, watch its steps and answer its elicitations."`
	Tools       toolsCommand       `cmd:"" help:"List the tools that a server offers."`
	Publish     publishCommand     `cmd:"" help:"Publish versions of composite tools, for all who may call them."`
	Definitions definitionsCommand `cmd:"" help:"List, show and compare composite tools and their published versions."`
	Codec       codecCommand       `cmd:"" help:"Open sealed values for Temporal's Web UI, for people who may see them."`
	Script      scriptCommand      `cmd:"" aliases:"scripts" help:"Run scripts that call tools, and make definitions of them."`
	Runs        runsCommand        `cmd:"" help:"List, show, answer and cancel runs."`
	Migrate     migrateCommand     `cmd:"" help:"Bring the tables of the database up to date."`
	Rollout     rolloutCommand     `cmd:"" help:"Roll out builds of the workers, with runs under way."`
	Ready       readyCommand       `cmd:"" help:"Check whether a process takes calls, for health checks and scripts."`
	Doctor      doctorCommand      `cmd:"" help:"Check every part of an installation, and say how to fix what fails."`
	Backend     backendCommand     `cmd:"" help:"MCP servers that need nothing else."`
	Version     versionCommand     `cmd:"" help:"Print the version."`
}

const description = `Composite MCP tools that survive: each call is a durable workflow.

` + beginning

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends at once
	environ.AdaptMemory()
	c := systemConsole()
	if err := environ.Conceal(); err != nil {
		c.notef("perdure: %v", err)
	}
	os.Exit(run(ctx, os.Args[1:], c))
}

// run does what the arguments say and gives the exit status: 0, 1 for an
// error, 2 for arguments that make no sense.
func run(ctx context.Context, args []string, c *console) int {
	var cli commandLine
	parser, err := kong.New(&cli,
		kong.Name("perdure"),
		kong.Description(description),
		kong.Writers(c.out, c.err),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(c),
	)
	if err != nil {
		return fail(c, err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	takeSecrets() // kong has read its own
	if err != nil {
		var parse *kong.ParseError
		hint, told := "perdure --help", err.Error()
		if errors.As(err, &parse) && parse.Context.Selected() != nil {
			hint = parse.Context.Selected().FullPath() + " --help"
			told = cmp.Or(missingArgument(told, parse.Context.Selected()), told)
		}
		return fail(c, usagef("%s; see %s", told, hint))
	}
	err = command.Run()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	return fail(c, err)
}

// secretVars are the variables with secrets whose names are known. Those that a
// configuration names are taken out of the environment where they are read.
var secretVars = []string{
	keyVar, payloadKeysVar, "PERDURE_TOKEN", "PERDURE_DATABASE_URL",
	"TEMPORAL_API_KEY", "TEMPORAL_TLS_CLIENT_KEY_DATA", "TEMPORAL_CODEC_AUTH",
}

// takeSecrets takes them out of the environment, before anything is started.
func takeSecrets() {
	environ.Take(secretVars...)
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "TEMPORAL_GRPC_META_") {
			environ.Take(name)
		}
	}
}

// lacksArgument is what kong says of arguments that a command needs, of which the
// first is taken.
var lacksArgument = regexp.MustCompile(`^expected "<([^>]+)>`)

// missingArgument says of a command what argument it needs; "" if the error that is
// told is another one.
func missingArgument(told string, command *kong.Node) string {
	m := lacksArgument.FindStringSubmatch(told)
	if m == nil {
		return ""
	}
	i := slices.IndexFunc(command.Positional, func(v *kong.Positional) bool { return v.Name == m[1] })
	if i < 0 {
		return ""
	}
	return fmt.Sprintf("the argument <%s> is missing: %s", m[1], strings.TrimSuffix(command.Positional[i].Help, "."))
}

// fail prints an error and gives the exit status for it.
func fail(c *console, err error) int {
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errReported):
		return 1
	case errors.As(err, &usage):
		fmt.Fprintln(c.err, "perdure:", err)
		return 2
	default:
		fmt.Fprintln(c.err, "perdure:", err)
		return 1
	}
}

// errReported ends a command whose error stands on the terminal already.
var errReported = errors.New("reported")

// A usageError is one of arguments that make no sense.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}
