package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/workflows/deftest"
)

// scriptTool is the tool of a perdure server that runs a script.
const scriptTool = "execute_tool_script"

type scriptCommand struct {
	Run     scriptRunCommand     `cmd:"" help:"Run a script on a server that lets its callers send scripts."`
	Promote scriptPromoteCommand `cmd:"" help:"Make a definition, and a test of it, of a script that ran well."`
}

type scriptRunCommand struct {
	URL     string  `help:"MCP endpoint of the server. Default: the running dev of --data-dir, else http://127.0.0.1:4483/mcp." env:"PERDURE_URL" placeholder:"URL"`
	DataDir dataDir `help:"Data directory of the dev to speak to, and to no other server; other commands call it --data." placeholder:"DIR"`

	tokenFlags `embed:""`

	File   string `arg:"" help:"The script, or - for standard input."`
	Data   string `help:"What the script reads as data: a JSON object, @FILE, or - for standard input." placeholder:"JSON"`
	JSON   bool   `help:"Print the whole result as it came, and no steps."`
	DryRun bool   `help:"Call nothing, and print which calls can be seen in the script."`
	Answer string `help:"Answer every elicitation with this action: accept, decline or cancel." enum:",accept,decline,cancel" default:""`
}

func (scriptRunCommand) Help() string {
	return `The server needs scripts: {agents: true} in its configuration, and a rule that
lets you call execute_tool_script, if it has rules. The script calls tools by
your right. Steps are printed on standard error, the result on standard output.
docs/scripts.md has the language. Examples:

    perdure script run stale.star --data '{"days": 30}'
    echo 'return repo_git_status()' | perdure script run -`
}

func (k scriptRunCommand) Run(ctx context.Context, c *console) error {
	if k.File == "-" && k.Data == "-" {
		return usagef("only one of the script and --data can be read from standard input")
	}
	source, err := readScript(k.File, c.in)
	if err != nil {
		return err
	}
	data, err := readArguments(k.Data, c.in)
	if err != nil {
		return err
	}
	sent := map[string]any{"script": source}
	if data != nil {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(data, &object); err != nil {
			return usagef("--data is not a JSON object: %v", err)
		}
		sent["data"] = data
	}
	arguments, err := json.Marshal(sent)
	if err != nil {
		return fmt.Errorf("reading --data: %w", err)
	}
	return callCommand{
		serverFlags: serverFlags{URL: k.URL, Data: k.DataDir, tokenFlags: k.tokenFlags}, Name: scriptTool, Args: string(arguments), JSON: k.JSON, DryRun: k.DryRun, Answer: k.Answer, Output: "text",
	}.Run(ctx, c)
}

func readScript(file string, in io.Reader) (string, error) {
	if file == "-" {
		text, err := io.ReadAll(in)
		return string(text), err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading the script: %w", err)
	}
	return string(text), nil
}

type scriptPromoteCommand struct {
	temporalFlags `embed:""`

	RunID       string `arg:"" name:"run" help:"Run of execute_tool_script, or how its ID begins."`
	Name        string `required:"" help:"Name of the composite tool."`
	Description string `help:"What the tool does. Default: where it comes from." placeholder:"TEXT"`
	Dir         string `help:"Where NAME.yaml and NAME_test.yaml are written." default:"." type:"existingdir"`
	Force       bool   `help:"Overwrite existing files."`
}

func (scriptPromoteCommand) Help() string {
	return `The parameters are inferred from the run's data, the output block from its
result, and the test repeats the run: the same answers of tools and people, the
same result. Read both before they are used. Example:

    perdure script promote execute_tool_script/k3v9a2m4qx --name stale_issues`
}

func (k scriptPromoteCommand) Run(ctx context.Context, c *console) error {
	rc, done, err := k.runsClient(ctx)
	if err != nil {
		return err
	}
	defer done()
	id, err := findRun(ctx, rc, k.RunID, runs.Filter{})
	if err != nil {
		return err
	}
	recording, err := readRecording(ctx, rc, id)
	if err != nil {
		return err
	}
	promoted, err := recording.Promote(k.Name, k.Description)
	if err != nil {
		return err
	}
	if err := k.write(c, promoted); err != nil {
		return err
	}
	if promoted.Test == nil {
		c.notef("the run has called other composite tools (%s), whose calls are not in its recording: no test is written", strings.Join(recording.Composites, ", "))
	}
	return nil
}

// write writes the definition and its test, once the test has passed.
func (k scriptPromoteCommand) write(c *console, p *deftest.Promoted) error {
	definition, test := filepath.Join(k.Dir, k.Name+".yaml"), filepath.Join(k.Dir, k.Name+"_test.yaml")
	if err := p.Check(definition, test); err != nil {
		return fmt.Errorf("the definition does not do what the run did, so nothing is written: %w", err)
	}
	type file struct {
		name string
		text []byte
	}
	files := []file{{definition, p.Definition}}
	if p.Test != nil {
		files = append(files, file{test, p.Test})
	}
	for _, f := range files {
		if _, err := os.Stat(f.name); err == nil && !k.Force {
			return fmt.Errorf("%s is there already; --force writes over it", f.name)
		} else if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	for _, f := range files {
		if err := os.WriteFile(f.name, f.text, 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", f.name, err)
		}
		fmt.Fprintln(c.out, f.name)
	}
	if len(p.Nulls) > 0 {
		c.notef("null in the run, and so neither in the output block nor in the test: %s", strings.Join(p.Nulls, ", "))
	}
	return nil
}
