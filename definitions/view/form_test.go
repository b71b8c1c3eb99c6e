package view_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/definitions/view"
)

// one makes the form of a schema with one field, f.
func one(field string) *view.Field {
	return view.NewForm(json.RawMessage(`{"type":"object","properties":{"f":` + field + `}}`)).Fields[0]
}

func titles(f *view.Field) string {
	var list []string
	for _, c := range f.Choices {
		list = append(list, c.Title+"="+string(c.Value))
	}
	return strings.Join(list, " ")
}

// TestField: a field says in words what its schema wants.
func TestField(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		schema  string
		kind    view.FieldKind
		limits  string
		choices string
		tells   string
		long    bool
	}{
		{schema: `{"type":"string"}`, long: true},
		{schema: `{"type":"string","maxLength":80,"minLength":1}`, limits: "at least 1 character, at most 80 characters"},
		{schema: `{"type":"string","maxLength":500}`, limits: "at most 500 characters", long: true},
		{schema: `{"type":"string","format":"email"}`, limits: "an e-mail address"},
		{schema: `{"type":"string","format":"date","default":"2026-01-31"}`, limits: "a date such as 2026-01-31", tells: "2026-01-31"},
		{schema: `{"type":"string","pattern":"^a+$"}`, limits: "in the form ^a+$"},
		{schema: `{"type":"string","pattern":"^a+$","patternDescription":"only a"}`, limits: "only a"},
		{schema: `{"type":"string","pattern":"^a+$","patternDescription":"only a","description":"Form: only a."}`},
		{schema: `{"type":"integer","minimum":1,"maximum":9,"default":3}`, kind: view.Number, limits: "a whole number, at least 1, at most 9", tells: "3"},
		{schema: `{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1.5,"multipleOf":0.5}`, kind: view.Number, limits: "more than 0, less than 1.5, a multiple of 0.5"},
		{schema: `{"type":"number","default":12345678901234567890.10}`, kind: view.Number, tells: "12345678901234567890.10"},
		{schema: `{"type":"boolean","default":false}`, kind: view.YesNo, choices: "Yes=true No=false", tells: "No"},
		{schema: `{"type":"boolean","default":null}`, kind: view.YesNo, choices: "Yes=true No=false"},
		{schema: `{"type":"string","enum":["a","b"],"default":"b"}`, kind: view.One, choices: `a="a" b="b"`, tells: "b"},
		{schema: `{"enum":["a","b"],"enumNames":["A"]}`, kind: view.One, choices: `A="a" b="b"`},
		{schema: `{"oneOf":[{"const":"x","title":"X!"},{"const":"y"}],"default":"x"}`, kind: view.One, choices: `X!="x" y="y"`, tells: "X!"},
		{schema: `{"type":"array","items":{"enum":["a","b","c"]},"minItems":1,"maxItems":2,"default":["c","a"]}`, kind: view.Several, limits: "at least 1 of them, at most 2 of them", choices: `a="a" b="b" c="c"`, tells: "a, c"},
		{schema: `{"type":"array","items":{"anyOf":[{"const":1,"title":"one"}]}}`, kind: view.Several, choices: "one=1"},
	} {
		f := one(tc.schema)
		got := fmt.Sprint(f.Kind, "|", f.Limits, "|", titles(f), "|", f.DefaultText, "|", f.Long)
		if want := fmt.Sprint(tc.kind, "|", tc.limits, "|", tc.choices, "|", tc.tells, "|", tc.long); got != want {
			t.Errorf("%s\n gives %s\n want  %s", tc.schema, got, want)
		}
	}
}

// TestCheck: a field takes what an answer with it may have, and says else why not,
// without its name.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ schema, value, wrong string }{
		{`{"type":"string"}`, ``, "is required"},
		{`{"type":"string","default":"d"}`, ``, ""},
		{`{"type":"string","default":"d","minLength":2}`, ``, "must have at least 2 characters"},
		{`{"type":"string"}`, `""`, ""},
		{`{"type":"string"}`, `7`, "must be"},
		{`{"type":"integer"}`, `7`, ""},
		{`{"type":"integer"}`, `7.5`, "must be"},
		{`{"type":"integer","maximum":9}`, `10`, "must be at most 9"},
		{`{"type":"number"}`, `1e3`, ""},
		{`{"type":"string","pattern":"^a+$","patternDescription":"only a"}`, `"b"`, "only a"},
		{`{"type":"string","format":"email"}`, `"nobody"`, "is not a valid email"},
		{`{"type":"string","enum":["a"]}`, `"b"`, "must be"},
		{`{"type":"array","items":{"enum":["a","b"]},"minItems":1}`, `[]`, "at least 1"},
		{`{"type":"array","items":{"enum":["a","b"]}}`, `["a","x"]`, "[1] must be one of"},
	} {
		schema := json.RawMessage(`{"type":"object","properties":{"f.1 of":` + tc.schema + `,"g":{"type":"string"}},"required":["f.1 of","g"]}`)
		var value json.RawMessage
		if tc.value != "" {
			value = json.RawMessage(tc.value)
		}
		err := view.NewForm(schema).Fields[0].Check(value)
		switch {
		case tc.wrong == "" && err != nil:
			t.Errorf("%s of %s: %v", tc.value, tc.schema, err)
		case tc.wrong != "" && (err == nil || !strings.Contains(err.Error(), tc.wrong) || strings.HasPrefix(err.Error(), "f.1")):
			t.Errorf("%s of %s: got %v, want %q", tc.value, tc.schema, err, tc.wrong)
		}
	}
}

// TestAnswer: fields and answers are in the order of their author, and what is left
// out is not there.
func TestAnswer(t *testing.T) {
	t.Parallel()
	f := view.NewForm(json.RawMessage(`{"properties":{"z":{"type":"string"},"b":{"type":"number"},"a":{"type":"string"},"z":{"type":"integer"}},"required":["a"]}`))
	got := f.Answer(func(f *view.Field) json.RawMessage {
		return map[string]json.RawMessage{"z": json.RawMessage("1"), "a": json.RawMessage(`"<"`)}[f.Name]
	})
	if string(got) != `{"z":1,"a":"<"}` {
		t.Errorf("the answer is %s", got)
	}
	var fields []string
	for _, field := range f.Fields {
		fields = append(fields, fmt.Sprint(field.Name, field.Kind, field.Required))
	}
	if diff := cmp.Diff([]string{"z1 false", "b1 false", "a0 true"}, fields); diff != "" {
		t.Error(diff)
	}
}

// TestReadNumber: a number is what JSON has, to the digit.
func TestReadNumber(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"12": true, "-0.50": true, "1e400": true, "12345678901234567890.10": true,
		"": false, "0x10": false, "1,5": false, "+1": false, "01": false, "NaN": false, "1 2": false, `"1"`: false, "null": false, " 1": false, "1\u202e": false,
	} {
		got, err := view.ReadNumber(text)
		if (err == nil) != ok || ok && string(got) != text {
			t.Errorf("%q is read as %s, %v", text, got, err)
		}
	}
}

// TestAttackForms: no schema takes a form down, and nothing hidden is in what people
// read of it. Backends write schemas too.
func TestAttackForms(t *testing.T) {
	t.Parallel()
	const hidden = `"a\u202e\u200b\u001b[2J\r\nb"`
	deep := strings.Repeat(`{"items":`, 5000) + `{}` + strings.Repeat(`}`, 5000)
	for _, schema := range []string{
		``, `null`, `7`, `[]`, `"x"`, `{`, `{}`, `{"properties":null}`, `{"properties":[]}`, `{"properties":{"a":null,"b":7,"c":[],"d":"x","e":true}}`,
		`{"properties":{"a":{"type":["string","null"]},"b":{"type":7},"c":{"type":{}},"d":{"type":"array"},"e":{"type":"array","items":[]},"f":{"type":"object"}}}`,
		`{"properties":{"a":{"enum":null},"b":{"enum":{}},"c":{"enum":[]},"d":{"enum":[null,{},[[]]]},"e":{"enumNames":[1],"enum":[1]},"f":{"oneOf":[7,null,{}]},"g":{"oneOf":{}}}}`,
		`{"properties":{"a":{"minimum":"x","maximum":{},"minLength":-1,"maxLength":1e999,"multipleOf":0},"b":{"type":"number","minimum":1e400}}}`,
		`{"properties":{"a":{"title":7,"description":[],"pattern":{},"patternDescription":1,"default":{"x":[]}}}}`,
		`{"properties":{"a":{"type":"string","pattern":"(("},"b":{"type":"string","pattern":"(?:` + strings.Repeat(`(x?)`, 1000) + `){400}"}}}`,
		`{"required":{"a":1},"properties":{"a":{}}}`, `{"required":["a",7],"properties":{"":{"type":"string"},"a":{}}}`,
		`{"properties":{"a":` + deep + `}}`,
		`{"properties":{` + hidden + `:{"type":"string","title":` + hidden + `,"description":` + hidden + `,"patternDescription":` + hidden + `,"pattern":` + hidden + `,"default":` + hidden + `},
			"e":{"enum":[` + hidden + `],"default":` + hidden + `},"n":{"enum":["x"],"enumNames":[` + hidden + `],"default":"x"},
			"o":{"oneOf":[{"const":` + hidden + `,"title":` + hidden + `}]},"s":{"type":"array","items":{"enum":[` + hidden + `]},"default":[` + hidden + `]}},"required":[` + hidden + `]}`,
	} {
		f := view.NewForm(json.RawMessage(schema))
		for _, field := range f.Fields {
			read := []string{field.Label, field.Description, field.Limits, field.DefaultText, field.Prefill()}
			for _, c := range field.Choices {
				read = append(read, c.Title)
			}
			for i, text := range read {
				if strings.ContainsFunc(text, view.Hidden) || i != 1 && strings.Contains(text, "\n") {
					t.Errorf("%.80s: %s is shown as %q", schema, field.Name, text)
				}
			}
			for _, value := range []string{`"x"`, `7`, `[]`, `null`, `{}`} {
				_ = field.Check(json.RawMessage(value))
				_ = field.IsDefault(json.RawMessage(value))
			}
			_ = field.Check(nil)
		}
		if answer := f.Answer(func(f *view.Field) json.RawMessage { return f.Default }); !json.Valid(answer) {
			t.Errorf("%.80s gives the answer %s", schema, answer)
		}
		if seen := view.FormSchema(json.RawMessage(schema)); json.Valid([]byte(schema)) && !json.Valid(seen) {
			t.Errorf("%.80s is for clients %s", schema, seen)
		}
	}
}

// FuzzForm: whatever the schema is, answers are JSON, and what a form shows has
// nothing hidden.
func FuzzForm(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":"string","default":"x","pattern":"^x"},"b":{"type":"array","items":{"enum":["p"]},"minItems":1}},"required":["b"]}`), []byte(`"x"`))
	f.Add([]byte(`{"properties":{"\u202e":{"oneOf":[{"const":1,"title":"\u001b"}]}}}`), []byte(`1`))
	f.Fuzz(func(t *testing.T, schema, value []byte) {
		if !json.Valid(value) {
			return
		}
		made := view.NewForm(schema)
		for _, field := range made.Fields {
			_ = field.Check(value)
			if strings.ContainsFunc(strings.ReplaceAll(field.Label+field.Description+field.Limits+field.DefaultText, "\ufe0f", ""), view.Hidden) {
				t.Errorf("%s shows what is hidden", schema)
			}
		}
		if answer := made.Answer(func(*view.Field) json.RawMessage { return value }); !json.Valid(answer) {
			t.Errorf("the answer is %s", answer)
		}
	})
}
