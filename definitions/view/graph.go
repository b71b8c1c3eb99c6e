package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
)

// A Graph is a definition as a picture: its steps, what they wait for, and the
// output block. Text draws it for a terminal, Mermaid for Markdown (a pull request),
// and SVG for a page (this project's README).
type Graph struct {
	Name  string // of the definition, with its version
	Nodes []GraphNode
	Edges []GraphEdge // in the order of their To
}

// A GraphNode is a step or the output block. It comes after the nodes that it waits for.
type GraphNode struct {
	ID    string
	Type  definitions.StepType // GraphOutput for the output block
	Does  string               // in a few words: the called tool, the question
	Notes []string             // condition, error handling, compensation
	// Writes is whether it calls a tool that changes something, as far as that is known.
	Writes bool
}

// GraphOutput is the type of the node of the output block.
const GraphOutput definitions.StepType = "output"

// A GraphEdge leads from a node to one that waits for it.
type GraphEdge struct {
	From, To string // IDs of nodes
	Reads    bool   // the only reason is that templates read the step
}

// NewGraph makes the picture of a program. Which tools change something is known from
// their catalogue; without one, only steps that can be undone do. A step that reads another on which it
// depends anyway, directly or not, has no edge for the reading.
func NewGraph(p *definitions.Program, tools definitions.Tools) *Graph {
	g := &Graph{Name: p.Definition.Title()}
	explicit := make(map[string]map[string]bool, len(p.Order())) // by ID: all that it waits for by dependsOn
	for _, n := range p.Order() {
		node := graphNode(n.Step)
		node.Writes = writes(n.Step, tools)
		for inner := n; inner != nil; inner = inner.Inner {
			for _, call := range plannedCalls(inner) {
				node.Notes = append(node.Notes, call.String())
			}
		}
		g.Nodes = append(g.Nodes, node)
		before := make(map[string]bool)
		for _, id := range n.Step.DependsOn {
			before[id] = true
			maps.Copy(before, explicit[id])
		}
		explicit[n.ID] = before
		for _, id := range n.Deps {
			if written := slices.Contains(n.Step.DependsOn, id); written || !before[id] {
				g.Edges = append(g.Edges, GraphEdge{From: id, To: n.ID, Reads: !written})
			}
		}
	}
	g.addOutput(p)
	return g
}

// addOutput adds the output block. It waits for all steps; the edges are from those
// that no other step waits for, and from those that it reads.
func (g *Graph) addOutput(p *definitions.Program) {
	if p.OutputBlock == nil {
		return
	}
	node := GraphNode{ID: "output", Type: GraphOutput, Does: strings.Join(template.SortedKeys(p.Definition.Output.Properties), ", ")}
	for g.node(node.ID) >= 0 { // a step has this ID
		node.ID += "_"
	}
	awaited, read := make(map[string]bool), p.OutputBlock.Reads()
	for _, e := range g.Edges {
		awaited[e.From] = true
	}
	for _, n := range p.Order() {
		if read[n.ID] || !awaited[n.ID] {
			g.Edges = append(g.Edges, GraphEdge{From: n.ID, To: node.ID, Reads: awaited[n.ID]})
		}
	}
	g.Nodes = append(g.Nodes, node)
}

// node gives the index of a node; -1 = none.
func (g *Graph) node(id string) int {
	return slices.IndexFunc(g.Nodes, func(n GraphNode) bool { return n.ID == id })
}

// into gives the edges to a node.
func (g *Graph) into(id string) []GraphEdge {
	var edges []GraphEdge
	for _, e := range g.Edges {
		if e.To == id {
			edges = append(edges, e)
		}
	}
	return edges
}

func graphNode(s *definitions.Step) GraphNode {
	n := GraphNode{ID: s.ID, Type: s.Type, Does: does(s)}
	if n.Type == "" {
		n.Type = definitions.ToolStep
	}
	n.Notes = notes(s)
	for inner := s.Step; inner != nil; inner = inner.Step {
		n.Notes = append(n.Notes, "do: "+does(inner))
		for _, note := range notes(inner) {
			n.Notes = append(n.Notes, "  "+note)
		}
	}
	return n
}

// writes reports whether a step, or its inner one, calls a tool that changes something.
func writes(s *definitions.Step, tools definitions.Tools) bool {
	if s == nil {
		return false
	}
	if s.Compensate != nil || writes(s.Step, tools) {
		return true
	}
	if s.Tool == "" || tools == nil {
		return false
	}
	tool, known := tools(s.Tool)
	if a := tool.Annotations; tool.Effect == "" && a != nil && a.ReadOnlyHint != nil && *a.ReadOnlyHint {
		return false
	}
	return known && tool.Effect != definitions.Read
}

// does says in a few words what a step does.
func does(s *definitions.Step) string {
	if kind, known := definitions.KindOf(s.Type); known {
		return Line(kind.Does(s))
	}
	return string(s.Type)
}

// look is how a node is drawn.
func (n GraphNode) look() definitions.Look {
	if n.Type == GraphOutput {
		return definitions.Look{Symbol: "▼", Fill: "#f4f4f4", Line: "#666666", Dark: [2]string{"#22272e", "#9aa4b0"}, Shape: definitions.Square, Mermaid: [2]string{"[/", "/]"}}
	}
	kind, known := definitions.KindOf(n.Type)
	if !known {
		kind, _ = definitions.KindOf(definitions.ToolStep)
	}
	look := kind.Look()
	if n.Writes {
		look.Fill, look.Line, look.Dark = "#ffe9dc", "#c2571a", [2]string{"#43260f", "#f0a36b"}
		if look.Symbol == "○" {
			look.Symbol = "●"
		}
	}
	return look
}

// undoNote begins the note about what undoes a step.
const undoNote = "undo: "

// notes are further facts about a step.
func notes(s *definitions.Step) []string {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if s.Condition != "" {
		note("if %s", Line(s.Condition))
	}
	if s.Timeout != 0 {
		note("at most %s", s.Timeout.Brief())
	}
	if e := s.OnError; e != nil && e.Action == definitions.Continue {
		note("on error: continue")
	} else if e != nil && e.Action == definitions.Retry {
		note("on error: retry %d times", e.RetryCount)
	}
	if s.OnDecline != nil && s.OnDecline.Action != definitions.Abort {
		note("on decline: %s", s.OnDecline.Action)
	}
	if s.OnCancel != nil && s.OnCancel.Action != definitions.Abort {
		note("on cancel: %s", s.OnCancel.Action)
	}
	if s.Collect != "" {
		note("collect %s", Line(s.Collect))
	}
	if s.Compensate != nil {
		note(undoNote+"%s", Line(s.Compensate.Tool))
	}
	return notes
}

// shorten cuts a text to a number of characters.
func shorten(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return strings.TrimRight(string(runes[:max(most-1, 0)]), " ") + "…"
}
