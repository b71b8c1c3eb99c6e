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

	From string `arg:"" name:"a" help:"NAME, NAME@VERSION, a digest as printed by definitions list and publish, or a file."`
	To   string `arg:"" name:"b" help:"NAME, NAME@VERSION, a digest as printed by definitions list and publish, or a file."`
}

func (diffCommand) Help() string {
	return `Lists what callers of A would notice in B, such as a parameter that accepts less,
another default, or a missing part of the result. Then it shows the lines that
differ. Examples:

    perdure definitions diff deploy@1.2.0 deploy@1.3.0
    perdure definitions diff deploy deploy.yaml`
}

// A difference is a comparison of two versions, as JSON.
type difference struct {
	Breaks  []string `json:"breaks"`
	Notices []string `json:"notices,omitempty"` // changes that break no caller
	Diff    string   `json:"diff"`              // unified; "" = no difference
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
		return usagef("cannot compare a module with a composite tool")
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

// A compared version is one side of a comparison: a definition or a module.
type compared struct {
	definition *definitions.Definition
	module     *definitions.Module
	text       string
	prefix     string // prefix of tool names at its server; "" for a file
}

func (a compared) changes(b compared, prefix string) []registry.Change {
	if a.module != nil {
		return registry.ChangesLoading(a.module, b.module)
	}
	return registry.Changes(a.definition, b.definition, prefix)
}

// read returns one side: a file if one has that name, else a published version.
func (d diffCommand) read(ctx context.Context, c *console, name string) (compared, error) {
	if text, err := os.ReadFile(name); err == nil && definitions.IsModuleName(name) {
		return compared{module: &definitions.Module{Name: filepath.Base(name), Text: string(text)}, text: string(text)}, nil
	} else if err == nil {
		found, err := loadChecked(c, config.Sources{Definitions: []string{name}})
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
