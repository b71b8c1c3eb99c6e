package definitions

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/perduretest"
)

// TestAttackSchemaPatterns gives schemas patterns with large programs. Each is
// compiled and searched for, or refused, in little time and memory.
func TestAttackSchemaPatterns(t *testing.T) {
	text := strings.Repeat("xab", 1000)
	for name, bomb := range map[string]string{
		"many groups, repeated": "(?:" + strings.Repeat("(x?)", 1000) + "){400}",
		"many repetitions":      strings.Repeat("x{1000}", 1428),
		"nested repetitions":    "((((x{10}){10}){10}y{10}){10}z{99}){9}",
		"folded classes":        strings.Repeat(`(?i:[^\pL])`, 900),
		"stars":                 strings.Repeat("(a*)*", 1900),
	} {
		t.Run(name, func(t *testing.T) {
			for _, schema := range []map[string]any{
				{"properties": map[string]any{"a": map[string]any{"pattern": bomb}}},
				{"patternProperties": map[string]any{bomb: true}},
				{"properties": map[string]any{"a": map[string]any{"format": "regex"}, "b": map[string]any{"pattern": bomb}}},
			} {
				perduretest.Frugal(t, time.Minute, 100<<20, func() { CheckAnswer(mustJSON(schema), mustJSON(map[string]any{"a": text, "b": bomb})) })
			}
		})
	}
}

func mustJSON(v any) json.RawMessage {
	encoded, err := template.EncodeValue(v)
	if err != nil {
		panic(err)
	}
	return encoded
}

// schemaBombs are schemas and values that ask for much, for their size.
func schemaBombs() map[string][2]string {
	repeat := strings.Repeat
	ones := "[" + repeat("1,", 1<<19) + "1]"
	deep := repeat("[", 900) + repeat("]", 900)
	names := func(n int, each string) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(each, i))
		}
		return strings.Join(all, ",")
	}
	return map[string][2]string{
		"all of itself twice, in items":      {`{"items":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}`, deep},
		"any of itself twice, in items":      {`{"items":{"anyOf":[{"$ref":"#"},{"$ref":"#"}]},"maxItems":1,"minItems":1}`, deep},
		"none of itself twice":               {`{"type":"array","items":{"not":{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}},"minItems":1}`, deep},
		"itself and unevaluated":             {`{"items":{"$ref":"#"},"unevaluatedItems":{"$ref":"#"},"contains":{"$ref":"#"}}`, deep},
		"dynamic anchors":                    {`{"$dynamicAnchor":"n","items":{"allOf":[{"$dynamicRef":"#n"},{"$dynamicRef":"#n"}]}}`, deep},
		"dynamic anchors elsewhere":          {`{"$dynamicRef":"#n","$defs":{"n":{"$dynamicAnchor":"n","items":{"allOf":[{"$dynamicRef":"#n"},{"$dynamicRef":"#n"}]}}}}`, deep},
		"recursive anchors":                  {`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"items":{"allOf":[{"$recursiveRef":"#"},{"$recursiveRef":"#"}]}}`, deep},
		"if then else":                       {`{"items":{"if":{"$ref":"#"},"then":{"$ref":"#"},"else":{"$ref":"#"}}}`, deep},
		"properties of itself":               {`{"additionalProperties":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}`, repeat(`{"a":`, 900) + "1" + repeat("}", 900)},
		"dependent schemas":                  {`{"dependentSchemas":{"a":{"properties":{"a":{"$ref":"#"}}}},"properties":{"a":{"$ref":"#"}}}`, repeat(`{"a":`, 900) + "1" + repeat("}", 900)},
		"many items that do not fit":         {`{"items":{"type":"string"}}`, ones},
		"many items that are too small":      {`{"items":{"minimum":2,"maximum":0,"multipleOf":7}}`, ones},
		"items that fit nothing of many":     {`{"items":{"anyOf":[` + repeat(`{"type":"string"},`, 1000) + `false]}}`, ones},
		"items that fit none of many values": {`{"items":{"enum":[` + names(20_000, "%d.5") + `]}}`, ones},
		"items that fit none of long values": {`{"items":{"enum":["` + repeat("a", 100_000) + `"]}}`, `["` + repeat("a", 99_999) + `b",` + `"` + repeat("a", 99_999) + `c"]`},
		"a pattern for many":                 {`{"items":{"pattern":"(a|b|ab)*c{0,1000}d"}}`, "[" + repeat(`"`+repeat("ab", 100)+`",`, 5000) + `""]`},
		"a pattern for a long text":          {`{"pattern":"(?:(?:a|b)?){0,500}[^z]*c$"}`, `"` + repeat("ab", 500_000) + `"`},
		"the longest text for a pattern":     {`{"pattern":"^(?:(?:a|b)?){0,100}[^z]*c$"}`, `"` + repeat("ab", 80_000) + `"`},
		"many patterns":                      {`{"allOf":[` + repeat(`{"pattern":"x{1000}"},`, 1000) + `true]}`, `"` + repeat("x", 100_000) + `"`},
		"pattern properties":                 {`{"patternProperties":{` + names(2000, `"a*b%d":false`) + `}}`, "{" + names(2000, `"a%d":1`) + "}"},
		"texts that want to be patterns":     {`{"items":{"format":"regex"}}`, "[" + repeat(`"x{1000}x{1000}x{1000}x{1000}x{1000}",`, 2000) + `""]`},
		"unique items":                       {`{"items":{"uniqueItems":true},"uniqueItems":true}`, "[" + names(100_000, "[%d]") + "]"},
		"unique items in unique items":       {`{"uniqueItems":true,"items":{"$ref":"#"}}`, deep},
		"errors far down":                    {`{"type":"array","items":{"$ref":"#"}}`, repeat("[", 500) + "1" + repeat(",1", 100_000) + repeat("]", 500)},
		"unevaluated items":                  {`{"allOf":[` + repeat(`{"items":true,"unevaluatedItems":false},`, 500) + `true],"unevaluatedItems":false}`, ones[:20_000] + "1]"},
		"many required names":                {`{"items":{"required":[` + names(5000, `"r%d"`) + `]}}`, "[" + repeat("{},", 20_000) + "{}]"},
		"a huge exponent":                    {`{"type":"integer"}`, "1e999999999"},
		"huge exponents in the schema":       {`{"minimum":1e999999999,"multipleOf":1e-999999999}`, "1"},
		"long numbers":                       {`{"items":{"multipleOf":0.0001}}`, "[" + repeat(repeat("9", 9000)+",", 100) + "1]"},
		"a file that has no end":             {`{"$ref":"file:///dev/zero"}`, "1"},
		"another document":                   {`{"$ref":"https://example.com/schema.json"}`, "1"},
		"a ring of references":               {`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, "1"},
		"a schema of many references":        {`{"allOf":[` + repeat(`{"$ref":"#/$defs/a"},`, 20_000) + `true],"$defs":{"a":{"type":"integer"}}}`, "1"},
		"a deep schema":                      {repeat(`{"items":`, 900) + "true" + repeat("}", 900), deep},
		"one of many":                        {`{"items":{"oneOf":[` + repeat(`{"items":{"type":"string"}},`, 300) + `true]}}`, "[" + repeat("[1,1,1],", 20_000) + "1]"},
	}
}

// TestAttackSchemas validates values that were made to take long, or to fill the
// memory with errors.
func TestAttackSchemas(t *testing.T) {
	bombs := schemaBombs()
	for _, name := range template.SortedKeys(bombs) {
		t.Run(name, func(t *testing.T) {
			perduretest.Frugal(t, time.Minute, 1<<30, func() {
				schema, err := CompileSchema([]byte(bombs[name][0]))
				if err != nil {
					t.Log(err)
					return
				}
				if value, err := template.DecodeValue([]byte(bombs[name][1])); err == nil {
					t.Logf("%.120v", schema.violations(value))
				}
			})
		})
	}
}
