package definitions

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/perduretest"
)

// laughter is n levels of aliases to ten of the level before.
func laughter(n int, open, item, close string) string {
	var b strings.Builder
	b.WriteString("a0: &a0 x\n")
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "a%d: &a%d %s%s%s\n", i, i, open, strings.TrimSuffix(strings.Repeat(fmt.Sprintf(item, i-1), 10), ","), close)
	}
	return b.String()
}

// stepsOf writes a definition of n steps.
func stepsOf(n int, step func(i int) string) string {
	var b strings.Builder
	b.WriteString("name: n\ndescription: d\nsteps:\n")
	for i := range n {
		fmt.Fprintf(&b, "- {id: s%d, tool: be_echo, %s}\n", i, step(i))
	}
	return b.String()
}

func namesUpTo(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("s%d", i)
	}
	return strings.Join(names, ", ")
}

// TestHostileDefinitions reads, checks and notes what was written to do harm. It
// does not run beside other tests, so that what it allocates can be counted.
func TestHostileDefinitions(t *testing.T) {
	const definition = "name: n\ndescription: d\n"
	const step = "steps: [{id: a, tool: be_echo, arguments: {x: %s}}]\n"
	templates := func(text string) string { return definition + fmt.Sprintf(step, text) }
	parameters := func(schema string) string {
		return definition + "parameters: {type: object, properties: {x: " + schema + "}}\n" + fmt.Sprintf(step, "1")
	}
	inputs := map[string]string{
		"aliases in lists":         laughter(12, "[", "*a%d,", "]"),
		"aliases in mappings":      laughter(12, "{", "? *a%d : x,", "}"),
		"aliases in merges":        laughter(12, "{<<: [", "*a%d,", "]}"),
		"aliases in arguments":     templates("{y: [" + strings.TrimSuffix(strings.Repeat("&b [x, x, x, x, x, x, x, x], *b,", 3000), ",") + "]}"),
		"an alias of itself":       definition + "steps: &s [*s]\n",
		"a merge of itself":        definition + "steps: &s\n- <<: *s\n",
		"deep lists":               strings.Repeat("[", 25000),
		"deep mappings":            strings.Repeat("{a: ", 25000),
		"deep blocks":              strings.Repeat("- ", 20000) + "x",
		"deep loops":               definition + "steps:\n- {id: a, " + strings.Repeat("type: forEach, collection: '[]', step: {", 1000) + "tool: t" + strings.Repeat("}", 1001),
		"many documents":           strings.Repeat("---\nname: n\n", 5000),
		"many keys":                strings.Repeat("k: 1\n", 25000),
		"many unknown keys":        laughter(0, "", "", "") + strings.Repeat("kk", 25000) + ": 1\n",
		"a key of a megabyte":      "? " + strings.Repeat("k", 1<<18) + "\n: 1\n",
		"a number of many digits":  templates(strings.Repeat("9", 1<<18)),
		"a hexadecimal number":     templates("0x" + strings.Repeat("f", 1<<18)),
		"a large exponent":         templates("1e999999999"),
		"a small exponent":         templates("1e-999999999"),
		"large exponents":          templates("[1e300, -1e308, 1e309, 0.1e-400, 1e9999]"),
		"a number in an integer":   definition + "steps: [{id: a, type: forEach, maxParallel: 1e999999999, maxIterations: 99999999999999999999}]",
		"a duration":               definition + "timeout: " + strings.Repeat("9", 25000) + "h\n" + fmt.Sprintf(step, "1"),
		"a tag":                    templates("!!int " + strings.Repeat("x", 1000)),
		"binary":                   "\x00\x01\x02\xff",
		"a step that reads many":   templates("'" + strings.Repeat("{{.steps.gone.output.x}}", 10000) + "'"),
		"many functions":           templates("'" + strings.Repeat("{{nope 1}}", 25000) + "'"),
		"an open action":           templates("'" + strings.Repeat("{{", 100000) + "'"),
		"deep parentheses":         templates("'{{" + strings.Repeat("(", 60000) + "}}'"),
		"deep conditions":          templates("'" + strings.Repeat("{{if 1}}", 25000) + strings.Repeat("{{end}}", 25000) + "'"),
		"a long pipe":              templates("'{{1" + strings.Repeat(" | add 1", 25000) + "}}'"),
		"a schema of itself":       parameters(`{$ref: "#"}`),
		"a schema of its part":     parameters(`{allOf: [{$ref: "#/properties/x"}, {$ref: "#/properties/x"}]}`),
		"a schema of a file":       parameters(`{$ref: "file:///etc/passwd"}`),
		"a pattern":                parameters(`{type: string, pattern: "(((a{1,100}){1,100}){1,100}){1,100}"}`),
		"a pattern of parentheses": parameters(`{type: string, pattern: "` + strings.Repeat("(", 25000) + strings.Repeat(")", 25000) + `"}`),
		"large limits":             parameters(`{type: number, minimum: 1e300, maximum: 1e999999999, multipleOf: 1e-300}`),
		"a multiple of nothing":    parameters(`{type: number, multipleOf: 0, default: 5}`),
		"a deep schema":            parameters(strings.Repeat("{type: object, properties: {x: ", 90) + "{}" + strings.Repeat("}}", 90)),
		"a wide enum":              parameters("{enum: [" + strings.Repeat("1,", 25000) + "2], default: 3}"),
		"a full graph":             stepsOf(MaxSteps, func(int) string { return "dependsOn: [" + namesUpTo(MaxSteps) + "]" }),
		"a long chain":             stepsOf(5000, func(i int) string { return fmt.Sprintf("dependsOn: [s%d]", max(i-1, 0)) }),
		"many steps of one id":     stepsOf(5000, func(int) string { return "id: s" }),
		"a wide graph":             stepsOf(300, func(int) string { return "dependsOn: [" + namesUpTo(300) + "]" }),
		"steps that read all": stepsOf(MaxSteps, func(int) string {
			return "arguments: {x: '" + strings.Repeat("{{.steps.s1.output.x}}{{.steps.s2.output.y}}", 500) + "'}"
		}),
	}
	for name, text := range inputs {
		t.Run(name, func(t *testing.T) {
			perduretest.Frugal(t, 2*time.Minute, 1<<30, func() {
				defs, diags := Parse("hostile.yaml", []byte(text))
				diags = append(diags, Check(defs, CheckOptions{Tools: func(string) (Tool, bool) { return Tool{}, true }})...)
				Notes(defs)
				for _, d := range diags {
					if d.Message == "" || len(d.Message) > 3000 {
						t.Errorf("a message of %d bytes: %.200s", len(d.Message), d.Message)
					}
				}
				if name != "many documents" && len(diags) > 2*(maxReported+1) {
					t.Errorf("%d diagnostics", len(diags))
				}
				for _, d := range defs {
					_, _ = Compile(d)
				}
			})
		})
	}
}

// TestHostileArguments gives values to a definition that were made to do harm.
func TestHostileArguments(t *testing.T) {
	const source = `{"name":"n","description":"d","parameters":{"type":"object","properties":{"x":{},"n":{"type":"number","multipleOf":0.01,"minimum":-1e300},"s":{"type":"string","pattern":"^(a+)+$"},"u":{"type":"array","uniqueItems":true}}},
		"steps":[{"id":"a","tool":"be_echo","arguments":{"i":"{{.params.x}}","n":"{{.params.x}}","o":"{{.params.x}}","a":"{{.params.x}}","t":"x {{.params.x}}"}}]}`
	const schema = `{"properties":{"i":{"type":"integer"},"n":{"type":"number"},"o":{"$ref":"#/$defs/loop"},"a":{"anyOf":[{"$ref":"#/$defs/many"},{"$ref":"#"}]}},
		"$defs":{"loop":{"$ref":"#/$defs/loop"},"many":{"allOf":[{"$ref":"#/$defs/many"},{"$ref":"#/$defs/many"},{"type":"array","items":{"$ref":"#/$defs/many"}}]}}}`
	inputs := map[string]string{
		"a large exponent":    `{"x": 1e999999999}`,
		"a small exponent":    `{"x": 1e-999999999, "n": 1e-300}`,
		"large numbers":       `{"x": 1e300, "n": 1e300}`,
		"many digits":         `{"x": ` + strings.Repeat("9", 1<<18) + `}`,
		"digits in a text":    `{"x": "` + strings.Repeat("9", 1<<18) + `"}`,
		"exponent in a text":  `{"x": "1e999999999"}`,
		"deep arrays":         `{"x": ` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `}`,
		"deep JSON in a text": `{"x": "` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `"}`,
		"an open array":       `{"x": "` + strings.Repeat("[", 100000) + `"}`,
		"many members":        `{"x": {` + strings.Repeat(`"k":1,`, 200000) + `"k":2}}`,
		"a pattern":           `{"s": "` + strings.Repeat("a", 100000) + `b"}`,
		"unique items":        `{"u": [` + strings.Repeat(`{"a":1},`, 5000) + `{}]}`,
	}
	d := perduretest.Must(FromSource([]byte(source)))(t)
	p := perduretest.Must(Compile(d))(t)
	for name, text := range inputs {
		t.Run(name, func(t *testing.T) {
			perduretest.Frugal(t, 2*time.Minute, 1<<30, func() {
				args, err := d.Arguments(json.RawMessage(text))
				if err != nil {
					if len(err.Error()) > 5000 {
						t.Errorf("an error of %d bytes: %.200s", len(err.Error()), err)
					}
					return
				}
				params := perduretest.Must(decodeObject(args))(t)
				got, err := p.Steps[0].Arguments(&Scope{Params: params}, json.RawMessage(schema))
				if err == nil && !json.Valid(got) {
					t.Errorf("arguments that are no JSON: %.200s", got)
				}
			})
		})
	}
}

// What names one large value over and over comes to less than the memory of a
// worker.
func TestNamedOverAndOver(t *testing.T) {
	t.Parallel()
	var arguments, properties []string
	for i := range 100 {
		arguments = append(arguments, fmt.Sprintf(`a%d: "{{.params.x}}"`, i))
		properties = append(properties, fmt.Sprintf(`a%d: {type: string, description: d, value: "{{.params.x}}"}`, i))
	}
	defs, diags := Parse("a.yaml", []byte(`{name: a, description: d, parameters: {x: string}, steps: [{id: s, tool: t, arguments: {`+
		strings.Join(arguments, ", ")+`}}], output: {properties: {`+strings.Join(properties, ", ")+`}}}`))
	perduretest.NoError(t, diags.Err())
	p := perduretest.Must(Compile(defs[0]))(t)
	s := &Scope{Params: map[string]any{"x": strings.Repeat("x", 5<<20)}}
	if _, err := p.Steps[0].Arguments(s, nil); err == nil || !strings.Contains(err.Error(), "all of it together is larger than") {
		t.Errorf("the arguments: %v", err)
	}
	if _, err := p.Output(s, nil); err == nil || !strings.Contains(err.Error(), "all of it together is larger than") {
		t.Errorf("the output: %v", err)
	}
}
