package view

import (
	"cmp"
	"slices"
)

// maxBends bounds the bends of all edges of a picture. Edges beyond that go straight.
const maxBends = 5000

// A layout is a graph in layers: a node is below the nodes that it waits for, and an
// edge has a place in each layer that it crosses.
type layout struct {
	layers [][]*station
	nodes  []*station   // of the nodes of the graph, in their order
	routes [][]*station // by edge: from, its bends, to
}

// A station is the place of a node, or of an edge in a layer that it crosses.
type station struct {
	node          int // -1 for a bend of an edge
	layer         int
	x             float64 // of the centre
	width         float64
	before, after []*station
}

// layOut places the nodes of a graph, which have widths, with gaps between
// those of one layer. The leftmost edge is at 0.
func (g *Graph) layOut(widths []float64, gap float64) *layout {
	l := &layout{}
	index := make(map[string]int, len(g.Nodes))
	for i, n := range g.Nodes {
		index[n.ID] = i
		s := &station{node: i, width: widths[i]}
		for _, e := range g.into(n.ID) {
			s.layer = max(s.layer, l.nodes[index[e.From]].layer+1)
		}
		l.nodes = append(l.nodes, s)
		l.put(s)
	}
	bends := 0
	for _, e := range g.Edges {
		from, to := l.nodes[index[e.From]], l.nodes[index[e.To]]
		route := []*station{from}
		if bends += to.layer - from.layer - 1; bends <= maxBends {
			for layer := from.layer + 1; layer < to.layer; layer++ {
				bend := &station{node: -1, layer: layer}
				l.put(bend)
				route = append(route, bend)
			}
		}
		l.routes = append(l.routes, append(route, to))
	}
	l.connect()
	l.order()
	l.place(gap)
	return l
}

func (l *layout) put(s *station) {
	for len(l.layers) <= s.layer {
		l.layers = append(l.layers, nil)
	}
	l.layers[s.layer] = append(l.layers[s.layer], s)
}

// connect makes neighbours of adjacent stations of a route.
func (l *layout) connect() {
	for _, route := range l.routes {
		for i := 1; i < len(route); i++ {
			route[i-1].after = append(route[i-1].after, route[i])
			route[i].before = append(route[i].before, route[i-1])
		}
	}
}

// sweeps is how often order and place go through the layers, down and up.
const sweeps = 12

// order sorts each layer by the places of its neighbours, repeatedly, so that few
// edges cross.
func (l *layout) order() {
	for range sweeps {
		l.sweep(func(layer []*station, neighbours func(*station) []*station) {
			for _, s := range layer {
				s.x = mean(neighbours(s), s.x)
			}
			slices.SortStableFunc(layer, func(a, b *station) int { return cmp.Compare(a.x, b.x) })
		}, func(layer []*station) {
			for i, s := range layer {
				s.x = float64(i)
			}
		})
	}
}

// sweep visits the layers from the top with the neighbours above, then from the bottom
// with those below; done ends each layer.
func (l *layout) sweep(visit func([]*station, func(*station) []*station), done func([]*station)) {
	for _, layer := range l.layers {
		visit(layer, func(s *station) []*station { return s.before })
		done(layer)
	}
	for _, layer := range slices.Backward(l.layers) {
		visit(layer, func(s *station) []*station { return s.after })
		done(layer)
	}
}

// place moves stations as near to their neighbours as order and gaps allow.
func (l *layout) place(gap float64) {
	for _, layer := range l.layers {
		spread(layer, make([]float64, len(layer)), gap)
	}
	for range sweeps {
		l.sweep(func(layer []*station, neighbours func(*station) []*station) {
			wanted := make([]float64, len(layer))
			for i, s := range layer {
				wanted[i] = mean(neighbours(s), s.x)
			}
			spread(layer, wanted, gap)
		}, func([]*station) {})
	}
	left := 0.0
	for _, layer := range l.layers {
		left = min(left, layer[0].x-layer[0].width/2)
	}
	for _, layer := range l.layers {
		for _, s := range layer {
			s.x -= left
		}
	}
}

// mean is the mean place of stations; otherwise if there are none.
func mean(of []*station, otherwise float64) float64 {
	if len(of) == 0 {
		return otherwise
	}
	sum := 0.0
	for _, s := range of {
		sum += s.x
	}
	return sum / float64(len(of))
}

// spread sets the places of a layer: those that keep order and gaps with the least sum
// of squared distances from the wanted places. Stations that would overlap form
// blocks, which move as one.
func spread(layer []*station, wanted []float64, gap float64) {
	type block struct {
		first, size int
		place       float64 // of its members, their offsets aside
	}
	var blocks []block
	offsets := make([]float64, len(layer))
	for i, s := range layer {
		if i > 0 {
			offsets[i] = offsets[i-1] + layer[i-1].width/2 + gap + s.width/2
		}
		next := block{i, 1, wanted[i] - offsets[i]}
		for len(blocks) > 0 && blocks[len(blocks)-1].place > next.place {
			last := blocks[len(blocks)-1]
			size := last.size + next.size
			next = block{last.first, size, (last.place*float64(last.size) + next.place*float64(next.size)) / float64(size)}
			blocks = blocks[:len(blocks)-1]
		}
		blocks = append(blocks, next)
	}
	for _, b := range blocks {
		for i := b.first; i < b.first+b.size; i++ {
			layer[i].x = b.place + offsets[i]
		}
	}
}
