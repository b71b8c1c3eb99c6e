package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/service"
	"github.com/perdure/perdure/workflows"
)

type toolsCommand struct {
	serverFlags `embed:""`

	All     bool   `help:"With the tools that are hidden from clients and that only steps can call; with -o json and all that is known of each."`
	Effects bool   `help:"Show the effect class of each backend tool, hidden ones included, and how the limits of backends stand."`
	Output  string `short:"o" help:"How to print: text or json." enum:"text,json" default:"text"`
}

func (toolsCommand) Help() string {
	return `Composite tools and those of the backends, as a client sees them. With
--effects, what calling a backend tool may do (read, idempotent, keyed, unsafe),
and what follows when the outcome of a call is unknown; and for each backend with
limits how many calls are under way and wait, and whether its breaker is open.
Examples:

    perdure tools
    perdure tools --all -o json > tools.json
    perdure validate --against tools.json definitions/*.yaml`
}

func (t toolsCommand) Run(ctx context.Context, c *console) error {
	of, err := t.target()
	if err != nil {
		return err
	}
	if t.Effects {
		return t.effects(ctx, c, of)
	}
	list := shownTools
	if t.All {
		list = allTools
	}
	tools, err := list(ctx, of)
	if err != nil {
		return err
	}
	if t.Output == "json" {
		return c.printJSON(tools)
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, tool := range tools {
		fmt.Fprintf(w, "%s\t%s\n", tool.Name, firstLine(tool.Description))
	}
	return w.Flush()
}

func (t toolsCommand) effects(ctx context.Context, c *console, of target) error {
	status, err := fetchStatus(ctx, of)
	if err != nil {
		return err
	}
	if t.Output == "json" {
		return c.printJSON(status.Tools)
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, tool := range status.Tools {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", tool.Name, tool.Effect, unknownOutcome(tool), hidden(tool.Hidden))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, b := range status.Backends {
		if b.Limits != "" {
			fmt.Fprintf(c.out, "\nlimits of %s: %s\n  %s\n", b.Name, b.Limits, limitsOf(b))
		}
	}
	return nil
}

// unknownOutcome says what follows when the outcome of a call is unknown.
func unknownOutcome(t service.ToolStatus) string {
	switch {
	case workflows.Repeatable(definitions.Effect(t.Effect)):
		return "called again"
	case len(t.Probe) > 0:
		var probe definitions.Probe
		_ = json.Unmarshal(t.Probe, &probe) // of another release: without its tool
		return "probe " + cmp.Or(probe.Tool, "of its own") + ", then " + cmp.Or(t.OnUnknown, string(definitions.FailUnknown))
	}
	return cmp.Or(t.OnUnknown, string(definitions.FailUnknown))
}

func hidden(yes bool) string {
	if yes {
		return "hidden from clients"
	}
	return ""
}

// firstLine shortens a description to what fits beside a name.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if letters := []rune(line); len(letters) > 90 {
		return string(letters[:89]) + "…"
	}
	return line
}
