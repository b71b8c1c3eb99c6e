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

	Files   []string `arg:"" optional:"" name:"file" help:"Files of definitions, modules that scripts load (.star), and directories of them; with --config, names of its composite tools. Publishes all or none."`
	Config  string   `help:"Configuration file whose compositeTools to publish: the named ones, or all." placeholder:"FILE"`
	Version string   `help:"Version to publish, instead of the version in the files." placeholder:"1.2.0"`
	Force   bool     `help:"Publish even if it breaks callers or a tool is missing."`
	DryRun  bool     `help:"Print what would be published, and publish nothing."`
}

func (publishCommand) Help() string {
	return `A published version never changes: publishing the same content again does nothing,
other content under the same version is refused. The server checks the definition
against its tools, and reports changes that break callers of the version before; a
minor or patch version that breaks callers is refused without --force.

A module is a file of Starlark functions, such as text.star, with a comment such as
# version: 1.2.0; scripts load it with load("text.star@^1.0", "slug"). From a
directory, only modules with a version are published. The modules that a definition
loads are resolved when it is published, and stay the same after that.

authorization.publishers of the server's configuration lists who may publish.
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
	p.noteTarget(c)
	diags := diagnosticsOf(done.Problems)
	if p.Output == "text" {
		printDiagnostics(c, diags)
	}
	if diags.HasErrors() {
		if p.Output == "text" {
			c.notef("nothing was published")
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

// read reads what to publish.
func (p publishCommand) read() ([]registry.File, error) {
	if p.Config != "" {
		return inlineToPublish(p.Config, p.Files)
	}
	if len(p.Files) == 0 {
		return nil, usagef("nothing to publish; name files of definitions, or set --config FILE")
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

// areText refuses files that JSON cannot carry unchanged.
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
		if config.IsConfiguration(name, text) {
			return nil, usagef("%s is a configuration; publish its compositeTools with --config %s", name, name)
		}
		scripts, err := scriptsOf(name, text)
		if err != nil {
			return nil, err
		}
		files = append(files, registry.File{Name: name, Text: string(text), Scripts: scripts})
	}
	return files, nil
}

// inlineToPublish reads the named composite tools of a configuration, or all.
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

// modulesToPublish reads a module, or those of a directory that have a version:
// the others belong to the definitions in the directory.
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

// scriptsOf reads the script files of definitions, and the modules that they load.
func scriptsOf(file string, text []byte) (map[string]string, error) {
	found, _ := definitions.Parse(file, text) // the server reports mistakes
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

// outcome is the line of the report for a definition.
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

// shortDigest is a prefix of a digest that is long enough to find it.
func shortDigest(digest string) string {
	algorithm, hex, _ := strings.Cut(digest, ":")
	return algorithm + ":" + hex[:min(len(hex), 12)]
}
