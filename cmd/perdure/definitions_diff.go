package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/registry"
)

type diffCommand struct {
	registryFlags `embed:""`

	From string `arg:"" name:"a" help:"NAME, NAME@VERSION or a digest as list and publish print them, or a file."`
	To   string `arg:"" name:"b" help:"NAME, NAME@VERSION or a digest as list and publish print them, or a file."`
}

func (diffCommand) Help() string {
	return `First it lists what callers of A would notice in B: the tool is not offered to
them, parameters accept less or have other defaults, results are missing or
different. Then it shows the lines that differ. Examples:

    perdure definitions diff deploy@1.2.0 deploy@1.3.0
    perdure definitions diff deploy deploy.yaml`
}

// A difference is what there is between two versions, as JSON.
type difference struct {
	Breaks  []string `json:"breaks"`
	Notices []string `json:"notices,omitempty"` // what callers get otherwise, and that breaks none
	Diff    string   `json:"diff"`              // unified; "" = they are the same
}

func (d diffCommand) Run(ctx context.Context, c *console) error {
	from, err := d.read(ctx, c, d.From)
	if err != nil {
		return err
	}
	to, err := d.read(ctx, c, d.To)
	if err != nil {
		return err
	}
	if (from.module == nil) != (to.module == nil) {
		return usagef("a module and a composite tool cannot be compared")
	}
	found := difference{Breaks: []string{}, Diff: string(diff.Diff(d.From, []byte(from.text), d.To, []byte(to.text)))}
	for _, change := range from.changes(to, cmp.Or(from.prefix, to.prefix)) {
		if change.Breaks {
			found.Breaks = append(found.Breaks, change.What)
		} else {
			found.Notices = append(found.Notices, change.What)
		}
	}
	if d.Output == "json" {
		return c.printJSON(found)
	}
	for _, what := range found.Breaks {
		fmt.Fprintf(c.out, "breaks callers: %s\n", what)
	}
	for _, what := range found.Notices {
		fmt.Fprintf(c.out, "callers notice: %s\n", what)
	}
	fmt.Fprint(c.out, found.Diff)
	return nil
}

// A compared version is one of the two: a definition or a module, and its text.
type compared struct {
	definition *definitions.Definition
	module     *definitions.Module
	text       string
	prefix     string // that the server which has it puts before names; "" = none, or it is a file
}

func (a compared) changes(b compared, prefix string) []registry.Change {
	if a.module != nil {
		return registry.ChangesLoading(a.module, b.module)
	}
	return registry.Changes(a.definition, b.definition, prefix)
}

// read gives one of the two, which is a file where there is one.
func (d diffCommand) read(ctx context.Context, c *console, name string) (compared, error) {
	if text, err := os.ReadFile(name); err == nil && definitions.IsModuleName(name) {
		return compared{module: &definitions.Module{Name: filepath.Base(name), Text: string(text)}, text: string(text)}, nil
	} else if err == nil {
		found, err := loadOrTell(c, config.Sources{Definitions: []string{name}})
		if err != nil {
			return compared{}, err
		}
		one, err := onlyOne(name, found)
		if err != nil {
			return compared{}, err
		}
		return comparedDefinition(one)
	}
	v, err := d.version(ctx, name)
	if err != nil {
		return compared{}, err
	}
	if definitions.IsModuleName(v.Name) {
		m, err := definitions.ModuleFromSource(v.Source)
		if err != nil {
			return compared{}, err
		}
		return compared{module: m, text: m.Text}, nil
	}
	one, err := definitions.FromSource(v.Source)
	if err != nil {
		return compared{}, err
	}
	found, err := comparedDefinition(one)
	found.prefix = v.Prefix
	return found, err
}

func comparedDefinition(d *definitions.Definition) (compared, error) {
	text, err := asYAML(d.Source())
	return compared{definition: d, text: text}, err
}
