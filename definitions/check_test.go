package definitions

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

// TestCheckFiles parses and checks each file of testdata. Those in ok have
// nothing wrong with them; those in err have what their .out says, which may
// be warnings alone.
func TestCheckFiles(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"ok", "err"} {
		for _, file := range perduretest.Files(t, filepath.Join("testdata", kind, "*.yaml")) {
			t.Run(kind+"/"+filepath.Base(file), func(t *testing.T) {
				t.Parallel()
				got := checkFile(t, file)
				if kind == "ok" {
					if got != "" {
						t.Errorf("wrong with %s:\n%s", file, got)
					}
					return
				}
				perduretest.Golden(t, strings.TrimSuffix(file, ".yaml")+".out", got)
				if got == "" {
					t.Errorf("nothing is wrong with %s", file)
				}
			})
		}
	}
}

// checkFile gives the diagnostics of a file, a line each. Files whose names end
// in _tools are checked against the tools of testdata/tools.json.
func checkFile(t *testing.T, file string) string {
	t.Helper()
	defs, diags := Parse(filepath.Base(file), perduretest.Read(t, file))
	for _, d := range defs {
		if d == nil {
			continue
		}
		diags = append(diags, d.Pin(func(name string) (string, error) {
			text, err := os.ReadFile(filepath.Join(filepath.Dir(file), name))
			if err != nil {
				return "", errors.New("no such file")
			}
			return string(text), nil
		})...)
	}
	var opts CheckOptions
	if strings.HasSuffix(file, "_tools.yaml") {
		opts.Tools, opts.AllTools = testTools(t), func() []Tool { return listedTools(t) }
	}
	diags = append(diags, Check(defs, opts)...)
	diags.Sort()
	var b strings.Builder
	for _, d := range diags {
		fmt.Fprintln(&b, d)
	}
	return b.String()
}

func testTools(t *testing.T) Tools {
	t.Helper()
	tools := listedTools(t)
	return func(name string) (Tool, bool) {
		for _, tool := range tools {
			if tool.Name == name || tool.Backend+"."+tool.Original == name || slices.Contains(Spellings(tool.Name, tool.Backend, tool.Original), name) {
				return tool, true
			}
		}
		return Tool{}, false
	}
}

func listedTools(t *testing.T) (tools []Tool) {
	t.Helper()
	perduretest.NoError(t, json.Unmarshal(perduretest.Read(t, "testdata/tools.json"), &tools))
	return tools
}

// BenchmarkParseAndCheck reads and checks 1,000 definitions of 20 steps.
func BenchmarkParseAndCheck(b *testing.B) {
	data := manyDefinitions(1000, 20)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		defs, diags := Parse("many.yaml", data)
		diags = append(diags, Check(defs, CheckOptions{})...)
		if len(diags) > 0 || len(defs) != 1000 {
			b.Fatalf("%d definitions, %v", len(defs), diags)
		}
	}
}

func manyDefinitions(definitions, steps int) []byte {
	var b strings.Builder
	for i := range definitions {
		fmt.Fprintf(&b, "---\nname: tool_%d\ndescription: made for measuring\n", i)
		b.WriteString("parameters:\n  type: object\n  properties:\n    who: {type: string}\n    often: {type: integer, default: 3}\n  required: [who]\nsteps:\n")
		for j := range steps {
			fmt.Fprintf(&b, "- id: s%d\n  tool: be_echo\n  arguments: {message: '{{.params.who}} {{.params.often}}'", j)
			if j > 0 {
				fmt.Fprintf(&b, ", before: '{{.steps.s%d.output.message}}'}\n  dependsOn: [s%[1]d]\n", j-1)
			} else {
				b.WriteString("}\n")
			}
		}
		fmt.Fprintf(&b, "output:\n  properties:\n    last: {type: string, description: last, value: '{{.steps.s%d.output.message}}'}\n", steps-1)
	}
	return []byte(b.String())
}
