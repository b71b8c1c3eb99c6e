package definitions_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/perduretest"
)

// libraryBombs are definitions of at most 2 MB whose text was made for what the
// libraries below perdure do with it: yaml.v3, math/big, time, text/template and
// what draws graphs.
func libraryBombs() map[string]string {
	repeat := strings.Repeat
	step := func(fields string) string {
		return "name: a\ndescription: d\nsteps: [{id: s, tool: t, " + fields + "}]\n"
	}
	aliases := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	merges := "m0: &m0 {k: v}\n"
	for i := 1; i < 30; i++ {
		aliases += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
		merges += fmt.Sprintf("m%d: &m%d {<<: [%s], k%d: v}\n", i, i, strings.TrimSuffix(repeat(fmt.Sprintf("*m%d,", i-1), 9), ","), i)
	}
	chain, wide := "", ""
	for i := range 5000 {
		chain += fmt.Sprintf("  - {id: s%d, tool: t, dependsOn: [%s]}\n", i+1, "s"+fmt.Sprint(i))
		wide += fmt.Sprintf("  - {id: s%d, tool: t}\n", i)
	}
	dense := ""
	for i := range 400 {
		var on []string
		for j := range i {
			on = append(on, fmt.Sprintf("s%d", j))
		}
		dense += fmt.Sprintf("  - {id: s%d, tool: t, dependsOn: [%s]}\n", i, strings.Join(on, ","))
	}
	return map[string]string{
		"YAML aliases of aliases":        aliases + "name: a\ndescription: d\nsteps: *a29\n",
		"YAML merges of merges":          merges + "name: a\ndescription: d\nsteps: [*m29]\n",
		"YAML alias of itself":           "name: &n [*n]\nsteps: &s [{id: s, tool: t, arguments: *s}]\n",
		"YAML many aliases":              step("arguments: {a: &a " + repeat("x", 1000) + ", b: [" + repeat("*a,", 100_000) + "]}"),
		"YAML deep brackets":             "steps: " + repeat("[", 1_000_000),
		"YAML deep braces":               step("arguments: {a: " + repeat("{a: ", 200_000) + repeat("}", 200_000) + "}"),
		"YAML deep indentation":          deepYAML(1400),
		"YAML many documents":            repeat("---\nname: a\n", 100_000),
		"YAML long scalar":               step("arguments: {a: \"" + repeat(`é`, 300_000) + "\"}"),
		"YAML escapes":                   step("arguments: {a: \"" + repeat(`\u2028`, 300_000) + "\"}"),
		"YAML integer":                   step("timeout: " + repeat("9", 1_000_000)),
		"YAML integer of a limit":        "name: a\ndescription: d\nsteps: [{id: s, type: forEach, collection: x, maxIterations: " + repeat("9", 1_000_000) + ", step: {tool: t}}]\n",
		"YAML octal and binary":          step("arguments: {a: 0o" + repeat("7", 500_000) + ", b: 0b" + repeat("1", 500_000) + ", c: 0x" + repeat("f", 500_000) + "}"),
		"YAML sexagesimal":               step("arguments: {a: 1" + repeat(":59", 300_000) + "}"),
		"YAML exponent":                  step("arguments: {a: 1e1000000000, b: -1e-1000000000, c: 1" + repeat("0", 1_000_000) + "e-1000000}"),
		"YAML binary tag":                step("arguments: {a: !!binary " + repeat("QUJD", 300_000) + "}"),
		"YAML timestamps":                step("arguments: {a: [" + repeat("2001-12-14t21:59:43.10-05:00,", 50_000) + "]}"),
		"YAML unknown tags":              step("arguments: {a: [" + repeat("!<tag:x,2000:y> z,", 80_000) + "]}"),
		"YAML many keys":                 step("arguments: {" + numbered("k%d: v,", 100_000) + "}"),
		"YAML the same key":              step("arguments: {" + repeat("k: v,", 150_000) + "}"),
		"YAML anchors":                   step("arguments: {a: [" + numbered("&a%d x,", 100_000) + "]}"),
		"YAML comments":                  repeat("# x\n", 400_000) + step("timeout: 1s"),
		"duration of many units":         step("timeout: " + repeat("1h", 500_000)),
		"duration of many digits":        step("timeout: 0." + repeat("0", 1_000_000) + "1h"),
		"template of many actions":       step("arguments: {a: \"" + repeat("{{.params.a}}", 100_000) + "\"}"),
		"template of nested parentheses": step("arguments: {a: \"{{" + repeat("(", 300_000) + "1" + repeat(")", 300_000) + "}}\"}"),
		"template of nested blocks":      step("arguments: {a: \"" + repeat("{{if .params.a}}", 60_000) + repeat("{{end}}", 60_000) + "\"}"),
		"template of pipes":              step("arguments: {a: \"{{1" + repeat(" | add 1", 100_000) + "}}\"}"),
		"template of one number":         step("arguments: {a: \"{{add " + repeat("9", 1_000_000) + " 1}}\"}"),
		"template of one exponent":       step("arguments: {a: \"{{add 1e1000000000 1}} {{int (print `1e999999999`)}} {{1e999999999i}} {{0x1p1000000000}}\"}"),
		"template that defines itself":   step("arguments: {a: '{{define `x`}}{{template `x`}}{{end}}{{template `x`}}'}"),
		"schema that refers to itself":   "name: a\ndescription: d\nparameters: {type: object, properties: {a: {$ref: '#'}}, allOf: [{$ref: '#'}]}\nsteps: [{id: s, tool: t}]\n",
		"schema of many choices":         "name: a\ndescription: d\nparameters: {type: object, properties: {a: {enum: [" + numbered("%d,", 150_000) + "]}}}\nsteps: [{id: s, tool: t}]\n",
		"graph of a chain":               "name: a\ndescription: d\nsteps:\n" + chain,
		"graph side by side":             "name: a\ndescription: d\nsteps:\n" + wide,
		"graph of all with all":          "name: a\ndescription: d\nsteps:\n" + dense,
		"graph of long names":            "name: a\ndescription: " + repeat("<&\\u202e", 100_000) + "\nsteps: [{id: s, tool: " + repeat("t", 500_000) + ", condition: \"" + repeat("<", 300_000) + "\"}]\n",
	}
}

func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// deepYAML is a definition whose arguments are nested by indentation, which takes
// the square of the depth in text.
func deepYAML(depth int) string {
	var b strings.Builder
	b.WriteString("name: a\ndescription: d\nsteps:\n- id: s\n  tool: t\n  arguments:\n")
	for i := range depth {
		b.WriteString(strings.Repeat(" ", i+3) + "a:\n")
	}
	return b.String()
}

// TestAttackLibraries has the libraries below perdure read, check, expand and draw
// what was made to cost them much. Memory is exact; the machine may be busy.
func TestAttackLibraries(t *testing.T) {
	bombs := libraryBombs()
	for _, name := range template.SortedKeys(bombs) {
		t.Run(name, func(t *testing.T) {
			if len(bombs[name]) > 2<<20 {
				t.Fatalf("it has %d bytes", len(bombs[name]))
			}
			// yaml takes up to 1,000 bytes for each one of a flow mapping, most of
			// them garbage at once; what is published has 1 MB at most.
			perduretest.Frugal(t, time.Minute, 1<<30, func() {
				defs, diags := definitions.Parse("bomb.yaml", []byte(bombs[name]))
				diags = append(diags, definitions.Check(defs, definitions.CheckOptions{})...)
				told := len(fmt.Sprint(diags.Err()))
				for _, d := range defs {
					if p, err := definitions.Compile(d); err == nil {
						g := view.NewGraph(p, nil)
						told += len(g.SVG()) + len(g.Text()) + len(g.Mermaid())
					}
				}
				t.Logf("%d KB: %d definitions, %d mistakes, %d bytes told", len(bombs[name])>>10, len(defs), len(diags), told)
			})
		})
	}
}
