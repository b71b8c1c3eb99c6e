package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/scaffold"
	"github.com/perdure/perdure/internal/secrets"
	"github.com/perdure/perdure/workflows/deftest"
)

type initCommand struct {
	takeOverFlags `embed:""`

	Files   []string `arg:"" optional:"" name:"file" help:"Files that list MCP servers. Default: those of MCP clients, in this directory and for the user, and configurations of ToolHive's vMCP."`
	Example string   `help:"Write an example that needs no servers instead: prepare_review, summarise_changes or check_repository." placeholder:"NAME"`
}

// takeOverFlags say how servers are taken over.
type takeOverFlags struct {
	Yes    bool          `short:"y" help:"Start the servers, accept the proposed effect classes, and write, without asking."`
	Effect []string      `help:"Effect class for a tool instead of the proposed one: TOOL=CLASS. Repeatable." placeholder:"TOOL=CLASS" sep:"none"`
	Wait   time.Duration `help:"How long to wait for servers to list their tools. Default: 1m." default:"1m" placeholder:"DURATION"`
	Output string        `short:"o" help:"Output format: text or json." enum:"text,json" default:"text"`
}

func (initCommand) Help() string {
	return `Reads which MCP servers there are, starts them, lists their tools, and proposes for each
an effect class: what may happen if a call is repeated. You see all of it before
anything is started, and again before anything is written. Writes perdure.yaml, a first
composite tool in tools/ with its test, and schemas for editors. Secrets of the files
become variables of the environment. Never overwrites a file. Examples:

    perdure init
    perdure init .mcp.json --yes --effect files_move_file=unsafe
    perdure init --example prepare_review`
}

// definitionFile and testFile are where the first composite tool is written.
var (
	definitionFile = filepath.Join(scaffold.ToolsDir, scaffold.CompositeName+".yaml")
	testFile       = filepath.Join(scaffold.ToolsDir, scaffold.CompositeName+"_test.yaml")
)

func (i initCommand) Run(ctx context.Context, c *console) error {
	if i.Example != "" {
		return i.example(c)
	}
	if err := absent(scaffold.ConfigFile, definitionFile, testFile); err != nil {
		return err
	}
	set, err := i.read(c)
	if err != nil {
		return err
	}
	return newTakeOver(i.takeOverFlags, c, set).begin(ctx, scaffold.ConfigFile)
}

// begin writes a first configuration of the servers, and a first composite tool unless
// there is one.
func (t *takeOver) begin(ctx context.Context, file string) error {
	name, err := workingName()
	if err != nil {
		return err
	}
	if err := t.propose(ctx, t.set.Configuration(name, nil, nil)); err != nil {
		return err
	}
	var composite *scaffold.Composite
	if absent(definitionFile, testFile) == nil {
		composite = scaffold.Compose(t.tools, t.report.Effects)
	}
	if err := t.write(texts(file, t.set.Configuration(name, t.report.Effects, t.connectErrors()), composite)); err != nil {
		return err
	}
	if err := t.check(config.Sources{Config: file, Definitions: definitionsOf(composite)}, composite); err != nil {
		return err
	}
	return t.conclude(file, composite)
}

func definitionsOf(composite *scaffold.Composite) []string {
	if composite == nil {
		return nil
	}
	return []string{scaffold.ToolsDir}
}

// read reads the files that list servers.
func (i initCommand) read(c *console) (*scaffold.Set, error) {
	files := i.Files
	if len(files) == 0 {
		files = config.ServerFiles(".")
	}
	if len(files) == 0 {
		return nil, errors.New("no file lists MCP servers here (.mcp.json, .vscode/mcp.json, .cursor/mcp.json, .zed/settings.json, .gemini/settings.json, .codex/config.toml, opencode.json and others, a vMCP configuration); name one, start with perdure backend add NAME -- COMMAND, or with perdure init --example prepare_review")
	}
	set, diags := scaffold.Read(files)
	printDiagnostics(c, diags)
	if diags.HasErrors() {
		return nil, errReported
	}
	if len(set.Servers) == 0 {
		return nil, fmt.Errorf("no servers to take over%s", strings.Join(append([]string{""}, set.Notes...), "; "))
	}
	return set, nil
}

// texts are a first configuration, in a file, and the files beside it.
func texts(file, configuration string, composite *scaffold.Composite) []textFile {
	files := append([]textFile{{file, configuration}}, schemaFiles()...)
	if composite != nil {
		files = append(files, textFile{definitionFile, composite.Definition}, textFile{testFile, composite.Test})
	}
	return files
}

// A textFile is a file to write.
type textFile struct{ name, text string }

func schemaFiles() []textFile {
	return []textFile{
		{scaffold.ConfigSchema, string(config.Schema()) + "\n"},
		{scaffold.DefinitionSchema, string(definitions.Schema()) + "\n"},
	}
}

// absent refuses to go on if one of the files is there.
func absent(names ...string) error {
	for _, name := range names {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			hint := "rename it"
			if name == scaffold.ConfigFile {
				hint = "add servers to it with perdure backend add NAME -- COMMAND, or rename it"
			}
			return fmt.Errorf("%s is already there, and nothing is overwritten; %s", name, hint)
		}
	}
	return nil
}

// create writes files that are not there, and gives the names of those it wrote. A
// schema that is there is left. A link to a place outside of the directory is not followed.
func create(files []textFile) (written []string, err error) {
	here, err := os.OpenRoot(".")
	if err != nil {
		return nil, err
	}
	defer here.Close()
	for _, f := range files {
		if err := here.MkdirAll(filepath.Dir(f.name), 0o755); err != nil {
			return written, fmt.Errorf("writing %s: %w", f.name, err)
		}
		to, err := here.OpenFile(f.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) && slices.Contains([]string{scaffold.ConfigSchema, scaffold.DefinitionSchema}, f.name) {
			continue
		}
		if err != nil {
			return written, fmt.Errorf("writing %s: %w", f.name, err)
		}
		_, err = to.WriteString(f.text)
		if err = errors.Join(err, to.Close()); err != nil {
			return written, fmt.Errorf("writing %s: %w", f.name, err)
		}
		written = append(written, f.name)
	}
	return written, nil
}

// workingName is the name of the working directory.
func workingName() (string, error) {
	dir, err := os.Getwd()
	return filepath.Base(dir), err
}

// example writes a composite tool that ships with perdure, with its test and the
// backend that it calls.
func (i initCommand) example(c *console) error {
	names := libraryNames()
	if !slices.Contains(names, i.Example) {
		return usagef("unknown example %q; examples: %s", i.Example, strings.Join(names, ", "))
	}
	text, err := fs.ReadFile(definitions.Library(), i.Example+".yaml")
	if err != nil {
		return err
	}
	file, test := filepath.Join(scaffold.ToolsDir, i.Example+".yaml"), filepath.Join(scaffold.ToolsDir, i.Example+"_test.yaml")
	if err := absent(scaffold.ConfigFile, file, test); err != nil {
		return err
	}
	written, err := create(slices.Concat([]textFile{{scaffold.ConfigFile, scaffold.Example()}}, schemaFiles(), []textFile{
		{file, string(text)},
		{test, strings.Replace(definitions.LibraryTest(i.Example), "library: "+i.Example, "definition: ./"+i.Example+".yaml", 1)},
	}))
	if err != nil {
		return err
	}
	if i.Output == "json" {
		return c.printJSON(takeOverReport{Written: written, Next: nextCommands(scaffold.ConfigFile, "call "+i.Example)})
	}
	fmt.Fprintf(c.out, "wrote %s\n\nnext:\n", strings.Join(written, ", "))
	printNext(c, nextCommands(scaffold.ConfigFile, "call "+i.Example))
	return nil
}

func libraryNames() (names []string) {
	entries, _ := fs.ReadDir(definitions.Library(), ".") // it is embedded
	for _, e := range entries {
		if !definitions.IsTestFile(e.Name()) {
			names = append(names, strings.TrimSuffix(e.Name(), filepath.Ext(e.Name())))
		}
	}
	return names
}

// nextCommands are what to run after the files are written.
func nextCommands(configFile, call string) []string {
	of := "--config " + configFile
	if _, err := os.Stat(scaffold.ToolsDir); err != nil {
		return []string{"perdure dev " + of, "perdure " + call + "    # in a second terminal"}
	}
	of += " --definitions " + scaffold.ToolsDir
	return []string{"perdure dev " + of, "perdure " + call + "    # in a second terminal", "perdure test " + scaffold.ToolsDir, "perdure validate " + of}
}

func printNext(c *console, commands []string) {
	for _, command := range commands {
		fmt.Fprintln(c.out, "  "+command)
	}
}

// check loads what was written as dev would, and runs the test.
func (t *takeOver) check(src config.Sources, composite *scaffold.Composite) error {
	src.Env = t.set.Env(secrets.Lookup)
	found, diags := config.Load(src)
	if !diags.HasErrors() {
		diags = append(diags, definitions.Check(found.Definitions, definitions.CheckOptions{Tools: knownTools(t.tools, t.report.Effects), MaxDepth: found.MaxDepth})...)
	}
	printDiagnostics(t.console, diags)
	if diags.HasErrors() {
		return errReported
	}
	if composite == nil {
		return nil
	}
	file, diags := deftest.Read(testFile, deftest.Sources{})
	printDiagnostics(t.console, diags)
	if diags.HasErrors() {
		return errReported
	}
	for _, one := range file.Cases {
		if res := one.Run(); !res.Passed() {
			(&deftest.Reporter{W: t.console.err, Mark: t.console.testMark}).Report(res)
			return errReported
		}
	}
	return nil
}

// knownTools finds the tools that were listed, by name.
func knownTools(tools []backends.Tool, effects []scaffold.Proposal) definitions.Tools {
	byName := map[string]definitions.Tool{}
	for _, t := range tools {
		known := definitions.Tool{Name: t.Name, Backend: t.Backend, Original: t.Original, InputSchema: t.InputSchema, OutputSchema: t.OutputSchema}
		for _, p := range effects {
			if p.Backend == t.Backend && p.Tool == t.Original {
				known.Effect, known.KeyArgument = p.Class, p.KeyArgument
			}
		}
		byName[t.Name] = known
	}
	return definitions.ToolsByName(byName)
}

// connectErrors are those of the servers that did not list their tools, by name.
func (t *takeOver) connectErrors() map[string]string {
	errs := map[string]string{}
	for _, s := range t.report.Servers {
		if !s.Connected {
			errs[s.Name] = s.Error
		}
	}
	return errs
}
