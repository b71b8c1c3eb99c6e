package main

import (
	"context"
	"fmt"
	"os"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/registry"
)

type diffCommand struct {
	registryFlags `embed:""`

	From string `arg:"" name:"a" help:"NAME@VERSION as show takes it, or a file."`
	To   string `arg:"" name:"b" help:"NAME@VERSION as show takes it, or a file."`
}

func (diffCommand) Help() string {
	return `First it says what callers of A would notice of B: parameters that take less, results
that are gone or something else. Then it shows what is written otherwise. Examples:

    perdure definitions diff deploy@1.2.0 deploy@1.3.0
    perdure definitions diff deploy deploy.yaml`
}

// A difference is what there is between two versions, as JSON.
type difference struct {
	Breaks []string `json:"breaks"`
	Diff   string   `json:"diff"` // unified; "" = they are the same
}

func (d diffCommand) Run(ctx context.Context, c *console) error {
	from, err := d.definition(ctx, c, d.From)
	if err != nil {
		return err
	}
	to, err := d.definition(ctx, c, d.To)
	if err != nil {
		return err
	}
	before, err := asYAML(from.Source())
	if err != nil {
		return err
	}
	after, err := asYAML(to.Source())
	if err != nil {
		return err
	}
	found := difference{append([]string{}, registry.Breaks(from, to)...), string(diff.Diff(d.From, []byte(before), d.To, []byte(after)))}
	if d.Output == "json" {
		return c.printJSON(found)
	}
	for _, what := range found.Breaks {
		fmt.Fprintf(c.out, "breaks callers: %s\n", plain(what))
	}
	fmt.Fprint(c.out, plain(found.Diff))
	return nil
}

// definition gives one of the two, which is a file where there is one.
func (d diffCommand) definition(ctx context.Context, c *console, name string) (*definitions.Definition, error) {
	if _, err := os.Stat(name); err == nil {
		found, err := loadOrTell(c, sources{Definitions: []string{name}})
		if err != nil {
			return nil, err
		}
		return onlyOne(name, found)
	}
	v, err := d.version(ctx, name)
	if err != nil {
		return nil, err
	}
	return definitions.FromSource(v.Source)
}
