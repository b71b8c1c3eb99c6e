package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/registry"
)

type publishCommand struct {
	registryFlags `embed:""`

	Files   []string `arg:"" optional:"" name:"file" help:"Files of definitions, modules that scripts load (.star), and directories of them; with --config names of its composite tools. All are published, or none."`
	Config  string   `help:"Configuration whose compositeTools are published: those that are named, or all." placeholder:"FILE"`
	Version string   `help:"Version to publish, instead of what the files say." placeholder:"1.2.0"`
	Force   bool     `help:"Publish even what breaks callers or uses a tool that is missing."`
	DryRun  bool     `help:"Print what would be published, and publish nothing."`
}

func (publishCommand) Help() string {
	return `A published version never changes: the same content again is left as it is, other
content under the same version is refused. The server checks what is published
against the tools that it has now, and says what breaks callers of the version
before; a minor version or a patch that does is refused without --force.
A module is a file of Starlark functions, such as text.star. Its version stands in
it as # version: 1.2.0, of a directory only those are published that state one,
and scripts load it as load("text.star@^1.0", "slug"). What a definition loads is
looked up when it is published, and never changes after that.
Who may publish is said by authorization.publishers of the server's configuration.
Examples:

    perdure publish deploy.yaml
    perdure publish deploy.yaml --version 1.3.0 --dry-run
    perdure publish text.star deploy.yaml
    perdure publish --config perdure.yaml deploy --version 1.0.0
    perdure publish definitions --url https://tools.example.com/mcp`
}

func (p publishCommand) Run(ctx context.Context, c *console) error {
	q := registry.Request{Version: p.Version, Force: p.Force, DryRun: p.DryRun}
	var err error
	if q.Files, err = p.read(); err != nil {
		return err
	}
	if err := areText(q.Files); err != nil {
		return err
	}
	var done gateway.Published
	if err := p.post(ctx, "publish", q, &done); err != nil {
		return err
	}
	if p.Output == "json" {
		if err := c.printJSON(done); err != nil {
			return err
		}
	}
	if len(done.Publications) > 0 && !p.DryRun {
		p.tell(c)
	}
	diags := diagnosticsOf(done.Problems)
	if p.Output == "text" {
		printDiagnostics(c, diags)
	}
	if diags.HasErrors() {
		if p.Output == "text" {
			c.notef("nothing is published")
		}
		return errReported
	}
	if p.Output == "text" {
		for _, one := range done.Publications {
			fmt.Fprintln(c.out, outcome(one, p.DryRun))
		}
	}
	return nil
}

// read reads all that is to be published.
func (p publishCommand) read() ([]registry.File, error) {
	if p.Config != "" {
		return inlineToPublish(p.Config, p.Files)
	}
	if len(p.Files) == 0 {
		return nil, usagef("nothing to publish; give files of definitions, or --config FILE")
	}
	var all []registry.File
	for _, name := range p.Files {
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return nil, usagef("file %s not found", name)
		}
		files, err := filesToPublish(name)
		if err != nil {
			return nil, err
		}
		all = append(all, files...)
	}
	return all, nil
}

// areText refuses files that would become something else on their way.
func areText(files []registry.File) error {
	for _, f := range files {
		texts := map[string]string{f.Name: f.Text}
		maps.Copy(texts, f.Scripts)
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			if !utf8.ValidString(texts[name]) {
				return usagef("%s is not UTF-8 text", name)
			}
		}
	}
	return nil
}

// filesToPublish reads a file, or the definition files and the modules of a
// directory.
func filesToPublish(name string) ([]registry.File, error) {
	files, err := modulesToPublish(name)
	if err != nil || definitions.IsModuleName(name) {
		return files, err
	}
	names, err := config.DefinitionFiles(name)
	if err != nil {
		return nil, err
	}
	if len(names)+len(files) == 0 {
		return nil, usagef("%s has no definition files", name)
	}
	for _, name := range names {
		text, err := config.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if config.IsConfiguration(text) {
			return nil, usagef("%s is a configuration; to publish its compositeTools, say --config %s", name, name)
		}
		scripts, err := scriptsOf(name, text)
		if err != nil {
			return nil, err
		}
		files = append(files, registry.File{Name: name, Text: string(text), Scripts: scripts})
	}
	return files, nil
}

// inlineToPublish reads composite tools in compositeTools of a configuration: those
// that are named, or all.
func inlineToPublish(file string, names []string) ([]registry.File, error) {
	texts, err := config.InlineTools(file, names)
	if err != nil {
		return nil, err
	}
	var files []registry.File
	for _, text := range texts {
		scripts, err := scriptsOf(file, []byte(text))
		if err != nil {
			return nil, err
		}
		files = append(files, registry.File{Name: file, Text: text, Scripts: scripts})
	}
	return files, nil
}

// modulesToPublish reads a module, or those of a directory that state a version:
// the others belong to the definitions beside them.
func modulesToPublish(name string) (files []registry.File, err error) {
	names, err := config.FilesBelow(name, definitions.IsModuleName)
	if err != nil {
		return nil, err
	}
	for _, file := range names {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if file == name || definitions.StatedVersion(string(text)) != "" {
			files = append(files, registry.File{Name: file, Text: string(text)})
		}
	}
	return files, nil
}

// scriptsOf reads the files that scripts of definitions stand in, and those that
// they load.
func scriptsOf(file string, text []byte) (map[string]string, error) {
	found, _ := definitions.Parse(file, text) // the server says what is wrong
	scripts := map[string]string{}
	var diags definitions.Diagnostics
	for _, d := range found {
		diags = append(diags, d.Pin(func(name string) (string, error) {
			text, err := config.BesideFile(file)(name)
			if err == nil {
				scripts[name] = text
			}
			return text, err
		})...)
	}
	return scripts, diags.Err()
}

func diagnosticsOf(problems []gateway.Problem) definitions.Diagnostics {
	var diags definitions.Diagnostics
	for _, p := range problems {
		diags = append(diags, definitions.Diagnostic{
			Pos: definitions.Position{File: p.File, Line: p.Line, Column: p.Column}, Severity: p.Severity, Message: p.Message, Check: p.Check,
		})
	}
	return diags
}

// outcome is the line that tells what became of a definition.
func outcome(p registry.Publication, dry bool) string {
	verb := map[bool]string{true: "published", false: "unchanged"}[p.New]
	if dry && p.New {
		verb = "would publish"
	}
	line := fmt.Sprintf("%s %s %s  %s", verb, p.Name, p.Version, shortDigest(p.Digest))
	switch {
	case !p.New || p.Previous == "":
	case len(p.Breaks) > 0:
		line += fmt.Sprintf("  breaks callers of %s", p.Previous)
	case len(p.Notices) > 0:
		line += fmt.Sprintf("  callers of %s notice a change", p.Previous)
	default:
		line += fmt.Sprintf("  callers of %s notice nothing", p.Previous)
	}
	return line
}

// shortDigest is enough of a digest to find it by.
func shortDigest(digest string) string {
	algorithm, hex, _ := strings.Cut(digest, ":")
	return algorithm + ":" + hex[:min(len(hex), 12)]
}
