package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/service"
	"github.com/perdure/perdure/workflows"
)

type toolsCommand struct {
	List toolsListCommand `cmd:"" default:"withargs" help:"List the tools that a server offers."`
	Show toolsShowCommand `cmd:"" help:"Show one tool: its arguments, effect class and backend, and how to call it."`
}

func (toolsCommand) Help() string { return toolsListCommand{}.Help() }

type toolsListCommand struct {
	serverFlags `embed:""`

	All     bool   `help:"Include tools that are hidden from clients, which only steps can call. With -o json, include all that is known of each tool."`
	Effects bool   `help:"Show the effect class of each backend tool, including hidden ones, and the current use of backend limits."`
	Output  string `short:"o" help:"Output format: text or json." enum:"text,json" default:"text"`
}

func (toolsListCommand) Help() string {
	return `Lists composite tools and backend tools, as a client sees them. --effects lists the
effect class of each backend tool (read, idempotent, keyed, unsafe) and what happens
if the outcome of a call is unknown; and for each backend with limits, how many calls
are under way and waiting, and the state of its circuit breaker. Examples:

    perdure tools
    perdure tools show repo_log
    perdure tools --all -o json > tools.json
    perdure validate --against tools.json definitions/*.yaml`
}

func (t toolsListCommand) Run(ctx context.Context, c *console) error {
	of, err := t.target()
	if err != nil {
		return err
	}
	if t.Effects {
		return t.effects(ctx, c, of)
	}
	tools, err := t.listed(ctx, of)
	if err != nil {
		return err
	}
	if t.Output == "json" {
		return c.printJSON(tools)
	}
	t.noteTarget(c)
	w := c.table(c.out)
	for _, tool := range tools {
		fmt.Fprintf(w, "%s\t%s\n", tool.Name, firstLine(tool.Description))
	}
	defer c.noteDown(ctx, of)
	return w.Flush()
}

func (t toolsListCommand) listed(ctx context.Context, of target) ([]remoteTool, error) {
	if !t.All {
		return shownTools(ctx, of)
	}
	all, err := allTools(ctx, of)
	return all.tools, err
}

func (t toolsListCommand) effects(ctx context.Context, c *console, of target) error {
	status, err := fetchStatus(ctx, of)
	if err != nil {
		return err
	}
	if t.Output == "json" {
		return c.printJSON(status.Tools)
	}
	t.noteTarget(c)
	w := c.table(c.out)
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

// unknownOutcome describes what happens if the outcome of a call is unknown.
func unknownOutcome(t service.ToolStatus) string {
	switch {
	case workflows.Repeatable(definitions.Effect(t.Effect)):
		return "called again"
	case len(t.Probe) > 0:
		var probe definitions.Probe
		_ = json.Unmarshal(t.Probe, &probe) // unreadable, of another release: tool stays empty
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

// firstLine shortens a description to fit beside a name.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return shorten(line, 90)
}
