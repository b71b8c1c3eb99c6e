package view

import (
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/perdure/perdure/definitions"
)

// Measures of an SVG picture, in pixels.
const (
	svgLetter   = 6.65 // width of a letter of 11px in a monospaced font
	svgLine     = 16.0 // height of a line
	svgPadding  = 10.0 // around the text of a node
	svgGap      = 28.0 // between the nodes of a layer
	svgLayerGap = 46.0 // between layers
	svgMargin   = 20.0
	svgTitle    = 34.0 // height of the name at the top
	svgSlant    = 12.0 // of the sides of a hexagon
	svgSheet    = 3.0  // between the sheets of a stack
	svgLegend   = 26.0 // height of the legend
	svgSample   = 12.0 // side of a sample in it
)

// SVG draws the graph as a self-contained SVG picture. Elicitations are hexagons, forEach
// steps are stacks, waits are rounded; dashed arrows are from steps that are only
// read.
func (g *Graph) SVG() string {
	d := &svgDrawing{graph: g, texts: make([][]string, len(g.Nodes))}
	widths := make([]float64, len(g.Nodes))
	for i, n := range g.Nodes {
		d.texts[i] = n.lines()
		widths[i] = nodeWidth(n, d.texts[i])
	}
	d.layout = g.layOut(widths, svgGap)
	return d.draw()
}

func nodeWidth(n GraphNode, lines []string) float64 {
	columns := 8
	for _, line := range lines {
		columns = max(columns, Cells(line))
	}
	w := float64(columns)*svgLetter + 2*svgPadding
	if shape := n.look().Shape; shape == definitions.Hexagon || shape == definitions.Pill {
		w += 2 * svgSlant
	}
	return w
}

// An svgDrawing is a picture under way.
type svgDrawing struct {
	strings.Builder
	graph   *Graph
	texts   [][]string // by node: its lines
	layout  *layout
	tops    []float64 // by layer
	heights []float64
	legend  []legendEntry
}

func (d *svgDrawing) draw() string {
	width, height := d.measure()
	d.legend = d.graph.legend()
	width, height = max(width, d.legendWidth()), height+svgLegend
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" role="img" font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="11">`,
		width, height, width, height)
	d.printf("<title>%s</title>\n", xmlText(d.graph.Name))
	d.style()
	d.printf(`<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0,0.5 L8,4 L0,7.5 z" class="head"/></marker></defs>` + "\n")
	d.printf(`<rect width="100%%" height="100%%" class="page"/>` + "\n")
	d.printf(`<text x="%.0f" y="%.0f" font-size="14" font-weight="bold" class="text">%s</text>`+"\n", svgMargin, svgMargin+8, xmlText(Clip(d.graph.Name, textWidth)))
	for i, e := range d.graph.Edges {
		d.edge(e, d.layout.routes[i])
	}
	for i, n := range d.graph.Nodes {
		d.node(n, d.texts[i], d.layout.nodes[i])
	}
	d.drawLegend(height)
	d.printf("</svg>\n")
	return d.String()
}

func (d *svgDrawing) printf(format string, args ...any) { fmt.Fprintf(d, format, args...) }

// measure places the layers and gives the size of the picture.
func (d *svgDrawing) measure() (width, height float64) {
	width = float64(Cells(d.graph.Name)) * svgLetter * 14 / 11
	y := svgMargin + svgTitle
	for _, layer := range d.layout.layers {
		tallest := 0.0
		for _, s := range layer {
			if s.node >= 0 {
				tallest = max(tallest, nodeHeight(d.texts[s.node]))
			}
			width = max(width, s.x+s.width/2)
		}
		d.tops, d.heights = append(d.tops, y), append(d.heights, tallest)
		y += tallest + svgLayerGap
	}
	return width + 2*svgMargin, y - svgLayerGap + svgMargin
}

func nodeHeight(lines []string) float64 { return float64(len(lines))*svgLine + svgPadding }

// edge draws a line from the bottom of a node to the top of another, straight in the
// layers that it crosses.
func (d *svgDrawing) edge(e GraphEdge, route []*station) {
	from, to := route[0], route[len(route)-1]
	x, y := from.x+svgMargin, d.tops[from.layer]+nodeHeight(d.texts[from.node])
	path := fmt.Sprintf("M%.1f,%.1f", x, y)
	curve := func(toX, toY float64) {
		middle := (y + toY) / 2
		path += fmt.Sprintf(" C%.1f,%.1f %.1f,%.1f %.1f,%.1f", x, middle, toX, middle, toX, toY)
		x, y = toX, toY
	}
	if bottom := d.tops[from.layer] + d.heights[from.layer]; y < bottom {
		y = bottom
		path += fmt.Sprintf(" L%.1f,%.1f", x, y)
	}
	for _, bend := range route[1 : len(route)-1] {
		curve(bend.x+svgMargin, d.tops[bend.layer])
		y += d.heights[bend.layer]
		path += fmt.Sprintf(" L%.1f,%.1f", x, y)
	}
	top := d.tops[to.layer] - 1
	if d.graph.Nodes[to.node].look().Shape == definitions.Stack {
		top -= 2 * svgSheet
	}
	curve(to.x+svgMargin, top)
	dashes := ""
	if e.Reads {
		dashes = ` stroke-dasharray="4 3"`
	}
	d.printf(`<path d="%s" class="edge" stroke-width="1.2"%s marker-end="url(#arrow)"/>`+"\n", path, dashes)
}

func (d *svgDrawing) node(n GraphNode, lines []string, at *station) {
	w, h := at.width, nodeHeight(lines)
	x, y := at.x-w/2+svgMargin, d.tops[at.layer]
	full := append([]string{n.ID, n.Does}, n.Notes...)
	d.printf("<g><title>%s</title>", xmlText(strings.Join(full, "\n")))
	d.shape(n.look(), n.class(), x, y, w, h)
	for i, line := range lines {
		weight, class := "", "text"
		if i == 0 {
			weight = ` font-weight="bold"`
		}
		if strings.HasPrefix(strings.TrimSpace(line), undoNote) {
			class = "undo"
		}
		d.printf(`<text x="%.1f" y="%.1f" text-anchor="middle" xml:space="preserve" class="%s"%s>%s</text>`,
			at.x+svgMargin, y+svgPadding/2+svgLine*float64(i)+12, class, weight, xmlText(line))
	}
	d.printf("</g>\n")
}

// shape draws the outline of a node.
func (d *svgDrawing) shape(look definitions.Look, class string, x, y, w, h float64) {
	paint := fmt.Sprintf(`class="%s" stroke-width="1.4"`, class)
	rect := func(x, y, round float64) {
		d.printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="%.1f" %s/>`, x, y, w, h, round, paint)
	}
	switch look.Shape {
	case definitions.Hexagon:
		d.printf(`<polygon points="%.1f,%.1f %.1f,%.1f %.1f,%.1f %.1f,%.1f %.1f,%.1f %.1f,%.1f" %s/>`,
			x+svgSlant, y, x+w-svgSlant, y, x+w, y+h/2, x+w-svgSlant, y+h, x+svgSlant, y+h, x, y+h/2, paint)
	case definitions.Stack:
		rect(x+2*svgSheet, y-2*svgSheet, 3)
		rect(x+svgSheet, y-svgSheet, 3)
		rect(x, y, 3)
	case definitions.Pill:
		rect(x, y, min(h/2, 3*svgSlant))
	case definitions.Square:
		rect(x, y, 0)
	default:
		rect(x, y, 5)
	}
}

// xmlText escapes a text, and replaces what XML cannot contain.
func xmlText(text string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(text)); err != nil {
		return "" // never: a builder takes everything
	}
	return b.String()
}
