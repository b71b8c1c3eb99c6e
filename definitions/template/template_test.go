package template

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/internal/perduretest"
)

// sample is what the templates of these tests read.
func sample() map[string]any {
	return map[string]any{
		"params": map[string]any{
			"name":  "Ada",
			"big":   int64(12345678),
			"huge":  bigInt("123456789012345678901234567890"),
			"price": Float(1234567.5),
			"three": Float(3),
			"zero":  int64(0),
			"null":  nil,
			"list":  []any{int64(1), Float(2.5), nil, "x"},
			"tree":  map[string]any{"b": []any{true}, "a": map[string]any{"n": Float(1e21)}},
			"code":  "{{.params.secret}} {{ broken",
			"json":  `{"title":"T","n":12345678901234567890,"user":null}`,
		},
		"steps": map[string]any{
			"my-step": map[string]any{"output": map[string]any{"text": "dashed"}, "status": "completed"},
		},
	}
}

func mustParse(t testing.TB, text string) *Template {
	t.Helper()
	parsed, err := parseText(text)
	if err != nil {
		t.Fatalf("parseText(%q): %v", text, err)
	}
	return parsed
}

func TestTemplateText(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"plain", "no actions } here", "no actions } here"},
		{"field", "Hello {{.params.name}}!", "Hello Ada!"},
		{"integer in full", "{{.params.big}} {{.params.huge}}", "12345678 123456789012345678901234567890"},
		{"fraction without exponent", "{{.params.price}} {{.params.three}} {{1e21}} {{1234567.5}}", "1234567.5 3 1000000000000000000000 1234567.5"},
		{"missing", "[{{.params.nope}}]", "[]"},
		{"field of missing", "[{{.params.nope.x.y}}{{.nope.x}}]", "[]"},
		{"null and its fields", "[{{.params.null}}{{.params.null.x}}]", "[]"},
		{"missing in parentheses, variable, pipe", "[{{(.params.nope).x}}{{$x := .params.nope}}{{$x}}{{$x.y}}{{.params.nope | print}}]", "[]"},
		{"missing from functions", `[{{index .params "nope"}}{{get .params "nope"}}{{first .params.nope}}{{coalesce .params.nope nil}}]`, "[]"},
		{"Go's format of containers", "{{.params.list}} {{.params.tree}}", "[1 2.5 <nil> x] map[a:map[n:1000000000000000000000] b:[true]]"},
		{"json", "{{json .params.tree}}", `{"a":{"n":1000000000000000000000},"b":[true]}`},
		{"json of markup", `{{json "<a&b>"}}`, `"<a&b>"`},
		{"fromJson", "{{(fromJson .params.json).n}} {{(fromJson .params.json).title}}[{{(fromJson .params.json).user.login}}]", "12345678901234567890 T[]"},
		{"data is no template", "{{.params.code}}!", "{{.params.secret}} {{ broken!"},
		{"comparisons across kinds", "{{gt .params.big 10}} {{gt .params.big 10.0}} {{eq .params.three 3}} {{eq .params.zero 0.0}} {{lt .params.huge .params.big}}", "true true true true false"},
		{"eq of several", `{{eq .params.name "Bob" "Ada"}} {{ne .params.name "Ada"}}`, "true false"},
		{"eq of missing", `{{eq .params.nope ""}} {{ne .params.nope "x"}} {{eq .params.nope nil}} {{eq .params.name nil}} {{eq nil .params.null}}`, "false true true false true"},
		{"truth", "{{if .params.zero}}a{{else if .params.nope}}b{{else if .params.null}}c{{else if .params.huge}}d{{end}}", "d"},
		{"and, or, not decide early", `{{and .params.nope (index .params.list 99)}}{{or .params.name (fail "no")}} {{not .params.zero}}`, "Ada true"},
		{"printf", `{{printf "%.0f|%6.2f|%d|%05d|%s|%v|%q|%x|%t|%c|%%|%-4d|%[2]v" .params.big .params.price .params.three 7 .params.zero .params.list "a" "ab" true 65 8}}`,
			"12345678|1234567.50|3|00007|0|[1 2.5 <nil> x]|\"a\"|6162|true|A|%|8   |1234567.5"},
		{"printf of large integers", `{{printf "%.0f %d %.1f" .params.huge .params.huge 9007199254740993}}`, "123456789012345678901234567890 123456789012345678901234567890 9007199254740993.0"},
		{"printf with stars", `{{printf "%*d|%.*f" 5 42 1 2.55}}`, "   42|2.5"},
		{"printf of missing", `[{{printf "%s%v" .params.nope nil}}]`, "[]"},
		{"print puts spaces as Go does", `{{print 1 2 "a" .params.list .params.nope}}`, "1 2a[1 2.5 <nil> x]"},
		{"html, js, urlquery", `{{html "<a>"}} {{js "'"}} {{urlquery "a b" .params.nope}}`, `&lt;a&gt; \' a+b`},
		{"len, index, slice", `{{len .params.list}} {{index .params.list .params.zero}} {{index .params.list 1.0}} {{slice .params.name 1}} {{slice .params.list 0 2}} {{len "é"}} {{index "a" 0}}`, "4 1 2.5 da [1 2.5] 2 97"},
		{"range", "{{range $i, $e := .params.list}}{{$i}}={{$e}};{{else}}none{{end}}", "0=1;1=2.5;2=;3=x;"},
		{"range over an object is sorted", "{{range $k, $v := .params.tree}}{{$k}}{{end}}", "ab"},
		{"range over missing", "{{range .params.nope}}x{{else}}none{{end}}", "none"},
		{"range over an integer", "{{range 3}}{{.}}{{end}}{{range $i := .params.zero}}x{{end}}", "012"},
		{"break and continue", "{{range 9}}{{if eq . 1}}{{continue}}{{end}}{{if eq . 4}}{{break}}{{end}}{{.}}{{end}}", "023"},
		{"with", "{{with .params.tree}}{{.a.n}} {{$.params.name}}{{end}}{{with .params.nope}}x{{else}}y{{end}}", "1000000000000000000000 Aday"},
		{"comments and trimming", "{{/* a comment */}}{{$x := .params.name}}[ {{- $x -}} ] {{$x}}", "[Ada] Ada"},
		{"assignment", "{{$n := 0}}{{range .params.list}}{{$n = add $n 1}}{{end}}{{$n}}", "4"},
		{"defined templates", `{{define "x"}}<{{.name}}>{{end}}{{template "x" .params}}{{template "x" .params}}`, "<Ada><Ada>"},
		{"block", `{{block "b" .params.tree}}{{.b}}{{end}}`, "[true]"},
		{"only definitions", ` {{define "x"}}a{{end}} `, "  "},
		{"step with a dash", `{{(index .steps "my-step").output.text}} {{(index .steps "my-step" "status")}}`, "dashed completed"},
		{"nothing of the rewriting can be seen", "{{print .}}", "map[params:"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := perduretest.Must(mustParse(t, test.text).Text(sample()))(t)
			if test.text == "{{print .}}" {
				got = got[:len(test.want)]
			}
			if got != test.want {
				t.Errorf("%s\ngave %q\nwant %q", test.text, got, test.want)
			}
		})
	}
}

func TestTemplateErrors(t *testing.T) {
	t.Parallel()
	tests := []struct{ text, want string }{
		{"{{.params.name.x.y}}", "cannot read .x: .params.name is a string; a string has no fields"},
		{"{{.params.list.x}}", "cannot read .x: .params.list is an array; an array has no fields, use index or range"},
		{"{{(fromJson .params.name).x}}", `fromJson: "Ada" is not JSON: invalid character 'A' looking for beginning of value`},
		{"{{fromJson .params.list}}", "fromJson: wants JSON text, got an array"},
		{"{{fromJson .params.nope}}", "fromJson: wants JSON text, got no value"},
		{"{{index .params.list 99}}", "index: index 99 is out of range: the length is 4"},
		{"{{index .params.list 1.5}}", "index: an array is indexed by an integer, not by a number"},
		{`{{index .params.name "x"}}`, "index: an array is indexed by an integer, not by a string"},
		{"{{index .params.big 0}}", "index: a number cannot be indexed"},
		{`{{eq .params.big "12345678"}}`, "eq: cannot compare a number and a string"},
		{"{{eq .params.list .params.list}}", "eq: cannot compare an array and an array"},
		{"{{gt .params.nope 10}}", "gt: cannot order no value and a number"},
		{"{{len .params.nope}}", "len: no value has no length"},
		{"{{upper .params.list}}", "upper: wants a string, got an array"},
		{`{{fail "stop: here"}}`, "fail: stop: here"},
		{`{{printf "%d" 1.5}}`, "printf: %d wants an integer, got 1.5"},
		{`{{printf "%d" .params.nope}}`, "printf: %d wants a number, got no value"},
		{`{{printf "%d"}}`, "printf: %d: there is no argument for it"},
		{`{{printf "x" 1}}`, "printf: has 1 argument for 0 directives"},
		{`{{printf "%z" 1}}`, "printf: %z is no verb that templates have"},
		{`{{printf "%"}}`, "printf: the format ends within a directive"},
		{`{{printf "%p" .params.list}}`, "printf: %p is no verb that templates have"},
		{"{{div 1 0}}", "div: division by zero"},
		{"{{range .params.name}}{{end}}", "range can't iterate over Ada"},
		{`{{regexMatch "(" "x"}}`, "regexMatch: error parsing regexp: missing closing ): `(`"},
	}
	for _, test := range tests {
		_, err := mustParse(t, test.text).Text(sample())
		if err == nil || err.Error() != test.want {
			t.Errorf("%s\nfailed with %v\nwant        %s", test.text, err, test.want)
		}
	}
}

func TestTemplateSyntaxErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text   string
		offset int
		want   string
	}{
		{"{{add 1 99999999999999999999}}", 8, `"99999999999999999999" is too large for a number in a template; read it from text: (int "99999999999999999999")`},
		{"a {{foo .x}}", 4, `function "foo" not found`},
		{"{{fromJsn .x}}", 2, `function "fromJsn" not found (did you mean "fromJson"?)`},
		{"{{.x}} {{upper 1 2}}", 9, "upper takes 1 argument, not 2"},
		{"{{.x | trunc}}", 7, "trunc takes 2 arguments, not 1"},
		{"{{slice}}", 2, "slice takes at least 1 argument, not 0"},
		{"{{slice 1 2 3 4 5}}", 2, "slice takes at most 4 arguments, not 5"},
		{"{{.params.n.SetInt64 5}}", 2, ".params.n.SetInt64 is not a function and takes no arguments"},
		{"{{5 | .params.n.SetInt64}}", 6, ".params.n.SetInt64 is not a function and takes no arguments"},
		{"{{call .x}}", 2, `function "call" not found`},
		{"{{__print .x}}", 2, `function "__print" not found`},
		{"{{env .x}}", 2, `function "env" not found`},
		{"a\nb {{.x", 4, "unclosed action"},
		{"{{if .x}}", 0, "unexpected EOF"},
		{"{{end}}", 0, "unexpected {{end}}"},
		{"{{.x}}\n{{$y}}", 9, `undefined variable "$y"`},
		{"{{1x}}", 2, `bad number syntax: "1x"`},
		{`{{template "x"}}`, 11, `template "x" is not defined`},
		{`{{define "x"}}{{template "y"}}{{end}}{{define "y"}}{{template "x"}}{{end}}`, -2, "calls itself"},
		{`{{define "x"}}{{if 1}}{{template "x"}}{{end}}{{end}}{{template "x"}}`, 33, `template "x" calls itself`},
		{`{{define "x"}}{{nope}}{{end}}`, 16, `function "nope" not found`},
		{"{{" + strings.Repeat("(", 20000) + "}}", -2, "depth"},
		{"{{.x}}" + strings.Repeat("x", 1<<20), -1, "longer than"},
	}
	for _, test := range tests {
		_, err := parseText(test.text)
		if err == nil || !strings.Contains(err.Message, test.want) || strings.Contains(err.Message, "template: ") {
			t.Errorf("parseText(%.80q): %v, want %s", test.text, err, test.want)
		} else if test.offset != -2 && err.Offset != test.offset {
			t.Errorf("parseText(%.80q): %v at %d, want at %d", test.text, err, err.Offset, test.offset)
		}
	}
}

func TestTemplateValue(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want any // nil: no value
	}{
		{"{{.params.list}}", sample()["params"].(map[string]any)["list"]},
		{" {{- .params.big -}}\n", int64(12345678)},
		{"{{.params.three}}\n", Float(3)},
		{"{{.params.code}}", "{{.params.secret}} {{ broken"},
		{"{{/* why */}}{{eq 1 1}}", true},
		{"{{fromJson .params.json | keys}}", []any{"n", "title", "user"}},
		{"{{if true}}", nil},
		{"{{.params.nope.x}}", nil},
		{"{{.params.null}}", nil},
		{"{{dict}}", map[string]any{}},
		{`{{define "x"}}{{.}}{{end}}{{len .params.list}}`, int64(4)},
	}
	for _, test := range tests {
		if test.text == "{{if true}}" {
			continue
		}
		template := mustParse(t, test.text)
		if !template.IsSingleExpression() {
			t.Errorf("%q is not a single expression", test.text)
			continue
		}
		got, ok, err := template.Value(sample())
		if err != nil || ok != (test.want != nil) {
			t.Errorf("%q: ok %v, error %v", test.text, ok, err)
		}
		if diff := cmp.Diff(test.want, got, compareBig); diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.text, diff)
		}
	}
}

func TestTemplateNotASingleExpression(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "x", "{{.a}}{{.b}}", "x{{.a}}", "{{.a}}.", "{{$x := .a}}{{$x}}", "{{$x := .a}}", "{{if .a}}{{.a}}{{end}}", "{{range .a}}{{.}}{{end}}", `{{define "x"}}{{end}}`} {
		template := mustParse(t, text)
		if template.IsSingleExpression() {
			t.Errorf("%q is a single expression", text)
		}
		if _, _, err := template.Value(nil); err == nil {
			t.Errorf("%q has a value", text)
		}
	}
}

func TestTemplateRefs(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []Ref
	}{
		{"none", "plain", nil},
		{"fields", "{{.params.a}} {{.steps.x.output.text}}", []Ref{{"params", []string{"a"}, 2, false}, {"steps", []string{"x", "output", "text"}, 16, false}}},
		{"fields of the same name", "{{.a.a}}{{.a.ab}}", []Ref{{"a", []string{"a"}, 2, false}, {"a", []string{"ab"}, 10, false}}},
		{"argument of a function", "{{(fromJson .steps.pr.output.text).title}}", []Ref{{"steps", []string{"pr", "output", "text"}, 12, false}}},
		{"index with literal keys", `{{(index .steps "my-step").output.text}}`, []Ref{{"steps", []string{"my-step", "output", "text"}, 9, false}}},
		{"several literal keys", `{{index .steps "a" "output" "x"}}`, []Ref{{"steps", []string{"a", "output", "x"}, 8, false}}},
		{"cut at an integer", `{{(index .steps.a.output.items 0).id}}`, []Ref{{"steps", []string{"a", "output", "items"}, 9, false}}},
		{"cut at what is computed", `{{index .steps .params.which "output"}}`, []Ref{{"steps", []string{}, 8, false}, {"params", []string{"which"}, 15, false}}},
		{"piped key", `{{"a" | index .steps}}`, []Ref{{"steps", []string{}, 14, false}}},
		{"pipe", `{{.steps.a.output | json}}`, []Ref{{"steps", []string{"a", "output"}, 2, false}}},
		{"condition and branches", `{{if .params.a}}{{.params.b}}{{else}}{{.params.c}}{{end}}`,
			[]Ref{{"params", []string{"a"}, 5, true}, {"params", []string{"b"}, 18, false}, {"params", []string{"c"}, 39, false}}},
		{"with changes the dot", `{{with .steps.a.output}}{{.text}}{{$.params.b}}{{else}}{{.params.c}}{{end}}`,
			[]Ref{{"steps", []string{"a", "output"}, 7, true}, {"steps", []string{"a", "output", "text"}, 26, false}, {"params", []string{"b"}, 35, false}, {"params", []string{"c"}, 57, false}}},
		{"range hides the dot", `{{range .steps.a.output.items}}{{.id}}{{$.params.b}}{{end}}`,
			[]Ref{{"steps", []string{"a", "output", "items"}, 8, true}, {"params", []string{"b"}, 40, false}}},
		{"variables", `{{$o := .steps.a.output}}{{$o.text}}{{$o = 1}}{{$o.more}}`,
			[]Ref{{"steps", []string{"a", "output"}, 8, false}, {"steps", []string{"a", "output", "text"}, 27, false}}},
		{"range variables", `{{range $i, $e := .params.l}}{{$e.id}}{{end}}`, []Ref{{"params", []string{"l"}, 18, true}}},
		{"called template", `{{define "t"}}{{.text}}{{end}}{{template "t" .steps.a.output}}`,
			[]Ref{{"steps", []string{"a", "output", "text"}, 16, false}, {"steps", []string{"a", "output"}, 45, false}}},
		{"the whole", "{{json .}}{{json $}}{{json .steps}}", []Ref{{"steps", []string{}, 27, false}}},
		{"where it may be missing", `{{default 1 .params.a}}{{.params.b | default 2}}{{not .params.c}}{{and .params.d true}}`,
			[]Ref{{"params", []string{"a"}, 12, true}, {"params", []string{"b"}, 25, true}, {"params", []string{"c"}, 54, true}, {"params", []string{"d"}, 71, false}}},
		{"unknown root", "{{.parms.x}}", []Ref{{"parms", []string{"x"}, 2, false}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, mustParse(t, test.text).Refs()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.text, diff)
			}
		})
	}
}

// A template can be written so that it would never end or fill the memory.
func TestTemplateLimits(t *testing.T) {
	t.Parallel()
	doubling := "{{$l := list 1 1}}{{range 40}}{{$l = list $l $l}}{{end}}"
	objects := `{{$d := dict "a" 1}}{{range 40}}{{$d = dict "a" $d "b" $d}}{{end}}`
	laughs := `{{define "t0"}}{{end}}`
	for i := range 30 {
		laughs += fmt.Sprintf(`{{define "t%d"}}{{template "t%d"}}{{template "t%d"}}{{end}}`, i+1, i, i)
	}
	laughs += `{{template "t30"}}`
	texts := []string{
		`{{repeat 1000000000 "x"}}`,
		`{{repeat 9223372036854775807 "xx"}}`,
		`{{until 1000000000}}`,
		`{{untilStep 0 9223372036854775807 1}}`,
		`{{untilStep -9223372036854775807 9223372036854775807 1}}`,
		`{{printf "%999999999d" 1}}`,
		`{{printf "%.*f" 999999999 1.5}}`,
		`{{range 1000000000}}{{end}}`,
		`{{range 1000000000}}{{/* nothing */}}{{end}}`,
		`{{range 100000}}{{range 100000}}{{end}}{{end}}`,
		`{{range 100000}}{{repeat 1000 "x"}}{{end}}`,
		`{{range 100000}}{{$.x.y}}{{end}}{{range 100000000}}{{$x := 1}}{{end}}`,
		`{{$s := "x"}}{{range 60}}{{$s = print $s $s}}{{end}}`,
		`{{$s := "x"}}{{range 60}}{{$s = cat $s $s}}{{end}}`,
		`{{$s := "x"}}{{range 60}}{{$s = join $s (list $s $s)}}{{end}}`,
		`{{$s := "xx"}}{{range 60}}{{$s = replace "x" $s $s}}{{end}}`,
		`{{$s := "x"}}{{range 60}}{{$s = replace "" $s $s}}{{end}}`,
		`{{$s := "x"}}{{range 60}}{{$s = regexReplaceAll "x" $s "xx"}}{{$s = regexReplaceAll "x" $s $s}}{{end}}`,
		`{{$s := "\""}}{{range 60}}{{$s = quote $s}}{{end}}`,
		`{{$s := "<"}}{{range 60}}{{$s = html $s $s}}{{end}}`,
		`{{$s := "\n"}}{{range 60}}{{$s = indent 1000 $s}}{{$s = print $s $s}}{{end}}`,
		`{{$s := "x"}}{{range 60}}{{$s = b64enc (print $s $s)}}{{end}}`,
		`{{$s := "x"}}{{range 60}}{{$s = printf "%s%s" $s $s}}{{end}}`,
		`{{$l := list 1}}{{range 60}}{{$l = concat $l $l}}{{end}}`,
		`{{$l := list 1}}{{range 1000000}}{{$l = append $l 1}}{{end}}`,
		`{{$l := list 1}}{{range 2000}}{{$l = list $l}}{{end}}{{$l}}`,
		`{{splitList "" (repeat 9000000 "x")}}`,
		`{{regexFindAll "." (repeat 9000000 "x") -1}}`,
		`{{regexMatch "(a?){1000}b" (repeat 500000 "a")}}`,
		`{{regexFindAll "a.*z|a" (repeat 90000 "a") -1}}`,
		`{{range 100000}}{{$x := regexMatch "a{1000}" "b"}}{{end}}`,
		`{{range 100000}}{{$x := semverCompare ">=10.0.0-alpha <11 || 12 - 13 || 14 || 15 || 16" "1.2.3"}}{{end}}`,
		`{{$x := atoi (repeat 9900 "9")}}{{$y := atoi (repeat 4900 "9")}}{{range 100000}}{{$z := div $x $y}}{{end}}`,
		`{{$o := split "," (repeat 90000 "a,")}}{{range $o}}{{range $o}}{{break}}{{end}}{{end}}`,
		`{{$o := split "," (repeat 90000 "a,")}}{{range 100000}}{{$x := keys $o}}{{end}}`,
		`{{$o := split "," (repeat 90000 "a,")}}{{range 100000}}{{$x := pick $o "_1"}}{{end}}`,
		`{{$o := split "," (repeat 90000 "a,")}}{{range 100000}}{{$x := json $o}}{{end}}`,
		`{{$l := until 90000}}{{range 100000}}{{$x := sortAlpha $l}}{{end}}`,
		`{{$n := 10}}{{range 60}}{{$n = mul $n $n}}{{end}}`,
		doubling + `{{$l}}`,
		doubling + `{{json $l}}`,
		doubling + `{{toString $l}}`,
		doubling + `{{print $l}}`,
		doubling + `{{printf "%v" $l}}`,
		doubling + `{{join "" $l}}`,
		doubling + `{{has $l (list $l)}}`,
		doubling + `{{uniq (list $l $l)}}`,
		objects + `{{$d}}`,
		objects + `{{toPrettyJson $d}}`,
		objects + `{{merge $d $d}}`,
		laughs,
	}
	for _, text := range texts {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			got, err := mustParse(t, text).Text(map[string]any{})
			if err == nil {
				t.Errorf("%s gave %.20q", text, got)
			} else if message := err.Error(); len(message) > 600 || !strings.Contains(message, "limit") && !strings.Contains(message, "more than") && !strings.Contains(message, "too many") {
				t.Errorf("%s failed with %s", text, message)
			}
		})
	}
}

func TestTemplateLimitsOfData(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"{{.x}}", "{{.x}} ", "a{{.x}}", "{{range .l}}{{$.x}}{{end}}"} {
		_, err := mustParse(t, text).Text(map[string]any{"x": strings.Repeat("x", MaxExpansion+1), "l": []any{int64(1)}})
		if err == nil || !strings.Contains(err.Error(), "MaxExpansion") {
			t.Errorf("%s of too much text: %v", text, err)
		}
	}
	large := map[string]any{"x": strings.Repeat("x", MaxExpansion+1), "y": []any{strings.Repeat("x", MaxExpansion)}}
	for _, text := range []string{"{{.x | trim}}", "{{index .y 0 | print 1}}", "{{(list .y)}}"} {
		if _, _, err := mustParse(t, text).Value(large); err == nil || !strings.Contains(err.Error(), "MaxExpansion") {
			t.Errorf("the value of %s: %v", text, err)
		}
	}
	for _, text := range []string{"{{.x}}", " {{ .y }} "} { // which only name it
		if _, ok, err := mustParse(t, text).Value(large); !ok || err != nil {
			t.Errorf("the value of %s: %v", text, err)
		}
	}
	array := []any{strings.Repeat("x", MaxNamedValue/4)}
	larger := map[string]any{"x": strings.Repeat("x", MaxNamedValue+1), "y": []any{array, array, array, array}}
	for _, text := range []string{"{{.x}}", "{{.y}}"} {
		if _, _, err := mustParse(t, text).Value(larger); err == nil || !strings.Contains(err.Error(), "MaxNamedValue") {
			t.Errorf("the value of %s: %v", text, err)
		}
	}
}

// An expansion leaves nothing behind for the next one.
func TestTemplateExpansionsAreIndependent(t *testing.T) {
	t.Parallel()
	work := mustParse(t, `{{$x := repeat 9000000 "x"}}{{len $x}}`)
	value := mustParse(t, "{{.a}}")
	for i := range 50 {
		if got, err := work.Text(nil); err != nil || got != "9000000" {
			t.Fatalf("run %d: %q, %v", i, got, err)
		}
		if _, ok, err := value.Value(map[string]any{}); ok || err != nil {
			t.Fatalf("run %d: a value of nothing (%v)", i, err)
		}
		if got, err := value.Text(map[string]any{"a": "x"}); err != nil || got != "x" {
			t.Fatalf("run %d: %q, %v", i, got, err)
		}
	}
}

// Expanding changes nothing of the data.
func TestTemplateLeavesDataAlone(t *testing.T) {
	t.Parallel()
	data := sample()
	for _, text := range []string{
		"{{append .params.list 9}}{{prepend .params.list 9}}{{reverse .params.list}}{{sortAlpha .params.list}}{{concat .params.list .params.list}}",
		`{{merge .params.tree (dict "z" 1)}}{{mergeOverwrite .params.tree (dict "a" (dict "n" 2))}}{{omit .params.tree "a"}}{{compact .params.list}}`,
		`{{$l := slice .params.list 0 1}}{{append $l "overwritten"}}{{$i := initial .params.list}}{{append $i "overwritten"}}`,
	} {
		if _, err := mustParse(t, text).Text(data); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if diff := cmp.Diff(sample(), data, compareBig); diff != "" {
		t.Errorf("the data changed (-want +got):\n%s", diff)
	}
}

func FuzzParseTemplate(f *testing.F) {
	for _, seed := range []string{
		"{{.params.a}} b", "{{/* c */}}", `{{define "x"}}{{.}}{{end}}{{template "x" .params}}`, "{{range $i, $e := .params.list}}{{$e.x}}{{end}}",
		`{{(index .steps "a").output | json | fromJson}}`, "{{with $x := .params}}{{$x.list}}{{else}}{{.}}{{end}}", `{{printf "%[1]*d %v" 3 .params.list}}`,
		"{{if and .a (not .b)}}{{else if eq 1 2.0}}{{break}}{{end}}", "{{ 1e9 | add 0x10 'a' }}", "{{- `x` -}}", "{{slice .params.list 1 2}}", "{{merge .params .params.tree}}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 2000 {
			return
		}
		template, syntax := parseText(text)
		if syntax != nil {
			if syntax.Message == "" || syntax.Offset > len(text) {
				t.Fatalf("%q: %+v", text, syntax)
			}
			return
		}
		for _, ref := range template.Refs() {
			if ref.Offset < 0 || ref.Offset > len(text) {
				t.Fatalf("%q reads %+v", text, ref)
			}
		}
		out, err := template.Text(sample())
		if len(out) > MaxExpansion || err != nil && strings.Contains(err.Error(), "__") && !strings.Contains(text, "__") {
			t.Fatalf("%q gave %d bytes, error %v", text, len(out), err)
		}
		if again, _ := template.Text(sample()); again != out {
			t.Fatalf("%q gave %q, then %q", text, out, again)
		}
		if template.IsSingleExpression() {
			if _, ok, err := template.Value(sample()); ok && err != nil {
				t.Fatalf("%q has a value and an error: %v", text, err)
			}
		}
	})
}
