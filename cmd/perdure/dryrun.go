package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure/definitions/view"
)

// dryRun prints what a call would do. Only tools that are known to support dry runs
// are asked: any other would execute the call.
func (k callCommand) dryRun(ctx context.Context, c *console, to target) error {
	s, err := connect(ctx, to)
	if err != nil {
		return err
	}
	defer s.close()
	tool, err := find(ctx, to, s, k.Name)
	if err != nil {
		return err
	}
	arguments, err := k.arguments(ctx, c, tool)
	if err != nil {
		return err
	}
	if !tool.runs {
		return fmt.Errorf("%s is not a composite tool, and only composite tools have a dry run; nothing was called", k.Name)
	}
	result, err := s.call(ctx, tool.Name, arguments, tool.meta(map[string]any{dryRunMeta: true}))
	switch {
	case err != nil:
		return err
	case result.IsError:
		return k.print(c, result)
	case !result.Meta.DryRun:
		return fmt.Errorf("the server at %s does not support dry runs and has executed %s; upgrade it", to.url, k.Name)
	case k.Output == "json":
		return c.printJSON(result.Structured)
	}
	var plan view.Plan
	if err := json.Unmarshal(result.Structured, &plan); err != nil {
		return fmt.Errorf("reading the plan: %w", err)
	}
	_, err = fmt.Fprint(c.out, plan.Text(func(e view.Emphasis, text string) string {
		return c.outStyle(planStyles[e], text)
	}))
	return err
}

// planStyles are what the parts of a plan look like on a terminal.
var planStyles = map[view.Emphasis]style{
	view.Heading:  bold,
	view.Aside:    faint,
	view.Caution:  yellow,
	view.Mistaken: red,
}
