package main

import (
	"context"
	"io"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/convert"
)

type convertCommand struct {
	Definition bool `help:"Print the whole definition, with the script in place of its steps."`

	againstFlags    `embed:""`
	definitionFlags `embed:""`
}

func (convertCommand) Help() string {
	return `Prints a script with exactly the effect of the steps of a definition: the same
calls with the same arguments, the same elicitations, the same result. Start from
it where a graph of steps is awkward.

Arguments get the types that the schemas of the tools ask for. With --against, the
script has these types written out; without it, the run converts at each call.
Steps that cannot be converted exactly are refused, with their position and what to
do. Examples:

    perdure convert prepare_review > review.star
    perdure convert deploy.yaml --against http://127.0.0.1:8080/mcp
    perdure convert deploy.yaml --definition > deploy_script.yaml
    perdure convert deploy@1.2.0 --against http://127.0.0.1:8080/mcp --definition`
}

func (k convertCommand) Run(ctx context.Context, c *console) error {
	def, err := k.definition(ctx, c, k.definitionFlags)
	if err != nil {
		return err
	}
	var tools definitions.Tools
	if k.Against != "" {
		if tools, err = k.catalogue(ctx); err != nil {
			return err
		}
	}
	text, err := convert.Script(def, tools)
	if err != nil {
		return err
	}
	if k.Definition {
		source, err := yaml.Marshal(convert.Definition(def, text))
		if err != nil {
			return err
		}
		text = string(source)
	}
	_, err = io.WriteString(c.exact, text)
	return err
}
