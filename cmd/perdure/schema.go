package main

import (
	"encoding/json"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/config"
)

type schemaCommand struct {
	Of string `arg:"" optional:"" name:"of" help:"What the schema describes: definition, resource (a definition as a Kubernetes resource) or config (a configuration)." enum:"definition,resource,config" default:"definition"`
}

func (schemaCommand) Help() string {
	return `Editors use the schema to complete and check files. For the YAML extension of VS Code:

    perdure schema > perdure.schema.json
    perdure schema config > perdure-config.schema.json

and, as the first line of a definition or of a configuration:

    # yaml-language-server: $schema=./perdure.schema.json
    # yaml-language-server: $schema=./perdure-config.schema.json`
}

func (s schemaCommand) Run(c *console) error {
	schemas := map[string]func() json.RawMessage{
		"definition": definitions.Schema, "resource": definitions.ResourceSchema, "config": config.Schema,
	}
	return c.printJSON(schemas[s.Of]())
}
