package definitions

import (
	"encoding/json"
	"testing"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/perduretest"
)

func TestCollect(t *testing.T) {
	t.Parallel()
	output := map[string]any{"text": "hello", "n": int64(7), "list": []any{int64(1)}, "null": nil}
	tests := []struct{ collect, want, message string }{
		{"", "missing", ""},
		{"{{.output.text}}", `"hello"`, ""},
		{"{{.output.n}}", `7`, ""},
		{" {{.output.list}}\n", `[1]`, ""},
		{"{{.output}}", `{"list":[1],"n":7,"null":null,"text":"hello"}`, ""},
		{"{{.output.nope}}", "missing", ""},
		{"{{.output.null}}", "missing", ""},
		{"{{.forEach.index}}: {{.output.text}}", `"1: hello"`, ""},
		{`{"text": {{json .output.text}}, "i": {{.forEach.index}}}`, `{"i":1,"text":"hello"}`, ""},
		{`[{{.output.n}}, 123456789012345678901234567890]`, `[7,123456789012345678901234567890]`, ""},
		{`[{{.forEach.index}}] {{.output.text}}`, `"[1] hello"`, ""},
		{`{{json .output.list}}`, `"[1]"`, ""},
		{`{{.output.n}}{{.output.n}}`, `"77"`, ""},
		{`{{.steps.done.output.word}} {{.output.nope}}`, `"word "`, ""},
		{"{{index .output.list 5}}", "", "out of range"},
	}
	for _, test := range tests {
		n := compileSteps(t, &Step{ID: "each", Type: ForEachStep, Collection: "[]", Step: &Step{}, Collect: test.collect}).Steps[0]
		s := scope()
		s.Output = output
		value, ok, err := n.Collect(s)
		if test.message != "" {
			wantTemplateError(t, test.collect, err, "collect", test.message)
			continue
		}
		got := "missing"
		if ok {
			encoded := perduretest.Must(template.EncodeValue(value))(t)
			got = string(encoded)
		}
		if err != nil || got != test.want {
			t.Errorf("%s gave %s, %v, want %s", test.collect, got, err, test.want)
		}
	}
}

func TestCompensation(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","properties":{"id":{"type":"integer"},"ids":{"type":"array"}}}`
	tests := []struct{ name, arguments, want, field, message string }{
		{"none", `{}`, `{}`, "", ""},
		{"its output", `{"id":"{{.output.id}}","ids":"{{.output.ids}}","text":"{{.output.id}}"}`, `{"id":7,"ids":[1,2],"text":"7"}`, "", ""},
		{"what the step saw", `{"id":"{{.params.big}}","item":"{{.forEach.index}}","why":"{{.steps.gate.content.why}}"}`, `{"id":12345678,"item":"1","why":"because"}`, "", ""},
		{"missing is left out", `{"id":"{{.output.nope}}"}`, `{}`, "", ""},
		{"broken", `{"deep":{"id":"{{fail \"no\"}}"}}`, ``, "compensate.arguments.deep.id", "fail: no"},
	}
	for _, test := range tests {
		undo := &Compensation{Tool: "be_remove", Arguments: mustDecode(t, test.arguments).(map[string]any)}
		n := compileSteps(t, &Step{ID: "add", Tool: "be_add", Compensate: undo}).Steps[0]
		s := scope()
		s.Output = map[string]any{"id": int64(7), "ids": []any{int64(1), int64(2)}}
		got, err := n.Compensation(s, json.RawMessage(schema))
		if test.message != "" {
			wantTemplateError(t, test.name, err, test.field, test.message)
			continue
		}
		if err != nil || string(got) != test.want {
			t.Errorf("%s: %s, %v, want %s", test.name, got, err, test.want)
		}
	}
	without := compileSteps(t, &Step{ID: "a", Tool: "be_add"}).Steps[0]
	if got, err := without.Compensation(scope(), nil); err != nil || string(got) != "{}" {
		t.Errorf("without a compensation: %s, %v", got, err)
	}
}

// What collect, compensate, for and until read is waited for as well.
func TestReadsOfEveryField(t *testing.T) {
	t.Parallel()
	const read = "{{.steps.source.output.x}}"
	tests := map[string]*Step{
		"collect":     {Type: ForEachStep, Collection: "[]", Step: &Step{}, Collect: read},
		"compensate":  {Tool: "t", Compensate: &Compensation{Tool: "u", Arguments: map[string]any{"a": []any{read}}}},
		"its own":     {Tool: "t", Compensate: &Compensation{Tool: "u", Arguments: map[string]any{"a": read, "b": "{{.steps.reader.output.x}}"}}},
		"for":         {Type: WaitStep, For: read},
		"until":       {Type: WaitStep, Until: read},
		"inner until": {Type: ForEachStep, Collection: "[]", Step: &Step{Type: WaitStep, Until: read}},
	}
	for name, step := range tests {
		step.ID = "reader"
		p := compileSteps(t, step, &Step{ID: "source", Tool: "t"})
		if deps := p.Steps[0].Deps; len(deps) != 1 || deps[0] != "source" {
			t.Errorf("%s: waits for %v, want source", name, deps)
		}
	}
}

func TestToolNamesOfCompensations(t *testing.T) {
	t.Parallel()
	d := &Definition{Steps: []*Step{
		{ID: "a", Tool: "be_add", Compensate: &Compensation{Tool: "be_remove"}},
		{ID: "b", Type: ForEachStep, Step: &Step{Tool: "be_add", Compensate: &Compensation{Tool: "be_clear"}}},
	}}
	if got := d.ToolNames(); len(got) != 3 || got[0] != "be_add" || got[1] != "be_clear" || got[2] != "be_remove" {
		t.Errorf("tools %v, want be_add, be_clear, be_remove", got)
	}
	yes, no := true, false
	derived, err := d.DeriveAnnotations(func(name string) (Tool, bool) {
		hints := &Annotations{DestructiveHint: &no, IdempotentHint: &yes, OpenWorldHint: &no}
		if name == "be_clear" {
			hints.DestructiveHint = &yes
		}
		return Tool{Name: name, Annotations: hints}, true
	}, nil)
	if err != nil || !*derived.DestructiveHint || !*derived.IdempotentHint {
		t.Errorf("%+v, %v: a compensation that destroys makes the composite destructive", derived, err)
	}
}
