package view

import (
	"slices"
	"strings"
)

const (
	textWidth = 80 // columns of a terminal
	maxLanes  = 16 // lines side by side; with more the graph is a list
)

// Text draws the graph for a terminal of 80 columns: a line for each step, and lanes
// on the left from each to the steps that wait for it. Steps that the output block
// only reads have no lane to it. A graph with too many lanes becomes a list. The text
// ends with a newline.
func (g *Graph) Text() string {
	t := &textGraph{graph: g, waiting: make(map[string]int)}
	for _, n := range g.Nodes {
		for _, e := range g.into(n.ID) {
			if hasLane(n, e) {
				t.waiting[e.From]++
			}
		}
	}
	for _, n := range g.Nodes {
		t.add(n)
	}
	if t.lanesUsed > maxLanes {
		t = &textGraph{graph: g, list: true, lanesUsed: 1}
		for _, n := range g.Nodes {
			t.row(n.look().Symbol, n, t.after(g.into(n.ID)))
		}
	}
	return t.String()
}

// A textGraph is a drawing under way.
type textGraph struct {
	graph     *Graph
	list      bool
	rows      []textRow
	lanes     []string       // the ID that each lane leads from; "" = free
	waiting   map[string]int // by ID: how many nodes its lane must still reach
	lanesUsed int
}

type textRow struct {
	lanes string
	id    string
	text  string
}

// add draws one node: the ends of the lanes that it waits for, then the node.
func (t *textGraph) add(n GraphNode) {
	edges := t.graph.into(n.ID)
	sources := make(map[string]bool)
	for _, e := range edges {
		if hasLane(n, e) {
			sources[e.From] = true
			t.waiting[e.From]--
		}
	}
	at := t.laneFor(sources)
	if joins := t.join(sources, at); joins != "" {
		t.rows = append(t.rows, textRow{lanes: joins})
	}
	for i, id := range t.lanes {
		if id != "" && t.waiting[id] == 0 {
			t.lanes[i] = ""
		}
	}
	if len(sources) == 0 && n.Type != GraphOutput && t.ends(at) {
		t.rows = append(t.rows, textRow{lanes: t.drawLanes(-1, "")})
	}
	t.lanes[at] = n.ID
	t.row(t.drawLanes(at, n.look().Symbol), n, t.after(edges))
	if t.waiting[n.ID] == 0 {
		t.lanes[at] = ""
	}
}

// hasLane reports whether an edge to a node has a lane.
func hasLane(to GraphNode, e GraphEdge) bool { return to.Type != GraphOutput || !e.Reads }

// row adds the lines of a node.
func (t *textGraph) row(lanes string, n GraphNode, more []string) {
	t.rows = append(t.rows, textRow{lanes, n.ID, n.Does})
	below := " "
	if !t.list {
		if t.waiting[n.ID] == 0 {
			t.lanes[slices.Index(t.lanes, n.ID)] = ""
		}
		below = t.drawLanes(-1, "")
	}
	for _, note := range slices.Concat(n.Notes, more) {
		t.rows = append(t.rows, textRow{lanes: below, text: "  " + note})
	}
	if !t.list && t.waiting[n.ID] == 0 {
		t.lanes[slices.Index(t.lanes, "")] = ""
	}
}

// after names what lanes do not show: nodes that a node only reads, or in a list all
// that it waits for.
func (t *textGraph) after(edges []GraphEdge) []string {
	var read, all []string
	for _, e := range edges {
		all = append(all, e.From)
		if e.Reads {
			read = append(read, e.From)
		}
	}
	switch {
	case t.list && all != nil:
		return []string{"after " + strings.Join(all, ", ")}
	case read != nil:
		return []string{"reads " + strings.Join(read, ", ")}
	default:
		return nil
	}
}

// ends reports whether a lane ends with a node: another node right below would seem to
// wait for it.
func (t *textGraph) ends(lane int) bool {
	if len(t.rows) == 0 {
		return false
	}
	cells := []rune(t.rows[len(t.rows)-1].lanes)
	return 2*lane < len(cells) && cells[2*lane] != ' '
}

// laneFor picks the lane of a node: the first that ends at it, else the first free one.
func (t *textGraph) laneFor(sources map[string]bool) int {
	at := slices.IndexFunc(t.lanes, func(id string) bool { return sources[id] && t.waiting[id] == 0 })
	if at < 0 {
		at = slices.Index(t.lanes, "")
	}
	if at < 0 {
		at = len(t.lanes)
		t.lanes = append(t.lanes, "")
	}
	t.lanesUsed = max(t.lanesUsed, len(t.lanes))
	return at
}

// join draws the line on which the lanes of sources lead to the lane at; "" = the only
// lane goes straight down.
func (t *textGraph) join(sources map[string]bool, at int) string {
	first, last := at, at
	for i, id := range t.lanes {
		if sources[id] {
			first, last = min(first, i), max(last, i)
		}
	}
	if first == last {
		return ""
	}
	var b strings.Builder
	for i, id := range t.lanes {
		within := i > first && i <= last
		if i > 0 {
			b.WriteString(map[bool]string{true: "─", false: " "}[within])
		}
		from := sources[id]
		corner := lines{up: from, down: i == at || from && t.waiting[id] > 0, left: within, right: i >= first && i < last}
		if !from && i != at {
			corner = lines{up: id != "", down: id != ""} // others pass through
			if id == "" {
				corner = lines{left: within, right: within && i < last}
			}
		}
		b.WriteString(corner.String())
	}
	return strings.TrimRight(b.String(), " ")
}

// lines are the directions of a box-drawing character.
type lines struct{ up, down, left, right bool }

func (l lines) String() string {
	index := 0
	for i, on := range []bool{l.up, l.down, l.left, l.right} {
		if on {
			index |= 1 << i
		}
	}
	return string([]rune("   │ ┘┐┤ └┌├─┴┬┼")[index])
}

// drawLanes draws all lanes, with a symbol in one.
func (t *textGraph) drawLanes(at int, symbol string) string {
	cells := make([]string, len(t.lanes))
	for i, id := range t.lanes {
		switch {
		case i == at:
			cells[i] = symbol
		case id != "":
			cells[i] = "│"
		default:
			cells[i] = " "
		}
	}
	return strings.TrimRight(strings.Join(cells, " "), " ")
}

// String puts the text beside the lanes.
func (t *textGraph) String() string {
	lanes, ids := 2*t.lanesUsed+1, 0
	for _, r := range t.rows {
		ids = max(ids, min(len(r.id), 20))
	}
	var b strings.Builder
	b.WriteString(Clip(t.graph.Name, textWidth) + "\n\n")
	for _, r := range t.rows {
		line := Pad(r.lanes, lanes)
		if r.id != "" {
			line += Pad(r.id, ids) + "  "
		}
		b.WriteString(strings.TrimRight(Clip(line+r.text, textWidth), " ") + "\n")
	}
	return b.String()
}
