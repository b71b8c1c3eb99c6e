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
	Run     scriptRunCommand     `cmd:"" help:"Run a script on a server."`
	Promote scriptPromoteCommand `cmd:"" help:"Turn a completed run of a script into a definition with a test."`
}

type scriptRunCommand struct {
	URL     string  `help:"MCP endpoint of the server. Default: the running dev of --data-dir, else http://127.0.0.1:4483/mcp." env:"PERDURE_URL" placeholder:"URL"`
	DataDir dataDir `help:"Data directory of the dev to call (--data in other commands)." placeholder:"DIR"`

	tokenFlags `embed:""`

	File   string `arg:"" help:"The script, or - for standard input."`
	Data   string `help:"Value of data in the script: a JSON object, @FILE, or - for standard input." placeholder:"JSON"`
	JSON   bool   `help:"Print the whole result as received, and no steps."`
	DryRun bool   `help:"Call nothing, and print the calls found in the script."`
	Answer string `help:"Answer every elicitation with this action: accept, decline or cancel." enum:",accept,decline,cancel" default:""`
}

func (scriptRunCommand) Help() string {
	return `The server needs scripts: {agents: true} in its configuration and, if it has
permission rules, one that allows you execute_tool_script. The script may call the
tools that you may call. Steps are printed on standard error, the result on standard
output. docs/scripts.md describes the language. Examples:

    perdure script run stale.star --data '{"days": 30}'
    echo 'return repo_git_status()' | perdure script run -`
}

func (k scriptRunCommand) Run(ctx context.Context, c *console) error {
	if k.File == "-" && k.Data == "-" {
		return usagef("standard input can hold the script or --data, not both")
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

	RunID       string `arg:"" name:"run" help:"ID of a run of execute_tool_script; any unique part of it works."`
	Name        string `required:"" help:"Name of the composite tool."`
	Description string `help:"Description of the tool. Default: the run it was made from." placeholder:"TEXT"`
	Dir         string `help:"Directory for NAME.yaml and NAME_test.yaml." default:"." type:"existingdir"`
	Force       bool   `help:"Overwrite existing files."`
}

func (scriptPromoteCommand) Help() string {
	return `The parameters are inferred from the data of the run and the output block from its
result. The test repeats the run, with the same answers of tools and people and the
same result. Review both files before you use them. Example:

    perdure script promote execute_tool_script/k3v9a2m4qx --name stale_issues`
}

func (k scriptPromoteCommand) Run(ctx context.Context, c *console) error {
	return k.onRun(ctx, k.RunID, func(rc *runs.Client, id runs.RunID) error { return k.promote(ctx, c, rc, id) })
}

func (k scriptPromoteCommand) promote(ctx context.Context, c *console, rc *runs.Client, id runs.RunID) error {
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
		c.notef("no test written: the run called other composite tools (%s), whose calls are not recorded with it", strings.Join(recording.Composites, ", "))
	}
	return nil
}

// write writes the definition and its test, once the test has passed.
func (k scriptPromoteCommand) write(c *console, p *deftest.Promoted) error {
	definition, test := filepath.Join(k.Dir, k.Name+".yaml"), filepath.Join(k.Dir, k.Name+"_test.yaml")
	if err := p.Check(definition, test); err != nil {
		return fmt.Errorf("nothing written, because the definition does not repeat the run: %w", err)
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
			return fmt.Errorf("%s already exists; overwrite it with --force", f.name)
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
		c.notef("left out of the output block and the test, because null in the run: %s", strings.Join(p.Nulls, ", "))
	}
	return nil
}
