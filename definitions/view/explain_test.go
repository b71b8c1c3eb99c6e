package view

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/perduretest"
)

func showResult(r template.Result) string {
	if r.Error != "" {
		return "error: " + r.Error
	}
	return strings.TrimSpace(r.Type + " " + string(r.Value))
}

func TestExplain(t *testing.T) {
	t.Parallel()
	d, diags := definitions.Parse("explain.yaml", []byte(`
name: explained
description: d
steps:
  - id: call
    tool: be_call
    condition: ' {{.steps.done.output.ok}} '
    arguments: {i: '{{.params.big}}', s: '{{.params.big}}', l: [1, '{{.params.nope}}'], n: 5, i2: x, deep: {b: 'yes {{.params.name}}'}, bad: '{{fromJson "{"}}'}
    compensate: {tool: be_undo, arguments: {id: '{{.output.id}}'}}
  - id: loop
    type: forEach
    collection: '{{.steps.done.output.text}}'
    step: {tool: be_call, arguments: {i: '{{.forEach.index}}'}}
    collect: '{{.output.id}}'
  - {id: gate, type: elicitation, message: 'Hello {{.params.name}}', condition: '{{.params.name}}'}
  - {id: pause, type: wait, for: '{{.params.name}}'}
output:
  properties:
    n: {type: integer, description: d, value: '{{.params.big}}'}
    o: {type: object, description: d, properties: {d: {type: integer, description: d, value: '{{.params.nope}}', default: 3}, m: {type: integer, description: d, value: '{{.params.name}}'}}}
`))
	if diags != nil {
		t.Fatal(diags)
	}
	p := perduretest.Must(definitions.Compile(d[0]))(t)
	const schema = `{"type":"object","properties":{"i":{"type":"integer"},"i2":{"type":"integer"},"s":{"type":"string"},"deep":{"type":"object","properties":{"b":{"type":["boolean","string"]}}}}}`
	tests := []struct{ step, want string }{
		{"call", `condition: boolean true (boolean)
arguments.bad: error: fromJson: "{" is not JSON: unexpected EOF
arguments.deep.b: string "yes Ada" (boolean string)
arguments.i: integer 12345678 (integer)
arguments.i2: string "x" (integer)
arguments.l[1]: missing
arguments.s: string "12345678" (string)
compensate.arguments.id: string "7"
`},
		{"loop", `collection: object {"files":[{"name":"a.go"}],"none":null} (array object)
collect: integer 7
step.arguments.i: integer 1 (integer)
`},
		{"gate", `condition: error: rendered to "Ada", which is neither true nor false (boolean)
message: string "Hello Ada" (string)
`},
		{"pause", "for: error: \"Ada\" is not a duration: write a number with a unit, such as 30s, 90m or 72h\n"},
		{"output", `output.n: integer 12345678 (integer)
output.o.d: integer 3 (integer)
output.o.m: error: "Ada" is not an integer (integer)
`},
	}
	for _, test := range tests {
		s := scope()
		s.Output = map[string]any{"id": int64(7)}
		x := perduretest.Must(Explain(p, test.step, s, json.RawMessage(schema)))(t)
		var b strings.Builder
		for _, f := range x.Fields {
			fmt.Fprintf(&b, "%s: %s", f.Field, showResult(f.Result))
			if f.Wants != nil {
				fmt.Fprintf(&b, " (%s)", strings.Join(f.Wants, " "))
			}
			b.WriteString("\n")
		}
		if diff := cmp.Diff(test.want, b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.step, diff)
		}
	}
	if _, err := Explain(p, "loops", scope(), nil); err == nil || !strings.Contains(err.Error(), `did you mean "loop"`) {
		t.Errorf("an unknown step: %v", err)
	}
}

// What an explanation wants to be filled in can be filled in.
func TestExplainedContext(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"../library/prepare_review.yaml", "../library/summarise_changes.yaml", "testdata/plan/loops.yaml", "../testdata/ok/for_each.yaml", "../testdata/ok/gates.yaml"} {
		p := program(t, perduretest.Read(t, file))
		for _, id := range append(stepNames(p), "output") {
			x := perduretest.Must(Explain(p, id, &definitions.Scope{}, nil))(t)
			context := perduretest.Must(template.EncodeValue(x.Context()))(t)
			if _, err := definitions.DecodeScope(context); err != nil {
				t.Errorf("%s %s: %v in %s", file, id, err, context)
			}
		}
	}
}

func stepNames(p *definitions.Program) []string {
	var ids []string
	for _, n := range p.Steps {
		ids = append(ids, n.ID)
	}
	return ids
}
