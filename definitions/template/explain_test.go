package template

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// explainedData is what the explained templates read.
func explainedData() map[string]any {
	data := sample()
	data["steps"] = map[string]any{
		"done": map[string]any{"status": "completed", "error": "", "output": map[string]any{
			"tags": []any{"a", "b"}, "count": int64(12), "text": `{"files":[{"name":"a.go"}],"none":null}`, "ok": true, "one": "1",
			"sub": map[string]any{"k": int64(1)}, "word": "word", "ratio": Float(0.25), "nothing": nil, "items": []any{map[string]any{"id": int64(0)}},
		}},
		"bad": map[string]any{"status": "failed", "error": "planned failure"},
	}
	return data
}

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
		got := outline(Explain(test.text, explainedData()), "")
		if test.name == "with" { // the whole step is long
			encoded, _ := EncodeValue(explainedData()["steps"].(map[string]any)["done"])
			test.want = strings.Replace(test.want, "SAME", string(encoded), 1)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", test.name, test.text, diff)
		}
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
	f.Fuzz(func(t *testing.T, text, context string) {
		var data any = explainedData()
		if decoded, err := DecodeValue([]byte(context)); err == nil {
			data = decoded
		}
		parsed, bad := Parse(text)
		if bad != nil || len(text) > 1000 {
			return
		}
		explained := Explain(text, data)
		if !parsed.IsSingleExpression() || len(explained) != 1 {
			return
		}
		v, ok, err := parsed.Value(data)
		want, got := ResultOf(v, ok, err), explained[0].Result
		if (want.Error == "") != (got.Error == "") || err == nil && (want.Type != got.Type || string(want.Value) != string(got.Value)) {
			t.Errorf("%s\nis        %s\nexplained %s", text, showResult(want), showResult(got))
		}
	})
}

// However much there is to explain, it ends.
func TestExplainIsBounded(t *testing.T) {
	t.Parallel()
	wide := strings.Repeat("{{.params.name}}", 2*maxExplained)
	if got := len(Explain(wide, explainedData())); got != maxExplained {
		t.Errorf("%d expressions are explained, want %d", got, maxExplained)
	}
	heavy := strings.Repeat(`{{len (repeat 9000000 "x")}}`, 100)
	if got := len(Explain(heavy, explainedData())); got > 10 {
		t.Errorf("%d expressions that build 9 MB each are explained", got)
	}
}
