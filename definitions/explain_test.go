package definitions

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// outline writes expressions as indented lines: what, what it comes to, why.
func outline(expressions []Expression, indent string) string {
	var b strings.Builder
	for _, x := range expressions {
		line := indent + x.Text
		if result := showResult(x.Result); result != "" {
			line += " = " + result
		}
		if x.Note != "" {
			line += " # " + x.Note
		}
		b.WriteString(line + "\n")
		b.WriteString(outline(x.Parts, indent+"  "))
		b.WriteString(outline(x.Body, indent+"> "))
	}
	return b.String()
}

func showResult(r Result) string {
	if r.Error != "" {
		return "error: " + r.Error
	}
	return strings.TrimSpace(r.Type + " " + string(r.Value))
}

func TestExplainExpressions(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"text", "hello", ""},
		{"field", "{{.steps.done.output.count}}", ".steps.done.output.count = integer 12\n"},
		{"missing", "{{.params.nope}} {{.steps.never.output.text}}", ".params.nope = missing\n.steps.never.output.text = missing # .steps.never is missing\n"},
		{"pipeline", "{{.params.name | upper | printf \"%s!\"}}", `.params.name | upper | printf "%s!" = string "ADA!"
  .params.name = string "Ada"
  | upper = string "ADA"
  | printf "%s!" = string "ADA!"
`},
		{"parentheses", "{{(index .steps.done.output.items 0).id}}", `(index .steps.done.output.items 0).id = integer 0
  index .steps.done.output.items 0 = object {"id":0}
    .steps.done.output.items = array [{"id":0}]
`},
		{"error in place", `{{eq (fromJson .params.name) "x"}}`, `eq (fromJson .params.name) "x" = error: fromJson: "Ada" is not JSON: invalid character 'A' looking for beginning of value
  fromJson .params.name = error: fromJson: "Ada" is not JSON: invalid character 'A' looking for beginning of value
    .params.name = string "Ada"
`},
		{"error of a pipeline", `{{.params.name | fromJson | len}}`, `.params.name | fromJson | len = error: fromJson: "Ada" is not JSON: invalid character 'A' looking for beginning of value
  .params.name = string "Ada"
  | fromJson = error: fromJson: "Ada" is not JSON: invalid character 'A' looking for beginning of value
`},
		{"decided", `{{and .params.nope (index .params.list 99)}}`, `and .params.nope (index .params.list 99) = missing
  .params.nope = missing
  index .params.list 99 # not evaluated: and is decided
`},
		{"if", `{{if eq .params.name "Ada"}}{{.params.big}}{{else}}{{.params.nope}}{{end}}`, `if eq .params.name "Ada" = boolean true # true
  .params.name = string "Ada"
> .params.big = integer 12345678
`},
		{"else", `{{if .params.nope}}{{.params.big}}{{else}}no {{.params.name}}{{end}}`, `if .params.nope = missing # false
> .params.name = string "Ada"
`},
		{"with", `{{with .steps.done}}{{.status}} {{$.params.name}} {{.output.sub.k}}{{end}}`, `with .steps.done = object SAME # true
> .status = string "completed"
> $.params.name = string "Ada"
> .output.sub.k = integer 1
`},
		{"range", `{{range $i, $t := .steps.done.output.tags}}{{$i}}{{.}}{{$t | upper}}{{end}}`, `range $i, $t := .steps.done.output.tags = array ["a","b"]
> turn 1 of 2 = string "a"
> > $i = integer 0
> > . = string "a"
> > $t | upper = string "A"
> >   $t = string "a"
> >   | upper = string "A"
> turn 2 of 2 = string "b"
> > $i = integer 1
> > . = string "b"
> > $t | upper = string "B"
> >   $t = string "b"
> >   | upper = string "B"
`},
		{"range over an object", `{{range $k, $v := .steps.done.output.sub}}{{$k}}={{$v}}{{end}}`, `range $k, $v := .steps.done.output.sub = object {"k":1}
> turn 1 of 1 = integer 1
> > $k = string "k"
> > $v = integer 1
`},
		{"many turns", `{{range until 9}}{{if eq . 1}}{{break}}{{end}}{{.}}{{end}}`, `range until 9 = array [0,1,2,3,4,5,6,7,8]
> turn 1 of 9 = integer 0
> > if eq . 1 = boolean false # false
> >   . = integer 0
> > . = integer 0
> turn 2 of 9 = integer 1
> > if eq . 1 = boolean true # true
> >   . = integer 1
`},
		{"nothing to range over", `{{range .params.nope}}{{.}}{{else}}{{.params.name}}{{end}}`, `range .params.nope = missing # nothing to go through
> .params.name = string "Ada"
`},
		{"variables", `{{$x := .params.name}}{{if true}}{{$x = upper $x}}{{$y := 1}}{{end}}{{$x}}`, `$x := .params.name = string "Ada"
if true = boolean true # true
> $x = upper $x = string "ADA"
>   $x = string "Ada"
> $y := 1 = integer 1
$x = string "ADA"
`},
		{"templates", `{{define "greet"}}Hello {{.}}{{$.x}}{{end}}{{template "greet" .params.name}}`, `template "greet" .params.name = string "Ada"
> . = string "Ada"
> $.x = error: cannot read .x: a string has no fields
`},
	}
	for _, test := range tests {
		got := outline(explainTemplate(test.text, scope().data()), "")
		if test.name == "with" { // the whole step is long
			encoded, _ := EncodeValue(scope().Steps["done"].data())
			test.want = strings.Replace(test.want, "SAME", string(encoded), 1)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", test.name, test.text, diff)
		}
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	d, diags := Parse("explain.yaml", []byte(`
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
	p, err := Compile(d[0])
	if err != nil {
		t.Fatal(err)
	}
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
		x, err := p.Explain(test.step, s, json.RawMessage(schema))
		if err != nil {
			t.Fatal(err)
		}
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
	if _, err := p.Explain("loops", scope(), nil); err == nil || !strings.Contains(err.Error(), `did you mean "loop"`) {
		t.Errorf("an unknown step: %v", err)
	}
}

func TestDecodeScope(t *testing.T) {
	t.Parallel()
	s, err := DecodeScope([]byte(`{
		"params": {"n": 12345678901234567890},
		"steps": {"a": {"output": {"x": 1}}, "b": {"status": "failed", "error": "no"}, "c": {"action": "accept", "content": {"y": 2}}},
		"forEach": {"item": "z", "index": 0}, "output": {"id": 7},
		"workflow": {"id": "w", "step_count": 3, "duration_ms": 5, "start_time": "2026-08-21T12:00:00Z"}}`))
	if err != nil {
		t.Fatal(err)
	}
	template, _ := parseTemplate("{{.params.n}} {{.steps.a.status}} {{.steps.a.output.x}} {{.steps.b.error}} {{.steps.c.action}} {{.steps.c.content.y}} {{.forEach.item}} {{.output.id}} {{.workflow.step_count}} {{.workflow.start_time}}")
	if got, err := template.Text(s.data()); err != nil || got != "12345678901234567890 completed 1 no accept 2 z 7 3 2026-08-21T12:00:00Z" {
		t.Errorf("%q, %v", got, err)
	}
	_, err = DecodeScope([]byte(`{"parms": {}, "steps": {"a": {"outputt": 1, "status": "done"}, "b": 5}, "forEach": [], "workflow": {"step_count": "x", "start_time": "now"}}`))
	want := `the context has no "parms" (did you mean "params"?); known are params, steps, forEach, workflow, output
forEach must be an object, not an array
steps.a has no "outputt" (did you mean "output"?); known are status, output, action, content, error
steps.a.status "done" is not known; known are completed, failed and skipped
steps.b must be an object, not a number
workflow.step_count must be an integer, not a string
workflow.start_time "now" is not a timestamp of RFC 3339`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// What is explained is what is executed: a single expression has the value of
// its template, whatever stands in it.
func FuzzExplain(f *testing.F) {
	for _, text := range []string{
		"{{.params.name | upper}}", "{{range $i, $t := .steps.done.output.tags}}{{$i}}{{.}}{{break}}{{end}}",
		`{{with .steps.done}}{{$.params.name}}{{end}}`, `{{$x := 1}}{{$x = 2}}{{$x}}`, `{{template "x" .}}{{define "x"}}{{.params}}{{end}}`,
		`{{(index .steps.done.output.items 0).id}}`, `{{and .a (or .b "x")}}`, `{{print (len "x") 'a' 1.5 nil}}`, "{{.}}", "{{$}}",
	} {
		f.Add(text, `{"params":{"name":"Ada"},"steps":{"done":{"output":{"tags":["a","b"]}}}}`)
	}
	files, _ := filepath.Glob("testdata/*.json")
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil {
			f.Add("{{.}}", string(data))
		}
	}
	f.Fuzz(func(t *testing.T, text, context string) {
		s, err := DecodeScope([]byte(context))
		if err != nil {
			s = scope()
		}
		template, bad := parseTemplate(text)
		if bad != nil || len(text) > 1000 {
			return
		}
		explained := explainTemplate(text, s.data())
		if !template.IsSingleExpression() || len(explained) != 1 {
			return
		}
		v, ok, err := template.Value(s.data())
		want, got := resultOf(v, ok, err), explained[0].Result
		if (want.Error == "") != (got.Error == "") || err == nil && (want.Type != got.Type || string(want.Value) != string(got.Value)) {
			t.Errorf("%s\nis        %s\nexplained %s", text, showResult(want), showResult(got))
		}
	})
}

// However much there is to explain, it ends.
func TestExplainIsBounded(t *testing.T) {
	t.Parallel()
	wide := strings.Repeat("{{.params.name}}", 2*maxExplained)
	if got := len(explainTemplate(wide, scope().data())); got != maxExplained {
		t.Errorf("%d expressions are explained, want %d", got, maxExplained)
	}
	heavy := strings.Repeat(`{{len (repeat 9000000 "x")}}`, 100)
	if got := len(explainTemplate(heavy, scope().data())); got > 10 {
		t.Errorf("%d expressions that build 9 MB each are explained", got)
	}
}

// What an explanation wants to be filled in can be filled in.
func TestExplainedContext(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"library/prepare_review.yaml", "library/summarise_changes.yaml", "testdata/plan/loops.yaml", "testdata/ok/for_each.yaml", "testdata/ok/gates.yaml"} {
		p := program(t, readFile(t, file))
		for _, id := range append(stepNames(p), "output") {
			x, err := p.Explain(id, &Scope{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			context, err := EncodeValue(x.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := DecodeScope(context); err != nil {
				t.Errorf("%s %s: %v in %s", file, id, err, context)
			}
		}
	}
}

func stepNames(p *Program) []string {
	var ids []string
	for _, n := range p.Steps {
		ids = append(ids, n.ID)
	}
	return ids
}
