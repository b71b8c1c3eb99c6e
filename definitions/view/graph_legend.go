package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
)

// class is the name of a node's colours in the style of a picture.
func (n GraphNode) class() string {
	if n.Writes {
		return "writes"
	}
	if _, known := legendWords[string(n.Type)]; !known {
		return string(definitions.ToolStep)
	}
	return string(n.Type)
}

// The colours of what every picture has, in light and in dark.
var (
	light = rules(map[string][2]string{"page": {"#ffffff", "none"}, "text": {"#222222", "none"}, "head": {"#555555", "none"}, "edge": {"none", "#777777"}, "undo": {"#8a3d0f", "none"}})
	dark  = rules(map[string][2]string{"page": {"#0d1117", "none"}, "text": {"#e6edf3", "none"}, "head": {"#9aa4b0", "none"}, "edge": {"none", "#8b949e"}, "undo": {"#f0a36b", "none"}})
)

// style writes the colours, which follow those of the page that shows the picture.
func (d *svgDrawing) style() {
	inLight, inDark := map[string][2]string{}, map[string][2]string{}
	for _, n := range d.graph.Nodes {
		look := n.look()
		inLight[n.class()], inDark[n.class()] = [2]string{look.Fill, look.Line}, look.Dark
	}
	d.printf("<style>%s%s@media (prefers-color-scheme: dark){%s%s}</style>\n", light, rules(inLight), dark, rules(inDark))
}

func rules(colours map[string][2]string) string {
	var all []string
	for class, c := range colours {
		all = append(all, fmt.Sprintf(".%s{fill:%s;stroke:%s}", class, c[0], c[1]))
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

// A legendEntry explains one class.
type legendEntry struct{ class, means string }

// legendWords explain the classes of nodes.
var legendWords = map[string]string{
	"writes":                            "changes something",
	string(definitions.ToolStep):        "calls a tool",
	string(definitions.ElicitationStep): "asks a person",
	string(definitions.ForEachStep):     "for each item",
	string(definitions.WaitStep):        "waits",
	string(definitions.ScriptStep):      "script",
	string(definitions.WorkflowStep):    "calls a composite tool",
	string(GraphOutput):                 "output",
}

// legend has an entry for each class, in the order of the nodes, and for dashed arrows.
func (g *Graph) legend() (entries []legendEntry) {
	for _, n := range g.Nodes {
		if e := (legendEntry{n.class(), legendWords[n.class()]}); !slices.Contains(entries, e) {
			entries = append(entries, e)
		}
	}
	if slices.ContainsFunc(g.Edges, func(e GraphEdge) bool { return e.Reads }) {
		entries = append(entries, legendEntry{"edge", "only read"})
	}
	return entries
}

func (e legendEntry) width() float64 {
	return svgSample + 6 + float64(Cells(e.means))*svgLetter + 16
}

func (d *svgDrawing) legendWidth() float64 {
	all := 2 * svgMargin
	for _, e := range d.legend {
		all += e.width()
	}
	return all
}

// drawLegend draws the legend at the bottom of a picture of the given height.
func (d *svgDrawing) drawLegend(height float64) {
	x, y := svgMargin, height-svgLegend
	for _, e := range d.legend {
		if e.class == "edge" {
			d.printf(`<path d="M%.1f,%.1f h%.1f" class="edge" stroke-width="1.2" stroke-dasharray="4 3"/>`, x, y+svgSample/2, svgSample)
		} else {
			d.printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2" class="%s"/>`, x, y, svgSample, svgSample, e.class)
		}
		d.printf(`<text x="%.1f" y="%.1f" class="text">%s</text>`+"\n", x+svgSample+6, y+10, xmlText(e.means))
		x += e.width()
	}
}
