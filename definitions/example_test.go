package definitions_test

import (
	"fmt"

	"github.com/perdure/perdure/definitions"
)

func Example() {
	defs, diags := definitions.Parse("greet.yaml", []byte(`
name: greet
description: Greet somebody twice
steps:
  - id: first
    tool: say
    arguments: {text: 'Hello, {{.params.who}}'}
  - id: second
    tool: say
    dependsOn: [frist]
    arguments: {text: 'You heard: {{.steps.first.output.text}}'}
    retries: 3
`))
	diags = append(diags, definitions.Check(defs, definitions.CheckOptions{})...)
	diags.Sort()
	for _, d := range diags {
		if d.Check != "implicit-dependency" {
			fmt.Printf("line %d: [%s]\n", d.Pos.Line, d.Check)
		}
	}
	fmt.Println(defs[0].ToolNames())
	// Output:
	// line 10: [unknown-step]
	// line 12: [unknown-key]
	// [say]
}
