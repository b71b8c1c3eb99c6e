package definitions

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/internal/perduretest"
)

func outputOf(t *testing.T, o *Output) *Program {
	t.Helper()
	p := perduretest.Must(Compile(&Definition{Name: "test", Output: o}))(t)
	return p
}

func TestOutput(t *testing.T) {
	t.Parallel()
	type properties = map[string]*Property
	tests := []struct {
		name       string
		properties properties
		want       string
	}{
		{"nothing declared", properties{}, `{}`},
		{"strings", properties{
			"s": {Type: "string", Value: "{{.steps.done.output.one}}"}, "big": {Type: "string", Value: "{{.params.huge}}"},
			"json": {Type: "string", Value: "{{json .steps.done.output.tags}}"}, "plain": {Type: "string", Value: "{{.steps.done.output.tags}}"}, "empty": {Type: "string", Value: ""},
		}, `{"big":"123456789012345678901234567890","empty":"","json":"[\"a\",\"b\"]","plain":"[a b]","s":"1"}`},
		{"integers", properties{
			"i": {Type: "integer", Value: "{{.params.huge}}"}, "j": {Type: "integer", Value: "{{json .params.big}}"}, "three": {Type: "integer", Value: "{{.params.three}}"},
			"text": {Type: "integer", Value: "{{.steps.done.output.one}}"}, "fixed": {Type: "integer", Value: "5"}, "spaced": {Type: "integer", Value: " {{.params.big}}\n"},
		}, `{"fixed":5,"i":123456789012345678901234567890,"j":12345678,"spaced":12345678,"text":1,"three":3}`},
		{"numbers", properties{
			"n": {Type: "number", Value: "{{.steps.done.output.ratio}}"}, "e": {Type: "number", Value: "1e3"}, "i": {Type: "number", Value: "{{.params.huge}}"}, "m": {Type: "number", Value: "{{.params.price}}0"},
		}, `{"e":1000,"i":123456789012345678901234567890,"m":1234567.5,"n":0.25}`},
		{"booleans", properties{
			"b": {Type: "boolean", Value: "{{.steps.done.output.ok}}"}, "one": {Type: "boolean", Value: "1"}, "zero": {Type: "boolean", Value: "{{.params.zero}}"}, "eq": {Type: "boolean", Value: "{{eq 1 2}}\n"},
		}, `{"b":true,"eq":false,"one":true,"zero":false}`},
		{"arrays and objects", properties{
			"a": {Type: "array", Value: "{{.steps.done.output.tags}}"}, "json": {Type: "array", Value: "{{json (fromJson .steps.done.output.text).files}}"},
			"native": {Type: "array", Value: "{{(fromJson .steps.done.output.text).files}}"}, "o": {Type: "object", Value: "{{.steps.done.output.text}}"}, "sub": {Type: "object", Value: "{{.steps.done.output.sub}}"},
		}, `{"a":["a","b"],"json":[{"name":"a.go"}],"native":[{"name":"a.go"}],"o":{"files":[{"name":"a.go"}],"none":null},"sub":{"k":1}}`},
		{"nested", properties{"summary": {Type: "object", Properties: properties{
			"count": {Type: "integer", Value: "{{.steps.done.output.count}}"}, "inner": {Type: "object", Properties: properties{"word": {Type: "string", Value: "{{.steps.done.output.word}}"}}},
			"absent": {Type: "string", Value: "{{.steps.done.output.nope}}"},
		}}}, `{"summary":{"count":12,"inner":{"word":"word"}}}`},
		{"defaults", properties{
			"missing": {Type: "string", Value: "{{.steps.done.output.nope}}", Default: "dflt"}, "null": {Type: "string", Value: "{{.steps.done.output.nothing}}", Default: 5},
			"missing_int": {Type: "integer", Value: "{{.steps.skipped.output.n}}", Default: 7}, "bad_int": {Type: "integer", Value: "{{.steps.done.output.word}}", Default: "9"},
			"no_json": {Type: "array", Value: "not json", Default: []any{1, 2}}, "json_default": {Type: "array", Value: "x", Default: "[3]"}, "null_json": {Type: "array", Value: "{{json .params.nope}}", Default: []any{}},
			"given": {Type: "string", Value: "{{.steps.done.output.word}}", Default: "unused"}, "expr": {Type: "string", Value: "{{.steps.done.output.word.x.y}}", Default: "expr-default"},
			"false": {Type: "boolean", Value: "{{.params.nope}}", Default: false}, "float": {Type: "integer", Value: "x", Default: 3.0},
			"object": {Type: "object", Default: map[string]any{"d": 1}, Properties: properties{"x": {Type: "integer", Value: "{{.params.nope}}"}}},
		}, `{"bad_int":9,"expr":"expr-default","false":false,"float":3,"given":"word","json_default":[3],"missing":"dflt","missing_int":7,"no_json":[1,2],"null":"5","null_json":[],"object":{"d":1}}`},
		{"an optional string may be missing", properties{"s": {Type: "string", Value: "{{.steps.done.output.nope}}"}, "t": {Type: "string", Value: "[{{.steps.done.output.nope}}]"}}, `{"t":"[]"}`},
		{"workflow", properties{"st": {Type: "string", Value: "{{.workflow.status}}"}, "n": {Type: "integer", Value: "{{.workflow.step_count}}"}, "ms": {Type: "integer", Value: "{{.workflow.duration_ms}}"}}, `{"ms":1500,"n":2,"st":"completed"}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := perduretest.Must(outputOf(t, &Output{Properties: test.properties}).Output(scope(), nil))(t)
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOutputWithout(t *testing.T) {
	t.Parallel()
	if got, err := outputOf(t, nil).Output(scope(), nil); got != nil || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

func TestOutputErrors(t *testing.T) {
	t.Parallel()
	nope := "{{.steps.done.output.nope}}"
	tests := []struct {
		property *Property
		field    string
		message  string
	}{
		{&Property{Type: "integer", Value: nope}, "output.p", "has no value"},
		{&Property{Type: "number", Value: nope}, "output.p", "has no value"},
		{&Property{Type: "boolean", Value: nope}, "output.p", "has no value"},
		{&Property{Type: "array", Value: nope}, "output.p", "has no value"},
		{&Property{Type: "object", Value: "{{json .params.nope}}"}, "output.p", "has no value"},
		{&Property{Type: "string", Value: nope}, "output.p", "is required and has no value"},
		{&Property{Type: "integer", Value: "{{.steps.done.output.word}}"}, "output.p", `"word" is not an integer`},
		{&Property{Type: "integer", Value: "{{.steps.done.output.ratio}}"}, "output.p", `"0.25" is not an integer`},
		{&Property{Type: "number", Value: "inf"}, "output.p", `"inf" is not a number`},
		{&Property{Type: "boolean", Value: "yes"}, "output.p", `"yes" is not a boolean`},
		{&Property{Type: "array", Value: "{{.steps.done.output.sub}}"}, "output.p", `"map[k:1]" is not an array`},
		{&Property{Type: "object", Value: "[1]"}, "output.p", `"[1]" is not an object`},
		{&Property{Type: "integer", Value: nope, Default: "x"}, "output.p", `default: "x" is not an integer`},
		{&Property{Type: "string", Value: "{{.params.name.x}}"}, "output.p", "cannot read .x"},
		{&Property{Type: "object", Properties: map[string]*Property{"title": {Type: "integer", Value: nope}}}, "output.p.title", "has no value"},
	}
	for _, test := range tests {
		p := outputOf(t, &Output{Properties: map[string]*Property{"p": test.property}, Required: []string{"p"}})
		_, err := p.Output(scope(), nil)
		wantTemplateError(t, test.property.Type+" "+test.property.Value, err, test.field, test.message)
	}
	_, err := outputOf(t, &Output{Required: []string{"undeclared"}}).Output(scope(), nil)
	wantTemplateError(t, "required and not declared", err, "output.undeclared", "has no value")
}

// TestStandIns shows that it is known which defaults stand in for values, and why.
func TestStandIns(t *testing.T) {
	t.Parallel()
	p := outputOf(t, &Output{Properties: map[string]*Property{
		"there":   {Type: "string", Value: "{{.params.name}}", Default: "none"},
		"missing": {Type: "integer", Value: "{{.params.nope}}", Default: int64(4)},
		"deep":    {Type: "object", Properties: map[string]*Property{"n": {Type: "integer", Value: "{{.params.name}}", Default: int64(5)}}},
	}})
	var told []string
	got, err := p.Output(scope(), func(path string) { told = append(told, path) })
	if err != nil || string(got) != `{"deep":{"n":5},"missing":4,"there":"Ada"}` {
		t.Fatalf("got %s, %v", got, err)
	}
	if !slices.Equal(told, []string{"output.deep.n", "output.missing"}) {
		t.Errorf("told of %q", told)
	}
}
