package definitions

import (
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/perduretest"
)

// scope is what the programs of these tests read.
func scope() *Scope {
	huge, _ := new(big.Int).SetString("123456789012345678901234567890", 10)
	return &Scope{
		Params: map[string]any{
			"name": "Ada", "big": int64(12345678), "huge": huge, "price": template.Float(1234567.5), "three": template.Float(3),
			"zero": int64(0), "null": nil, "null_text": "null\n", "list": []any{int64(1), template.Float(2.5), nil, "x"},
			"tree": map[string]any{"b": []any{true}, "a": map[string]any{"n": template.Float(1e21)}},
			"code": "{{.params.secret}} {{ broken", "json": `{"title":"T","n":12345678901234567890,"user":null}`,
		},
		Steps: map[string]any{
			"done": StepScope{Status: "completed", Output: map[string]any{
				"tags": []any{"a", "b"}, "count": int64(12), "text": `{"files":[{"name":"a.go"}],"none":null}`, "ok": true, "one": "1",
				"sub": map[string]any{"k": int64(1)}, "word": "word", "ratio": template.Float(0.25), "nothing": nil, "items": []any{map[string]any{"id": int64(0)}},
			}}.Data(),
			"gate":    StepScope{Status: "completed", Action: "accept", Content: map[string]any{"why": "because"}, Output: map[string]any{"action": "accept"}}.Data(),
			"bad":     StepScope{Status: "failed", Error: "planned failure"}.Data(),
			"skipped": StepScope{Status: "skipped"}.Data(),
		},
		Workflow: WorkflowScope{ID: "deploy/abc", Status: "completed", StepCount: 2, DurationMS: 1500, StartTime: time.Date(2026, 8, 21, 12, 0, 0, 5, time.FixedZone("", 7200))},
		ForEach:  map[string]any{"item": map[string]any{"i": int64(2)}, "index": 1},
	}
}

func compileSteps(t testing.TB, steps ...*Step) *Program {
	t.Helper()
	p := perduretest.Must(Compile(&Definition{Name: "test", Steps: steps}))(t)
	return p
}

func mustDecode(t testing.TB, text string) any {
	t.Helper()
	v, err := template.DecodeValue([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// typed is an input schema with a property of each kind.
const typed = `{"type":"object","properties":{
	"s":{"type":"string"},"i":{"type":"integer"},"n":{"type":"number"},"b":{"type":"boolean"},
	"a":{"type":"array","items":{"type":"integer"}},"o":{"type":"object","properties":{"i":{"type":"integer"},"l":{"type":"array","items":{"type":"number"}}}},
	"ref":{"$ref":"#/$defs/count"},"loop":{"$ref":"#/$defs/loop"},"any":{"anyOf":[{"type":"integer"},{"type":"string"}]},
	"si":{"type":["string","integer"]},"ni":{"type":["integer","null"]},"all":{"allOf":[{"description":"x"},{"type":"boolean"}]},
	"enum":{"enum":[1,2]},"words":{"enum":["1","2"]},"free":{},"yes":true,
	"pair":{"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":{"type":"boolean"}},
	"map":{"type":"object","additionalProperties":{"type":"number"}},"either":{"oneOf":[{"type":"array"},{"type":"object"}]}},
	"$defs":{"count":{"type":"integer"},"loop":{"$ref":"#/$defs/loop"}}}`

func TestExpandArguments(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, arguments, schema, want string }{
		{"none", `{}`, typed, `{}`},
		{"literals pass", `{"i":5,"f":1.5,"b":"yes","nul":null,"l":[1,"x"],"o":{"k":1},"s":7}`, typed, `{"b":"yes","f":1.5,"i":5,"l":[1,"x"],"nul":null,"o":{"k":1},"s":7}`},
		{"literal text is coerced", `{"i":"5","n":"2.50","b":"TRUE","a":"[1]","s":"5"}`, typed, `{"a":[1],"b":true,"i":5,"n":2.5,"s":"5"}`},
		{"integers in full", `{"i":"{{.params.huge}}","s":"{{.params.huge}}","n":"{{.params.big}}","x":"{{.params.big}}"}`, typed,
			`{"i":123456789012345678901234567890,"n":12345678,"s":"123456789012345678901234567890","x":"12345678"}`},
		{"integers in text", `{"s":"run {{.params.big}}","i":"{{.params.big}}0"}`, typed, `{"i":123456780,"s":"run 12345678"}`},
		{"fractions", `{"s":"{{.params.price}} EUR","n":"{{.params.price}}","i":"{{.params.three}}"}`, typed, `{"i":3,"n":1234567.5,"s":"1234567.5 EUR"}`},
		{"what cannot be coerced stays text", `{"i":"x{{.params.nope}}","n":"0x10","b":"maybe","a":"{not json","o":"[1]"}`, typed, `{"a":"{not json","b":"maybe","i":"x","n":"0x10","o":"[1]"}`},
		{"integers and decimals in text", `{"i":" 12.0 ","a":["1e3","-7","+7","1_0",""]}`, typed, `{"a":["1e3",-7,7,"1_0",""],"i":12}`},
		{"numbers in text", `{"n":"1e3","map":{"a":"inf","b":"NaN","c":"-.5","d":"1_0"}}`, typed, `{"map":{"a":"inf","b":"NaN","c":-0.5,"d":"1_0"},"n":1000}`},
		{"values keep their shape", `{"a":"{{.steps.done.output.tags}}","o":"{{.steps.done.output.sub}}","b":"{{.steps.done.output.ok}}"}`, typed, `{"a":["a","b"],"b":true,"o":{"k":1}}`},
		{"JSON text becomes what is asked for", `{"a":"{{json .steps.done.output.tags}}","o":"{{json .forEach.item}}","s":"{{json .steps.done.output.tags}}"}`, typed, `{"a":["a","b"],"o":{"i":2},"s":"[\"a\",\"b\"]"}`},
		{"text where text is asked for", `{"s":"{{.steps.done.output.tags}}"}`, typed, `{"s":"[a b]"}`},
		{"text where nothing is known", `{"x":"{{.steps.done.output.count}}","free":"{{.steps.done.output.sub}}","yes":"{{len .steps.done.output.tags}}"}`, typed, `{"free":"map[k:1]","x":"12","yes":"2"}`},
		{"without a schema", `{"n":"{{len .steps.done.output.tags}}","sub":"{{json .steps.done.output.sub}}","same":"{{eq 1 1}}"}`, ``, `{"n":"2","same":"true","sub":"{\"k\":1}"}`},
		{"schema that says nothing", `{"n":"{{.params.big}}"}`, `true`, `{"n":"12345678"}`},
		{"another kind than is asked for", `{"i":"{{.steps.done.output.ok}}","o":"{{.steps.done.output.tags}}","b":"{{.steps.done.output.one}}"}`, typed, `{"b":true,"i":"true","o":"[a b]"}`},
		{"missing is left out", `{"i":"{{.params.nope}}","s":"{{.params.nope}}","x":"{{.params.null}}","o":{"i":"{{.steps.skipped.output.x}}","k":"{{.steps.never.output.x}}"}}`, typed, `{"o":{}}`},
		{"missing within text is empty", `{"s":"[{{.params.nope}}]"}`, typed, `{"s":"[]"}`},
		{"missing within an array is null", `{"a":["{{.params.nope}}","{{.params.big}}",["{{.params.nope}}"]]}`, typed, `{"a":[null,12345678,[null]]}`},
		{"json of missing", `{"a":"{{json .params.nope}}","o":"{{json .params.null}}","s":"{{json .params.nope}}"}`, typed, `{"s":"null"}`},
		{"nested", `{"o":{"i":"{{.params.big}}","l":["{{.params.price}}","1"]},"q":{"i":"1"}}`, typed, `{"o":{"i":12345678,"l":[1234567.5,1]},"q":{"i":"1"}}`},
		{"texts within JSON text", `{"a":"[\"1\", {{.params.big}}, [\"2\"], \"x\"]","o":"{\"i\":\"1\",\"l\":[\"1.5\"],\"k\":\"1\"}","pair":"[\"1\",\"1\",\"1\",\"1\"]"}`, typed, `{"a":[1,12345678,["2"],"x"],"o":{"i":1,"k":"1","l":[1.5]},"pair":[1,"1",true,true]}`},
		{"texts within a value", `{"a":"{{fromJson \"[\\\"1\\\", null]\"}}","o":"{{dict \"i\" \"7\" \"l\" (list \"2\" \"y\")}}"}`, typed, `{"a":[1,null],"o":{"i":7,"l":[2,"y"]}}`},
		{"references", `{"ref":"{{.params.big}}","loop":"{{.params.big}}"}`, typed, `{"loop":"12345678","ref":12345678}`},
		{"alternatives", `{"any":"12","si":"12","ni":"12","all":"true","enum":"1","words":"1"}`, typed, `{"all":true,"any":12,"enum":1,"ni":12,"si":"12","words":"1"}`},
		{"the first alternative that fits", `{"any":"x","ni":"x","either":"{\"a\":1}"}`, typed, `{"any":"x","either":{"a":1},"ni":"x"}`},
		{"alternatives and values", `{"si":"{{.params.big}}","any":"{{.params.big}}","either":"{{.steps.done.output.sub}}"}`, typed, `{"any":12345678,"either":{"k":1},"si":12345678}`},
		{"items by place", `{"pair":["1","1","1"]}`, typed, `{"pair":[1,"1",true]}`},
		{"items as before draft 2020-12", `{"p":["1","1"]}`, `{"properties":{"p":{"items":[{"type":"integer"},{"type":"string"}]}}}`, `{"p":[1,"1"]}`},
		{"white space around an expression", `{"a":"{{.steps.done.output.tags}}\n","i":" {{.params.big}}\n","s":"{{.params.name}}\n","x":"{{.params.nope}}\n"}`, typed, `{"a":["a","b"],"i":12345678,"s":"Ada\n"}`},
		{"forEach", `{"s":"{{.forEach.index}}:{{.forEach.item}}","i":"{{.forEach.index}}","o":"{{.forEach.item}}"}`, typed, `{"i":1,"o":{"i":2},"s":"1:map[i:2]"}`},
		{"steps", `{"s":"{{.steps.done.status}} {{.steps.bad.status}} {{.steps.bad.error}} {{.steps.skipped.status}} {{.steps.gate.action}} {{.steps.gate.content.why}}"}`, typed, `{"s":"completed failed planned failure skipped accept because"}`},
		{"workflow", `{"s":"{{.workflow.id}} {{.workflow.status}} {{.workflow.step_count}} {{.workflow.duration_ms}} {{.workflow.start_time}}{{.vars.x}}"}`, typed, `{"s":"deploy/abc completed 2 1500 2026-08-21T10:00:00Z"}`},
		{"markup stays as it is", `{"s":"<b> & {{.params.name}}"}`, typed, `{"s":"<b> & Ada"}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			arguments := mustDecode(t, test.arguments).(map[string]any)
			node := compileSteps(t, &Step{ID: "a", Arguments: arguments}).Steps[0]
			for range 2 { // the second time with the schema of the first
				got := perduretest.Must(node.Arguments(scope(), json.RawMessage(test.schema)))(t)
				if diff := cmp.Diff(test.want, string(got)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestExpandArgumentsErrors(t *testing.T) {
	t.Parallel()
	tests := []struct{ arguments, schema, field, message string }{
		{`{"outer":{"inner":"{{(fromJson .params.name).x}}"}}`, typed, "arguments.outer.inner", "is not JSON"},
		{`{"l":[1,{"k":"{{index .params.list 99}}"}]}`, typed, "arguments.l[1].k", "out of range"},
		{`{"s":"{{repeat 1000000000 \"x\"}}"}`, typed, "arguments.s", "limit MaxExpansion"},
		{`{}`, `{`, "arguments", "input schema"},
	}
	for _, test := range tests {
		node := compileSteps(t, &Step{ID: "a", Arguments: mustDecode(t, test.arguments).(map[string]any)}).Steps[0]
		_, err := node.Arguments(scope(), json.RawMessage(test.schema))
		wantTemplateError(t, test.arguments, err, test.field, test.message)
	}
}

func wantTemplateError(t *testing.T, what string, err error, field, message string) {
	t.Helper()
	var failed *template.FieldError
	if !errors.As(err, &failed) || failed.Field != field || !strings.Contains(failed.Err.Error(), message) {
		t.Errorf("%s: got %v, want %s: …%s…", what, err, field, message)
	} else if err.Error() != failed.Field+": "+failed.Err.Error() {
		t.Errorf("%s: the error reads %q", what, err)
	}
}

func TestCondition(t *testing.T) {
	t.Parallel()
	tests := []struct {
		condition string
		want      bool
		message   string // of the error
	}{
		{"", true, ""},
		{"true", true, ""},
		{"{{.steps.done.output.ok}}", true, ""},
		{" {{eq 1 1}}\n", true, ""},
		{"True", true, ""},
		{"TRUE", true, ""},
		{"False", false, ""},
		{"FALSE", false, ""},
		{"{{gt .steps.done.output.count 10}}", true, ""},
		{`{{eq .steps.gate.output.action "accept"}}`, true, ""},
		{`{{or .params.nope (and (ne .params.name "x") (eq .steps.bad.error ""))}}`, false, ""},
		{"tRUE", false, `rendered to "tRUE", which is neither true nor false`},
		{"{{.params.nope}}", false, `rendered to ""`},
		{"{{.params.big}}", false, `rendered to "12345678"`},
		{"{{.params.name.x}}", false, "cannot read .x"},
		{strings.Repeat("x", 1000), false, "…"},
	}
	for _, test := range tests {
		node := compileSteps(t, &Step{ID: "a", Condition: test.condition}).Steps[0]
		got, err := node.Condition(scope())
		if got != test.want {
			t.Errorf("%q is %v", test.condition, got)
		}
		if test.message != "" {
			wantTemplateError(t, test.condition, err, "condition", test.message)
		} else if err != nil {
			t.Errorf("%q: %v", test.condition, err)
		}
	}
}

func TestCollection(t *testing.T) {
	t.Parallel()
	tests := []struct{ collection, want, message string }{
		{`[300, 10.5, "a"]`, `[300,10.5,"a"]`, ""},
		{"[]", "[]", ""},
		{"{{.steps.done.output.tags}}", `["a","b"]`, ""},
		{"{{json .steps.done.output.items}}", `[{"id":0}]`, ""},
		{"{{json (fromJson .steps.done.output.text).files}}\n", `[{"name":"a.go"}]`, ""},
		{"{{(fromJson .steps.done.output.text).files}}", `[{"name":"a.go"}]`, ""},
		{"[{{.params.big}}, {{.params.big}}]", "[12345678,12345678]", ""},
		{"{{list 1 2}}", "[1,2]", ""},
		{"{{.params.nope}}", "", "has no value"},
		{"{{json .params.nope}}", "[]", ""},
		{"{{.steps.done.output.nothing}}", "[]", ""},
		{"{{json .steps.done.output.nothing}}", "[]", ""},
		{"{{.params.null_text}}", "[]", ""},
		{"{{.steps.done.output.nothing.more}}", "", "has no value"},
		{"{{.params.name}}", "", `rendered to "Ada"`},
		{"{{.steps.done.output.sub}}", `[k: 1]`, ""},
		{`{"b":{{.params.big}},"a":[1]}`, `[a: [1], b: 12345678]`, ""},
		{"{{json .steps.done.output.sub}}\n", `[k: 1]`, ""},
		{"{}", "[]", ""},
		{"[1", "", `rendered to "[1"`},
		{`{"a":1`, "", `rendered to "{\"a\":1"`},
		{"{{fromJson .params.name}}", "", "is not JSON"},
	}
	for _, test := range tests {
		node := compileSteps(t, &Step{ID: "a", Type: ForEachStep, Collection: test.collection, Step: &Step{}}).Steps[0]
		got, err := node.Collection(scope())
		if test.message != "" {
			wantTemplateError(t, test.collection, err, "collection", test.message)
			continue
		}
		if listed := listItems(t, got); err != nil || listed != test.want {
			t.Errorf("%s gave %s, %v, want %s", test.collection, listed, err, test.want)
		}
	}
}

// listItems writes items as [value,value] or [key: value, key: value].
func listItems(t *testing.T, items []Item) string {
	t.Helper()
	var b strings.Builder
	for i, item := range items {
		encoded := perduretest.Must(template.EncodeValue(item.Value))(t)
		switch {
		case item.Key != "" && i > 0:
			b.WriteString(", " + item.Key + ": ")
		case item.Key != "":
			b.WriteString(item.Key + ": ")
		case i > 0:
			b.WriteString(",")
		}
		b.Write(encoded)
	}
	return "[" + b.String() + "]"
}

func TestMessage(t *testing.T) {
	t.Parallel()
	p := compileSteps(t, &Step{ID: "a", Message: "Deploy #{{.params.big}} to {{.params.nope}}?"}, &Step{ID: "b", Message: "{{fail \"no\"}}"})
	if got, err := p.Steps[0].Message(scope()); err != nil || got != "Deploy #12345678 to ?" {
		t.Errorf("%q, %v", got, err)
	}
	_, err := p.Steps[1].Message(scope())
	wantTemplateError(t, "message", err, "message", "fail: no")
}

// A step without data to read is expanded as well.
func TestEmptyScope(t *testing.T) {
	t.Parallel()
	node := compileSteps(t, &Step{ID: "a", Arguments: map[string]any{"s": "{{.params.a}}{{.steps.b.output.c}}{{.forEach.item}}{{.workflow.start_time}}."}}).Steps[0]
	got, err := node.Arguments(&Scope{}, nil)
	if err != nil || string(got) != `{"s":"."}` {
		t.Errorf("%s, %v", got, err)
	}
}

func TestCompileOrder(t *testing.T) {
	t.Parallel()
	p := compileSteps(t,
		&Step{ID: "last", DependsOn: []string{"z", "loop"}},
		&Step{ID: "z", Arguments: map[string]any{"l": []any{map[string]any{"k": "{{.steps.a.output.x}}"}}}},
		&Step{ID: "a", DependsOn: []string{"b"}},
		&Step{ID: "b"},
		&Step{ID: "loop", Collection: "{{.steps.b.output.l}}", Step: &Step{ID: "inner", Arguments: map[string]any{"x": `{{(index .steps "z").output}}`}}},
		&Step{ID: "gate", Message: "{{with .steps.a}}{{.status}}{{end}}", Condition: "{{eq .steps.b.status \"x\"}}", DependsOn: []string{"b", "b"}},
		&Step{ID: "self", Condition: "{{.steps.self.status}}{{.steps.unknown.status}}{{json .steps}}"},
	)
	type node struct{ ID, Deps string }
	var steps, order []node
	for _, n := range p.Steps {
		steps = append(steps, node{n.ID, strings.Join(n.Deps, " ")})
	}
	for _, n := range p.Order() {
		order = append(order, node{ID: n.ID})
	}
	if diff := cmp.Diff([]node{{"last", "z loop"}, {"z", "a"}, {"a", "b"}, {"b", ""}, {"loop", "z b"}, {"gate", "a b"}, {"self", ""}}, steps); diff != "" {
		t.Errorf("dependencies (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]node{{ID: "b"}, {ID: "a"}, {ID: "z"}, {ID: "loop"}, {ID: "last"}, {ID: "gate"}, {ID: "self"}}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if inner := p.Steps[4].Inner; inner == nil || inner.ID != "inner" {
		t.Errorf("the inner step is %v", inner)
	}
}

func TestCompileErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		d     Definition
		wants []string
	}{
		{"condition", Definition{Steps: []*Step{{ID: "a", Condition: "{{"}}}, []string{`step "a"`, "condition"}},
		{"argument", Definition{Steps: []*Step{{ID: "a", Arguments: map[string]any{"l": []any{"{{foo}}"}}}}}, []string{`step "a"`, "arguments.l[0]", `"foo"`}},
		{"message", Definition{Steps: []*Step{{ID: "a", Message: "{{end}}"}}}, []string{`step "a"`, "message"}},
		{"collection", Definition{Steps: []*Step{{ID: "a", Collection: "{{end}}"}}}, []string{`step "a"`, "collection"}},
		{"inner step", Definition{Steps: []*Step{{ID: "a", Step: &Step{Arguments: map[string]any{"x": "{{end}}"}}}}}, []string{`step "a"`, "inner step", "arguments.x"}},
		{"cycle", Definition{Steps: []*Step{{ID: "free"}, {ID: "a", DependsOn: []string{"b"}}, {ID: "b", Condition: "{{.steps.a.status}}"}}}, []string{"wait for each other: a, b"}},
		{"unknown step", Definition{Steps: []*Step{{ID: "a", DependsOn: []string{"nope"}}}}, []string{`"a"`, `"nope"`}},
		{"two of one name", Definition{Steps: []*Step{{ID: "a"}, {ID: "a"}}}, []string{`"a"`}},
		{"output", Definition{Output: &Output{Properties: map[string]*Property{"o": {Type: "object", Properties: map[string]*Property{"x": {Value: "{{end}}"}}}}}}, []string{"output.o.x"}},
		{"empty property", Definition{Output: &Output{Properties: map[string]*Property{"o": nil}}}, []string{"output.o"}},
	}
	for _, test := range tests {
		_, err := Compile(&test.d)
		for _, want := range test.wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", test.name, err, want)
			}
		}
	}
}

func FuzzExpandArguments(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"s":"{{.params.name}}","i":"5","a":["{{.params.nope}}"]}`, typed},
		{`{"o":{"i":"{{.params.big}}"},"any":"1"}`, `{"$ref":"#/$defs/x","$defs":{"x":{"properties":{"o":{"$ref":"#"},"any":{"anyOf":[{"$ref":"#/$defs/x"},{"type":["integer"]}]}}}}}`},
		{`{"x":"{{.params.list}}"}`, `{"properties":{"x":{"type":"array","items":false}}}`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, arguments, schema string) {
		v, err := template.DecodeValue([]byte(arguments))
		object, ok := v.(map[string]any)
		if err != nil || !ok {
			return
		}
		p, err := Compile(&Definition{Steps: []*Step{{ID: "a", Arguments: object}}})
		if err != nil {
			return
		}
		got, err := p.Steps[0].Arguments(scope(), json.RawMessage(schema))
		if err != nil {
			return
		}
		if !json.Valid(got) || got[0] != '{' {
			t.Fatalf("%s with %s gave %s", arguments, schema, got)
		}
	})
}

func FuzzCondition(f *testing.F) {
	for _, seed := range []string{"true", " {{.params.ok}}\n", "{{eq .params.big 1}}", "{{.steps.done.output.ok}}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, condition string) {
		p, err := Compile(&Definition{Steps: []*Step{{ID: "a", Condition: condition}}})
		if err != nil || len(condition) > 2000 {
			return
		}
		if got, err := p.Steps[0].Condition(scope()); got && err != nil {
			t.Fatalf("%q is true, and an error: %v", condition, err)
		}
	})
}

func BenchmarkExpandArguments(b *testing.B) {
	node := compileSteps(b, &Step{ID: "a", Arguments: map[string]any{
		"s": "run {{.params.big}} of {{.params.name}}", "i": "{{.params.big}}", "n": "{{.steps.done.output.ratio}}",
		"a": "{{json .steps.done.output.tags}}", "b": "{{eq .steps.gate.output.action \"accept\"}}",
	}}).Steps[0]
	s, schema := scope(), json.RawMessage(typed)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := node.Arguments(s, schema); err != nil {
			b.Fatal(err)
		}
	}
}

func TestProgramAt(t *testing.T) {
	t.Parallel()
	defs, diags := Parse("at.yaml", []byte(`{name: a, description: d, steps: [{id: one, tool: t},
		{id: each, type: forEach, collection: "[]", step: {id: inner, type: forEach, collection: "[]", step: {tool: deep}}},
		{id: plain, type: forEach, collection: "[]", step: {type: forEach, collection: "[]", step: {id: named, tool: unnamed}}}]}`))
	perduretest.NoError(t, diags.Err())
	p := perduretest.Must(Compile(defs[0]))(t)
	for path, want := range map[string]string{
		"one": "t", "each": "forEach", "each[0]/inner": "forEach of each", "each[12]/inner[3]": "deep of inner", "plain[0]/step[1]": "unnamed of ",
		"": "", "two": "", "one[0]": "", "one/reconciliation": "", "one/compensate#1": "", "each[0]": "", "each[0]/other": "", "each[0": "",
		"each[0]/inner[1]/probe#1": "", "each[0]/innerx": "", "each[": "", "/": "", "[0]": "", "each[0]x": "",
	} {
		n, loop := p.At(StepPath(path))
		got := ""
		if n != nil {
			got = n.Step.Tool + strings.TrimSuffix(string(n.Step.Type), "tool")
		}
		if loop != nil {
			got += " of " + loop.ID
		}
		if got != want {
			t.Errorf("%q is %q, want %q", path, got, want)
		}
	}
}
