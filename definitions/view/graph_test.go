package view

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
)

// formats are the forms of a graph by the names of their files.
var formats = map[string]func(*Graph) string{
	"txt": (*Graph).Text, "svg": (*Graph).SVG, "mermaid": (*Graph).Mermaid,
}

// TestGraphFiles draws the first definition of each file of testdata/graph.
func TestGraphFiles(t *testing.T) {
	t.Parallel()
	for _, file := range perduretest.Files(t, "testdata/graph/*.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			graph := graphOf(t, file)
			for extension, draw := range formats {
				perduretest.Golden(t, strings.TrimSuffix(file, "yaml")+extension, draw(graph))
			}
			checkWidth(t, graph.Text())
			checkXML(t, graph.SVG())
		})
	}
}

func graphOf(t *testing.T, file string) *Graph {
	t.Helper()
	defs, diags := definitions.Parse(file, perduretest.Read(t, file))
	diags = append(diags, definitions.Check(defs, definitions.CheckOptions{})...)
	perduretest.NoError(t, diags.Err())
	p := perduretest.Must(definitions.Compile(defs[0]))(t)
	return NewGraph(p, nil)
}

func checkWidth(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if columns := Cells(strings.TrimSuffix(line, "\n")); columns > textWidth {
			t.Errorf("%d columns: %s", columns, line)
		}
	}
}

func checkXML(t *testing.T, text string) {
	t.Helper()
	for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}
}

// Pictures stay legible, valid and quick with as many steps as there may be.
func TestLargeGraphs(t *testing.T) {
	t.Parallel()
	shapes := map[string]func(i int) []string{ // dependsOn of step i
		"apart": func(int) []string { return nil },
		"chain": func(i int) []string { return stepIDs(max(i-1, 0), i) },
		"all":   func(i int) []string { return stepIDs(0, i) },
		"tree":  func(i int) []string { return stepIDs(i/2, min(i/2+1, i)) },
		"two layers": func(i int) []string {
			if i < definitions.MaxSteps/2 {
				return nil
			}
			return stepIDs(0, definitions.MaxSteps/2)
		},
	}
	for name, dependsOn := range shapes {
		d := &definitions.Definition{Name: name}
		for i, id := range stepIDs(0, definitions.MaxSteps) {
			d.Steps = append(d.Steps, &definitions.Step{ID: id, Tool: "be_echo", DependsOn: dependsOn(i)})
		}
		p := perduretest.Must(definitions.Compile(d))(t)
		graph := NewGraph(p, nil)
		checkWidth(t, graph.Text())
		checkXML(t, graph.SVG())
		checkApart(t, name, graph)
	}
}

func stepIDs(from, to int) []string {
	var ids []string
	for i := from; i < to; i++ {
		ids = append(ids, "step"+strings.Repeat("_", i%3)+strings.Repeat("i", i))
	}
	return ids
}

// checkApart checks that no two nodes overlap, and that edges lead downwards.
func checkApart(t *testing.T, name string, g *Graph) {
	t.Helper()
	widths := make([]float64, len(g.Nodes))
	for i := range widths {
		widths[i] = 10 + float64(i%7)*20
	}
	l := g.layOut(widths, svgGap)
	for _, layer := range l.layers {
		for i := 1; i < len(layer); i++ {
			a, b := layer[i-1], layer[i]
			if distance := b.x - b.width/2 - a.x - a.width/2; distance < svgGap-0.01 {
				t.Fatalf("%s: %v pixels between neighbours", name, distance)
			}
		}
		if first := layer[0]; first.x-first.width/2 < -0.01 {
			t.Errorf("%s: something stands left of the picture", name)
		}
	}
	for i, e := range g.Edges {
		if route := l.routes[i]; route[0].layer >= route[len(route)-1].layer {
			t.Errorf("%s: %v does not lead down", name, e)
		}
	}
}

func TestGraphEscapes(t *testing.T) {
	t.Parallel()
	const nasty = "a\"b<c>&'d\\#;`\x01\u2028{{.params.x}}\n]]-->"
	p := compileSteps(t, &definitions.Step{ID: "output", Type: definitions.ElicitationStep, Message: nasty},
		&definitions.Step{ID: "end", Tool: "be_echo", DependsOn: []string{"output"}, Condition: nasty})
	p.Definition.Name = nasty
	p.OutputBlock = &definitions.OutputBlock{}
	p.Definition.Output = &definitions.Output{}
	g := NewGraph(p, nil)
	checkXML(t, g.SVG())
	if last := g.Nodes[len(g.Nodes)-1]; last.ID != "output_" || last.Type != GraphOutput {
		t.Errorf("the output block is %+v, want output_", last)
	}
	for line := range strings.Lines(g.Mermaid()) {
		if strings.Count(line, `"`)%2 != 0 || strings.ContainsAny(line, "\\`&") || strings.Contains(line, "<c>") {
			t.Errorf("Mermaid: %s", line)
		}
	}
}

// TestAttackHiddenInGraphs draws texts with characters that nobody would see, or
// would see in another order: each drawing and the dry run have marks for them.
func TestAttackHiddenInGraphs(t *testing.T) {
	t.Parallel()
	const text = "to \u202e54321-\u202c or\u3164 \u200bno\U000e0041"
	p := compileSteps(t, &definitions.Step{ID: "ask", Type: definitions.ElicitationStep, Message: text},
		&definitions.Step{ID: "end", Tool: "be_echo", DependsOn: []string{"ask"}, Condition: `{{eq 1 2}}`, Collect: text})
	g := NewGraph(p, nil)
	plan := perduretest.Must(NewPlan(p, json.RawMessage(`{}`), PlanOptions{}))(t)
	for what, shown := range map[string]string{"svg": g.SVG(), "mermaid": g.Mermaid(), "text": g.Text(), "dry run": plan.Text(nil)} {
		if strings.ContainsFunc(shown, Hidden) || !strings.Contains(shown, "to [U+202E]54321-[U+202C]") {
			t.Errorf("%s:\n%+q", what, shown)
		}
	}
}

func FuzzGraph(f *testing.F) {
	perduretest.AddFiles(f, "../testdata/ok/*.yaml", "testdata/graph/*.yaml", "../library/*.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		defs, _ := definitions.Parse("fuzz.yaml", data)
		for _, d := range defs {
			p, err := definitions.Compile(d)
			if err != nil || len(d.Steps) > definitions.MaxSteps {
				continue
			}
			g := NewGraph(p, nil)
			checkWidth(t, g.Text())
			checkXML(t, g.SVG())
			if len(g.Mermaid()) == 0 {
				t.Error("nothing was drawn")
			}
		}
	})
}

// What changes something stands out where the tools are known, and so does what undoes
// it; the legend explains what is there, and the colours follow the page.
func TestGraphWrites(t *testing.T) {
	t.Parallel()
	defs, diagnostics := definitions.Parse("w.yaml", []byte(`name: w
description: d
steps:
  - {id: look, tool: be_look}
  - {id: hint, tool: be_hint}
  - {id: pay, tool: be_pay, dependsOn: [look]}
  - {id: made, tool: be_make, compensate: {tool: be_unmake}}
  - {id: each, type: forEach, collection: "[1]", step: {tool: be_pay}}
`))
	if len(defs) != 1 {
		t.Fatal(diagnostics)
	}
	p := perduretest.Must(definitions.Compile(defs[0]))(t)
	yes := true
	catalogue := map[string]definitions.Tool{
		"be_look": {Effect: definitions.Read}, "be_hint": {Annotations: &definitions.Annotations{ReadOnlyHint: &yes}}, "be_pay": {Effect: definitions.Unsafe},
	}
	tools := definitions.ToolsByName(catalogue)
	for name, tc := range map[string]struct {
		tools definitions.Tools
		want  []string
	}{
		"tools known":   {tools, []string{"pay", "made", "each"}},
		"tools unknown": {nil, []string{"made"}},
	} {
		g := NewGraph(p, tc.tools)
		var got []string
		for _, n := range g.Nodes {
			if n.Writes {
				got = append(got, n.ID)
			}
		}
		slices.Sort(got)
		slices.Sort(tc.want)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v change something, want %v", name, got, tc.want)
		}
		svg := g.SVG()
		checkXML(t, svg)
		for _, want := range []string{`class="writes"`, `class="undo">undo: be_unmake<`, ">changes something</text>", ">calls a tool</text>", "prefers-color-scheme: dark"} {
			if !strings.Contains(svg, want) {
				t.Errorf("%s: the picture lacks %s", name, want)
			}
		}
		if !strings.Contains(g.Mermaid(), " writes\n") || !strings.Contains(g.Text(), "●") {
			t.Errorf("%s:\n%s\n%s", name, g.Mermaid(), g.Text())
		}
	}
}
