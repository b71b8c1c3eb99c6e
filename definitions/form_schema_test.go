package definitions_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/convert"
	"github.com/perdure/perdure/internal/perduretest"
)

const orderedForm = `
name: asks
description: Asks in the author's order.
x: &late
  apple: {type: string}
  zebra: {type: integer, default: 12345678901234567890}
steps:
  - id: ask
    type: elicitation
    message: Well?
    schema:
      type: object
      properties:
        zebra: {type: string, title: Z <b>, default: "1"}
        mango: {type: number, default: 1.50}
        <<: *late
        banana: {type: array, items: {enum: [z, a]}}
      required: [mango]
`

// TestFormKeepsItsOrder: the fields of a form keep the order of the definition, in
// its canonical form, back from there, in the input of a run and as a script.
func TestFormKeepsItsOrder(t *testing.T) {
	t.Parallel()
	source := strings.Replace(orderedForm, "x: &late\n  apple: {type: string}\n  zebra: {type: integer, default: 12345678901234567890}\n", "", 1)
	source = strings.Replace(source, "<<: *late", "<<: {apple: {type: string}, zebra: {type: integer}}", 1)
	d := parsedForm(t, source)
	const want = `{"type":"object","properties":{"zebra":{"type":"string","title":"Z <b>","default":"1"},"mango":{"type":"number","default":1.5},` +
		`"banana":{"type":"array","items":{"enum":["z","a"]}},"apple":{"type":"string"}},"required":["mango"]}`
	check := func(what string, d *definitions.Definition) {
		t.Helper()
		if got := string(d.Steps[0].Schema); got != want {
			t.Errorf("%s: the schema is\n%s\nwant\n%s", what, got, want)
		}
	}
	check("as written", d)
	back := perduretest.Must(definitions.FromSource(d.Source()))(t)
	check("from its source", back)
	if back.Digest() != d.Digest() {
		t.Error("the digest differs")
	}
	carried := perduretest.Must(json.Marshal(d))(t)
	var arrived definitions.Definition
	perduretest.NoError(t, json.Unmarshal(carried, &arrived))
	check("in the input of a run", &arrived)
	if arrived.Digest() != d.Digest() {
		t.Error("the digest of what has arrived differs")
	}
	other := parsedForm(t, strings.Replace(source, "mango: {type: number, default: 1.50}\n        ", "", 1))
	if other.Digest() == d.Digest() {
		t.Error("another form has the same digest")
	}
	script := perduretest.Must(convert.Script(d, definitions.ToolsByName(nil)))(t)
	at := 0
	for _, name := range []string{`"zebra"`, `"mango"`, `"banana"`, `"apple"`} {
		i := strings.Index(script[at:], name)
		if i < 0 {
			t.Fatalf("the script has %s in another place:\n%s", name, script)
		}
		at += i
	}
}

func parsedForm(t *testing.T, source string) *definitions.Definition {
	t.Helper()
	all, diags := definitions.Parse("asks.yaml", []byte(source))
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return all[0]
}

// TestFormSchemaThatIsNone: what is no schema is refused, and nothing panics.
func TestFormSchemaThatIsNone(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{``, `[]`, `"x"`, `null`, `{`, `{"a":1e999}`, strings.Repeat(`{"a":`, 2000) + "1" + strings.Repeat("}", 2000)} {
		if s, err := definitions.NewFormSchema([]byte(raw)); err == nil {
			t.Errorf("%.40q is the schema %s", raw, s)
		}
	}
	for written, want := range map[string]string{
		`null`:              `{"properties":{},"type":"object"}`,
		`{"type":"object"}`: `{"type":"object","properties":{}}`,
		`{"title":"t","properties":{"b":{"type":"string"},"a":{"type":"string"}}}`: `{"title":"t","properties":{"b":{"type":"string"},"a":{"type":"string"}},"type":"object"}`,
	} {
		var s definitions.FormSchema
		if err := json.Unmarshal([]byte(written), &s); err != nil || string(s.Form()) != want {
			t.Errorf("form of %s is %s, %v; want %s", written, s.Form(), err, want)
		}
	}
	if s, err := definitions.NewFormSchema([]byte(`{"b":1,"a":2,"b":3}`)); err != nil || string(s) != `{"b":3,"a":2}` {
		t.Errorf("of equal names: %s %v", s, err)
	}
}
