package main

import (
	"context"
	"io"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/view"
)

type graphCommand struct {
	againstFlags    `embed:""`
	definitionFlags `embed:""`

	Output string `short:"o" help:"Output format: text for a terminal, mermaid for Markdown, or svg." enum:"text,mermaid,svg" default:"text"`
}

func (graphCommand) Help() string {
	return `Draws each step with its dependencies, its condition and its onError. A dashed arrow
is a dependency that follows from a template, without dependsOn. Steps that change
something stand out: those that can be undone and, with --against, those whose tools
do not only read. Examples:

    perdure graph prepare_review
    perdure graph deploy.yaml -o svg > deploy.svg
    perdure graph deploy --config perdure.yaml -o mermaid`
}

func (g graphCommand) Run(ctx context.Context, c *console) error {
	def, err := g.definition(ctx, c, g.definitionFlags)
	if err != nil {
		return err
	}
	program, err := definitions.Compile(def)
	if err != nil {
		return err
	}
	var tools definitions.Tools
	if g.Against != "" {
		if tools, err = g.catalogue(ctx); err != nil {
			return err
		}
	}
	draw := map[string]func(*view.Graph) string{
		"text":    (*view.Graph).Text,
		"mermaid": (*view.Graph).Mermaid,
		"svg":     (*view.Graph).SVG,
	}[g.Output]
	_, err = io.WriteString(c.exact, draw(view.NewGraph(program, tools)))
	return err
}
