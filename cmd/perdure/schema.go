package main

import (
	"encoding/json"

	"github.com/perdure/perdure/definitions"
)

type schemaCommand struct {
	Resource bool `help:"Of a definition as a Kubernetes resource only."`
}

func (schemaCommand) Help() string {
	return `Editors complete and check definitions by it. For the YAML extension of VS Code:

    perdure schema > perdure.schema.json

and in the first line of a definition:

    # yaml-language-server: $schema=./perdure.schema.json`
}

func (s schemaCommand) Run(c *console) error {
	var schema json.RawMessage
	if s.Resource {
		schema = definitions.ResourceSchema()
	} else {
		schema = definitions.Schema()
	}
	return c.printJSON(schema)
}
