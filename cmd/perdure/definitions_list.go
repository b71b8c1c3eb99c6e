package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/service"
)

type definitionsCommand struct {
	List      definitionsListCommand `cmd:"" default:"withargs" help:"List the composite tools, and why one is not available; with --versions, all that was published."`
	Show      showCommand            `cmd:"" help:"Print a version of a composite tool."`
	Diff      diffCommand            `cmd:"" help:"Show what differs between two versions, and whether it breaks callers."`
	Deprecate deprecateCommand       `cmd:"" help:"Deprecate versions, so that calls prefer others."`
	History   historyCommand         `cmd:"" help:"Show who published and deprecated what, and when."`
	Drift     driftCommand           `cmd:"" help:"List the versions whose tools have changed since they were published."`
}

type definitionsListCommand struct {
	serverFlags `embed:""`

	Versions bool `help:"List all published versions." xor:"from"`

	Config      string   `help:"List what this configuration file defines; needs no server." placeholder:"FILE" xor:"from"`
	Definitions []string `help:"List what this directory defines; needs no server. Repeatable." placeholder:"DIR" sep:"none"`
	Output      string   `short:"o" help:"Output format: text or json." enum:"text,json" default:"text"`
}

func (definitionsListCommand) Help() string {
	return `A composite tool is not available while a tool of its steps is missing.
Examples:

    perdure definitions
    perdure definitions list --versions
    perdure definitions --config perdure.yaml`
}

func (d definitionsListCommand) Run(ctx context.Context, c *console) error {
	if d.Versions {
		return d.listVersions(ctx, c)
	}
	composites, err := d.composites(ctx, c)
	if err != nil {
		return err
	}
	if d.Output == "json" {
		return c.printJSON(composites)
	}
	if of, err := d.target(); err == nil && d.fromServer() {
		defer c.noteDown(ctx, of)
	}
	w := c.table(c.out)
	for _, composite := range composites {
		fmt.Fprintf(w, "%s\t%s\t%s\n", composite.Name, cmp.Or(composite.Version, "-"), stateOf(composite))
	}
	return w.Flush()
}

// fromServer reports whether a server is asked, and no files are read.
func (d definitionsListCommand) fromServer() bool { return d.Config == "" && len(d.Definitions) == 0 }

func (d definitionsListCommand) composites(ctx context.Context, c *console) ([]service.CompositeStatus, error) {
	if d.fromServer() {
		of, err := d.target()
		if err != nil {
			return nil, err
		}
		status, err := fetchStatus(ctx, of)
		if err != nil {
			return nil, err
		}
		if status.DefinitionsError != "" {
			c.notef("changed files have mistakes; the server still uses the earlier ones: %s", status.DefinitionsError)
		}
		return status.Composites, nil
	}
	found, err := load(c, config.Sources{Config: d.Config, Definitions: d.Definitions})
	if err != nil {
		return nil, err
	}
	composites := []service.CompositeStatus{}
	for _, def := range found.Definitions {
		composites = append(composites, service.CompositeStatus{Name: def.Name, Version: def.Version, RunAs: def.RunAs, Place: def.Pos.String()})
	}
	slices.SortFunc(composites, func(a, b service.CompositeStatus) int { return cmp.Compare(a.Name, b.Name) })
	return composites, nil
}
