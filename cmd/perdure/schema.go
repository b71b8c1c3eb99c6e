package main

import (
	"encoding/json"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/config"
)

type schemaCommand struct {
	Of string `arg:"" optional:"" name:"of" help:"Of what: a definition, a definition as a Kubernetes resource, or a configuration (config)." enum:"definition,resource,config" default:"definition"`
}

func (schemaCommand) Help() string {
	return `Editors complete and check files by it. For the YAML extension of VS Code:

    perdure schema > perdure.schema.json
    perdure schema config > perdure-config.schema.json

and in the first line of a definition, or of a configuration:

    # yaml-language-server: $schema=./perdure.schema.json
    # yaml-language-server: $schema=./perdure-config.schema.json`
}

func (s schemaCommand) Run(c *console) error {
	schemas := map[string]func() json.RawMessage{
		"definition": definitions.Schema, "resource": definitions.ResourceSchema, "config": config.Schema,
	}
	return c.printJSON(schemas[s.Of]())
}
