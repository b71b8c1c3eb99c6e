package definitions

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/internal/perduretest"
)

func TestArguments(t *testing.T) {
	t.Parallel()
	d := parseOne(t, `
name: a
parameters:
  type: object
  properties:
    env: {type: string, enum: [staging, production], default: staging}
    n: {type: integer, maximum: 9007199254740993}
    opts: {type: object, properties: {deep: {type: boolean}}, required: [deep]}
    ids: {type: array, items: {type: integer}}
    either: {anyOf: [{type: string}, {type: integer}]}
  required: [env, n]
`)
	tests := []struct {
		name, args, want string
		wrong            []ArgumentProblem
	}{
		{name: "defaults apply, extra members pass", args: `{"n":1,"extra":{"a":1.50}}`, want: `{"env":"staging","extra":{"a":1.5},"n":1}`},
		{name: "a given value wins", args: `{"n":1,"env":"production"}`, want: `{"env":"production","n":1}`},
		{name: "integers are exact", args: `{"n":9007199254740993}`, want: `{"env":"staging","n":9007199254740993}`},
		{name: "1.0 is an integer", args: `{"n":1.0}`, want: `{"env":"staging","n":1}`},
		{name: "one over a limit beyond 2^53", args: `{"n":9007199254740994}`, wrong: []ArgumentProblem{{"n", "must be at most 9007199254740993"}}},
		{name: "nothing", args: ``, wrong: []ArgumentProblem{{"n", "is required"}}},
		{name: "null", args: `null`, wrong: []ArgumentProblem{{"n", "is required"}}},
		{name: "all mistakes at once", args: `{"env":"test","n":1.5,"opts":{},"ids":[1,"x"],"either":true}`, wrong: []ArgumentProblem{
			{"either", "must be integer, not boolean, or must be string, not boolean"},
			{"env", `must be one of "staging", "production"`},
			{"ids[1]", "must be integer, not string"},
			{"n", "must be integer, not number"},
			{"opts.deep", "is required"},
		}},
		{name: "null for a value", args: `{"n":null}`, wrong: []ArgumentProblem{{"n", "must be integer, not null"}}},
		{name: "not an object", args: `[1]`, wrong: []ArgumentProblem{{"", "must be an object, not an array"}}},
		{name: "a huge exponent", args: `{"n":1e999999999}`, wrong: []ArgumentProblem{{"", `must be JSON: number "1e999999999" is out of range`}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := d.Arguments(json.RawMessage(tt.args))
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
			var wrong *ArgumentsError
			if !errors.As(err, &wrong) && tt.wrong != nil {
				t.Fatalf("error is %v, want an ArgumentsError", err)
			}
			if tt.wrong == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if diff := cmp.Diff(tt.wrong, wrong.Problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// A default that does not fit is worth a warning; callers cannot help it.
func TestDefaultsAreTakenAsTheyAre(t *testing.T) {
	t.Parallel()
	d := parseOne(t, `
name: a
parameters:
  type: object
  properties: {n: {type: integer, default: "5"}, m: {type: integer, maximum: 3}}
  additionalProperties: false
`)
	if got, err := d.Arguments(json.RawMessage(`{"m":2}`)); err != nil || string(got) != `{"m":2,"n":"5"}` {
		t.Errorf("%s, %v", got, err)
	}
	for _, args := range []string{`{"n":"5"}`, `{"m":4}`, `{"o":1}`} {
		if got, err := d.Arguments(json.RawMessage(args)); err == nil {
			t.Errorf("%s gives %s", args, got)
		}
	}
}

func TestArgumentsForbidden(t *testing.T) {
	t.Parallel()
	d := &Definition{Parameters: map[string]any{"type": "object", "additionalProperties": false}}
	if _, err := d.Arguments(json.RawMessage(`{"x":1}`)); err == nil || err.Error() != "invalid arguments: x is not a known name" {
		t.Errorf("error is %v", err)
	}
	without := &Definition{}
	if got, err := without.Arguments(json.RawMessage(`{"zzz":1}`)); err != nil || string(got) != `{"zzz":1}` {
		t.Errorf("without parameters: %s, %v", got, err)
	}
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	d := parseOne(t, `
name: a
output:
  properties:
    word: {type: string, description: the word, value: "{{.steps.a.output.word}}"}
    count: {type: integer, description: the count, value: "{{.steps.a.output.count}}", default: 4711}
    odd: {type: integer, description: d, value: v, default: many}
    more: {type: object, description: d, properties: {deep: {type: array, description: x, value: v, default: []}}}
  required: [word]
`)
	want := `{"properties":{"count":{"description":"the count","type":"integer"},` +
		`"more":{"description":"d","properties":{"deep":{"description":"x","type":"array"}},"type":"object"},` +
		`"odd":{"description":"d","type":"integer"},"word":{"description":"the word","type":"string"}},"required":["word"],"type":"object"}`
	if diff := cmp.Diff(want, string(d.OutputSchema())); diff != "" {
		t.Errorf("output schema (-want +got):\n%s", diff)
	}
	if got := string(d.InputSchema()); got != `{"type":"object","properties":{}}` {
		t.Errorf("input schema without parameters is %s", got)
	}
	d.Parameters = map[string]any{"type": "object", "required": []any{"a"}}
	if got := string(d.InputSchema()); got != `{"required":["a"],"type":"object"}` {
		t.Errorf("input schema is %s", got)
	}
	if got := (&Definition{}).OutputSchema(); got != nil {
		t.Errorf("output schema without output is %s", got)
	}
}

func TestCheckAnswer(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","required":["reason"],"properties":{
		"reason":{"type":"string","minLength":1},"n":{"type":"integer","minimum":1},
		"mail":{"type":"string","format":"email"},"day":{"type":"string","format":"date"},"odd":{"type":"string","format":"shoe-size"}}}`
	tests := []struct{ name, schema, content, want string }{
		{"fits", schema, `{"reason":"r","n":2,"mail":"a@b.example","day":"2026-02-28","odd":"x"}`, ""},
		{"not asked for", schema, `{"reason":"r","more":[1],"evil":true}`, `fields that were not asked for: "evil", "more"`},
		{"an empty form", `{"type":"object","properties":{}}`, `{"a":1}`, `not asked for: "a"`},
		{"more is asked for", `{"type":"object","properties":{"reason":{"type":"string"}},"additionalProperties":true}`, `{"more":1}`, ""},
		{"wrong type", schema, `{"reason":123}`, "reason must be string, not number"},
		{"missing", schema, ``, "reason is required"},
		{"several", schema, `{"reason":"","n":0}`, "n must be at least 1; reason must have at least 1 character"},
		{"format", schema, `{"reason":"r","day":"2026-02-30"}`, "day is not a valid date"},
		{"no schema", ``, `{"a":1}`, ""},
		{"no schema, nothing", ``, `null`, ""},
		{"not an object", `{}`, `"yes"`, "the answer must be an object, not a string"},
		{"not JSON", schema, `{`, "the answer must be JSON"},
		{"deep", `{}`, strings.Repeat(`{"a":`, 11) + "1" + strings.Repeat("}", 11), "nested more than 10 levels"},
		{"large", `{}`, `{"a":"` + strings.Repeat("x", MaxAnswerSize) + `"}`, "1048576 are allowed"},
		{"bad schema", `{"type":"objekt"}`, `{}`, "the schema of the elicitation: not a JSON Schema"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := CheckAnswer(json.RawMessage(tt.schema), json.RawMessage(tt.content))
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error is %v, want one with %q", err, tt.want)
			}
		})
	}
}

// TestAnswerSchemaIsCompiledOnce shows that an answer which is checked again, by its run,
// finds the schema compiled.
func TestAnswerSchemaIsCompiledOnce(t *testing.T) { // counts allocations, so nothing runs beside it
	check := func(schema string) func() {
		return func() {
			perduretest.NoError(t, CheckAnswer(json.RawMessage(schema), json.RawMessage(`{"a":"x"}`)))
		}
	}
	one, other := check(`{"properties":{"a":{"type":"string"}}}`), check(`{"properties":{"a":{"minLength":1}}}`)
	again := testing.AllocsPerRun(100, one)
	anew := testing.AllocsPerRun(100, func() { other(); one() }) / 2
	if again > anew/2 {
		t.Errorf("checking an answer again takes %v allocations, a first time %v", again, anew)
	}
}

func TestDeriveAnnotations(t *testing.T) {
	t.Parallel()
	tools := testTools(t)
	hints := func(readOnly, destructive, idempotent, openWorld bool) Annotations {
		return Annotations{ReadOnlyHint: &readOnly, DestructiveHint: &destructive, IdempotentHint: &idempotent, OpenWorldHint: &openWorld}
	}
	tests := []struct {
		name, steps, stated string
		want                Annotations
		wrong               string
	}{
		{name: "no tools", steps: `{id: g, type: elicitation, message: m}`, want: hints(true, false, true, false)},
		{name: "read-only", steps: `{tool: gh_get}, {tool: gh.get}`, want: hints(true, false, true, false)},
		{name: "no hints", steps: `{tool: gh_write}`, want: hints(false, true, false, true)},
		{name: "unknown tool", steps: `{tool: gone}`, want: hints(false, true, false, true)},
		{name: "harmless write", steps: `{tool: gh_note}, {tool: gh_get}`, want: hints(false, false, true, false)},
		{name: "a loop counts", steps: `{tool: gh_get}, {type: forEach, step: {tool: gh_write}}`, want: hints(false, true, false, true)},
		{name: "more cautious", steps: `{tool: gh_get}`, stated: `{readOnlyHint: false, destructiveHint: true, openWorldHint: true, idempotentHint: false}`, want: hints(false, true, false, true)},
		{name: "destructive is not read-only", steps: `{tool: gh_get}`, stated: `{destructiveHint: true}`, want: hints(false, true, true, false)},
		{name: "promises too much", steps: `{tool: gh_write}`, stated: `{readOnlyHint: true, destructiveHint: false}`, want: hints(true, false, false, true), wrong: "annotations.readOnlyHint: true is more than the steps keep"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			stated := tt.stated
			if stated == "" {
				stated = "null"
			}
			d := parseOne(t, "name: a\nannotations: "+stated+"\nsteps: ["+tt.steps+"]")
			got, err := d.DeriveAnnotations(tools, nil)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			if tt.wrong == "" && err != nil || tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)) {
				t.Errorf("error is %v, want %q", err, tt.wrong)
			}
		})
	}
}

func TestToolNames(t *testing.T) {
	t.Parallel()
	d := parseOne(t, `{name: a, steps: [{tool: b}, {tool: a}, {type: forEach, step: {type: forEach, step: {tool: c}}}, {tool: b}]}`)
	if diff := cmp.Diff([]string{"a", "b", "c"}, d.ToolNames()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}
