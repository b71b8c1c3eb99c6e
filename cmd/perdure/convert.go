package main

import (
	"context"
	"io"

	"github.com/perdure/perdure/definitions"
)

type convertCommand struct {
	againstFlags    `embed:""`
	definitionFlags `embed:""`
}

func (convertCommand) Help() string {
	return `Prints the script that does what the steps of a definition do: the same calls
with the same arguments, the same questions, the same result. It is a start for
what steps say badly.

Arguments have the types that the schemas of the tools ask for: --against says
where these are. Without it they are text. Compensations, probes and questions
that are answered in a browser have nothing that they could become; the command
names what it cannot convert. Examples:

    perdure convert prepare_review > review.star
    perdure convert deploy.yaml --against http://127.0.0.1:8080/mcp`
}

func (k convertCommand) Run(ctx context.Context, c *console) error {
	def, err := k.find(c, k.modules(ctx))
	if err != nil {
		return err
	}
	var tools definitions.Tools
	if k.Against != "" {
		if tools, err = k.catalogue(ctx); err != nil {
			return err
		}
	}
	text, err := definitions.Script(def, tools)
	if err != nil {
		return err
	}
	_, err = io.WriteString(c.out, text)
	return err
}
