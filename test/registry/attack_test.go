package registry_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/registry"
)

// TestAttackLargePublications: anybody who may call may send files, since names are
// checked once they are read. What is large is refused before that.
func TestAttackLargePublications(t *testing.T) {
	r := memoryRegistry(t)
	keys := "name: a\ndescription: d\nsteps: [{id: s, tool: t, arguments: {" + strings.Repeat("k: v,", 100_000) + "}}]\n"
	var many []registry.File
	for i := range 50 {
		many = append(many, registry.File{Name: fmt.Sprintf("%d.yaml", i), Text: strings.Repeat("---\nname: a\n", 2_000)})
	}
	for name, files := range map[string][]registry.File{
		"bytes":        {{Name: "a.yaml", Text: "# " + strings.Repeat("x", 2<<20)}},
		"keys":         {{Name: "a.yaml", Text: keys}},
		"many files":   many,
		"as a module":  {{Name: "a.star", Text: strings.Repeat("[", 1<<20)}},
		"of documents": {{Name: "a.yaml", Text: strings.Repeat("---\nname: a\n", 70_000)}},
	} {
		var report *registry.Report
		var err error
		allocated := perduretest.Allocated(func() {
			report, err = r.Publish(t.Context(), registry.Publisher{By: "eve"}, registry.Request{Files: files})
		})
		if err != nil || len(report.Diagnostics) != 1 || report.Diagnostics[0].Check != "limit" {
			t.Errorf("%s: %v, %.300v", name, err, report)
		}
		if n := allocated >> 20; n > 20 {
			t.Errorf("%s: %d MB were allocated", name, n)
		}
	}
}

// TestAttackLongLists: a backend describes a tool with lists of a hundred thousand values,
// and then with others. Every call of a composite tool that was published with the first
// compares them.
func TestAttackLongLists(t *testing.T) {
	values := func(from int) string {
		var b strings.Builder
		for i := range 100_000 {
			fmt.Fprintf(&b, `,"v%d"`, from+i)
		}
		return "[" + b.String()[1:] + "]"
	}
	for _, list := range []string{"enum", "required", "type"} {
		schema := func(from int) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{%q:%s}`, list, values(from))) }
		e := registry.Entry{Lock: []registry.Locked{{Tool: "t", InputSchema: schema(100_000), OutputSchema: schema(100_000)}}}
		began := time.Now()
		drifted := e.Drift(func(string) (definitions.Tool, bool) {
			return definitions.Tool{InputSchema: schema(200_000), OutputSchema: schema(200_000)}, true
		})
		if took := time.Since(began); took > time.Minute { // each with each takes many
			t.Errorf("comparing two lists (%s) took %s", list, took)
		}
		if len(drifted) != 1 || drifted[0].State != registry.Breaking {
			t.Errorf("%s: %.300v, want a change that breaks", list, drifted)
		}
	}
}

// TestAttackManyCallers publishes a thousand composite tools at once. Each calls
// three others, ten deep: what is looked at of a tool is looked at once, and not for each
// way in which it can be reached.
func TestAttackManyCallers(t *testing.T) {
	const layers, width = 10, 100
	var text strings.Builder
	for layer := range layers {
		for i := range width {
			fmt.Fprintf(&text, "---\nname: d%d-%d\nversion: 1.0.0\ndescription: d\nsteps:\n", layer, i)
			if layer == layers-1 {
				text.WriteString("  - {id: s, type: wait, for: 1s}\n")
				continue
			}
			for n := range 3 {
				fmt.Fprintf(&text, "  - {id: s%d, type: workflow, workflow: d%d-%d}\n", n, layer+1, (3*i+n)%width)
			}
		}
	}
	r := memoryRegistry(t)
	asked := 0
	report, err := r.Publish(t.Context(), registry.Publisher{By: "eve", Permission: func(definitions.Use) string { asked++; return "" },
		Tools: definitions.ToolsByName(nil)}, registry.Request{Files: []registry.File{{Name: "a.yaml", Text: text.String()}}})
	if err != nil || report.Diagnostics.HasErrors() {
		t.Fatalf("%v, %.500v", err, report)
	}
	if all := layers * width; asked == 0 || asked > all*(all+100) {
		t.Errorf("publishing %d composite tools asked for rights %d times", layers*width, asked)
	}
	more := strings.Replace(text.String(), "---", "---\nname: more\nversion: 1.0.0\ndescription: d\nsteps: [{id: s, type: wait, for: 1s}]\n---", 1)
	report, err = r.Publish(t.Context(), registry.Publisher{By: "eve"}, registry.Request{Files: []registry.File{{Name: "a.yaml", Text: more}}})
	if err != nil || len(report.Diagnostics) != 1 || report.Diagnostics[0].Check != "limit" {
		t.Errorf("one more at a time: %v, %.300v", err, report)
	}
}
