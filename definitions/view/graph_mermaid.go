package view

import (
	"fmt"
	"strings"
)

// maxGraphLine is how many characters of a line a picture shows.
const maxGraphLine = 44

// lines gives the text of a node: ID, Does and Notes.
func (n GraphNode) lines() []string {
	lines := []string{shorten(n.ID, maxGraphLine)}
	if n.Does != "" {
		lines = append(lines, shorten(n.Does, maxGraphLine))
	}
	for _, note := range n.Notes {
		lines = append(lines, shorten(note, maxGraphLine))
	}
	return lines
}

// Mermaid writes the graph as a flowchart of Mermaid, which GitHub and others
// draw. Steps that are read without dependsOn have dashed arrows.
func (g *Graph) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for i, n := range g.Nodes {
		shape := n.look().Mermaid
		fmt.Fprintf(&b, "    n%d%s\"%s\"%s\n", i, shape[0], mermaidText(n.lines()), shape[1])
	}
	if writing := g.writing(); len(writing) > 0 {
		fmt.Fprintf(&b, "    classDef writes stroke:#c2571a,stroke-width:2px\n    class %s writes\n", strings.Join(writing, ","))
	}
	for _, e := range g.Edges {
		arrow := "-->"
		if e.Reads {
			arrow = "-.->"
		}
		fmt.Fprintf(&b, "    n%d %s n%d\n", g.node(e.From), arrow, g.node(e.To))
	}
	return b.String()
}

// writing names the nodes that change something.
func (g *Graph) writing() (names []string) {
	for i, n := range g.Nodes {
		if n.Writes {
			names = append(names, fmt.Sprintf("n%d", i))
		}
	}
	return names
}

// mermaidText escapes what has a meaning in Mermaid or HTML.
func mermaidText(lines []string) string {
	escaped := make([]string, len(lines))
	for i, line := range lines {
		var b strings.Builder
		for _, r := range line {
			if strings.ContainsRune("\"#&<>`\\", r) {
				fmt.Fprintf(&b, "#%d;", r)
				continue
			}
			b.WriteRune(r)
		}
		escaped[i] = b.String()
	}
	return strings.Join(escaped, "<br/>")
}
