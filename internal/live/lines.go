package live

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/visible"
)

// A Style is what a span means.
type Style int

// The styles.
const (
	Plain Style = iota
	Faint
	Good
	Bad
	Active
	Strong
)

// A Span is text in one style, without characters that cannot be seen.
type Span struct {
	Text  string
	Style Style
}

// A Line is spans that stand beside each other.
type Line []Span

// String is the text of a line.
func (l Line) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.Text)
	}
	return b.String()
}

// Clip cuts a line to a width in cells.
func (l Line) Clip(width int) Line {
	var out Line
	for _, s := range l {
		cells := Cells(s.Text)
		if cells <= width {
			out, width = append(out, s), width-cells
			continue
		}
		return append(out, Span{Clip(s.Text, width), s.Style})
	}
	return out
}

// spin are the frames of what is under way, a tenth of a second each.
var spin = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

func spinner(now time.Time) string { return spin[now.UnixMilli()/100%int64(len(spin))] }

// mark is how a status is drawn.
func mark(s Status, now time.Time) Span {
	switch {
	case s == Completed:
		return Span{"✓", Good}
	case s.failed():
		return Span{"✗", Bad}
	case s == Waiting:
		return Span{"?", Active}
	case s == Running:
		return Span{spinner(now), Active}
	}
	return Span{"–", Faint}
}

const (
	mostLabel = 32 // cells of the column of names
	mostTool  = 32 // of that of tools
	mostBelow = 8  // of what has completed within a step is named
	barCells  = 20
)

// A layout is the widths of columns.
type layout struct{ label, tool, width int }

func (t *Tree) layout(width int) layout {
	l := layout{width: width}
	for _, n := range t.roots {
		for _, b := range append(slices.Clone(n.shown()), n) {
			l.label = max(l.label, min(Cells(visible.Line(b.label()))+2*depth(b), mostLabel))
			l.tool = max(l.tool, min(Cells(visible.Line(b.tool)), mostTool))
		}
	}
	return l
}

func depth(n *node) int {
	if string(n.Path) == n.Path.Top() {
		return 0
	}
	return 1
}

// shown are the nodes below that have a line: all of a few, else those that have not
// completed.
func (n *node) shown() []*node {
	if len(n.below) <= mostBelow {
		return n.below
	}
	return slices.DeleteFunc(slices.Clone(n.below), func(b *node) bool { return b.Status == Completed })
}

// Lines are the tree at a time, of at most height lines; 0 = as many as there are.
func (t *Tree) Lines(width, height int, now time.Time) (lines []Line) {
	l := t.layout(width)
	for _, n := range t.roots {
		lines = append(lines, l.node(n, now, 0)...)
	}
	if height > 0 && len(lines) > height {
		more := len(lines) - height + 1
		lines = append(lines[:height-1], Line{{fmt.Sprintf("  … and %d more lines", more), Faint}})
	}
	return lines
}

func (l layout) node(n *node, now time.Time, indent int) []Line {
	status := n.status()
	line := Line{
		{strings.Repeat("  ", indent+1), Plain}, mark(status, now), {" ", Plain},
		{pad(visible.Line(n.label()), l.label-2*indent), Plain}, {"  ", Plain},
	}
	if l.tool > 0 {
		line = append(line, Span{pad(visible.Line(n.tool), l.tool), Faint}, Span{"  ", Plain})
	}
	line = append(line, Span{pad(n.duration(now), 7), Plain})
	lines := []Line{append(line, n.beside(status)...).trim().Clip(l.width)}
	if status.failed() && n.Error != "" || n.Attempt > 1 && !status.ended() && n.Error != "" {
		lines = append(lines, Line{{strings.Repeat("  ", indent+2) + visible.Line(n.Error), Bad}}.Clip(l.width))
	}
	for _, b := range n.shown() {
		lines = append(lines, l.node(b, now, indent+1)...)
	}
	return lines
}

func (l Line) trim() Line {
	l[len(l)-1].Text = strings.TrimRight(l[len(l)-1].Text, " ")
	return l
}

// beside is what else a line says of a node.
func (n *node) beside(status Status) (out Line) {
	add := func(text string, style Style) {
		if text != "" {
			out = append(out, Span{"  " + text, style})
		}
	}
	if n.Attempt > 1 {
		add("attempt "+strconv.Itoa(n.Attempt), Active)
	}
	if len(n.below) > 0 {
		add(n.counts(), Faint)
	}
	switch {
	case status == Waiting:
		add("waits for an answer", Active)
	case status.ended() && n.asks:
		add(visible.Line(n.What), Faint)
	case status.ended() && status != Completed && status != Failed:
		add(strings.ReplaceAll(visible.Line(string(status)), "_", " "), Faint)
	case !status.ended():
		add(bar(n.Progress, n.Total), Active)
		add(visible.Line(n.says), Faint)
	}
	return out
}

// counts says how many of what is executed within a node have ended.
func (n *node) counts() string {
	ended := 0
	for _, b := range n.below {
		if b.Status.ended() {
			ended++
		}
	}
	if under := len(n.below) - ended; under > 0 {
		return fmt.Sprintf("%d done, %d under way", ended, under)
	}
	return fmt.Sprintf("%d done", ended)
}

// Summary is the line below the tree: how far the run is.
func (t *Tree) Summary(done, total float64, took time.Duration, now time.Time) Line {
	line := Line{{"  ", Plain}, {spinner(now), Active}, {" ", Plain}}
	if t.Waits() {
		line[1] = Span{"?", Active}
	}
	switch {
	case t.count.Total > 0:
		line = append(line, Span{bar(t.count.Progress, t.count.Total), Active}, Span{"  ", Plain})
	case total > 0:
		line = append(line, Span{fmt.Sprintf("%d of %d steps", int(done), int(total)), Plain}, Span{"  ", Plain})
	}
	return append(line, Span{Duration(took), Faint})
}

// bar draws how far something is; "" = it does not count.
func bar(done, total float64) string {
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	switch {
	case total <= 0 && done <= 0:
		return ""
	case total <= 0:
		return number(done)
	}
	full := int(max(min(done/total, 1), 0) * barCells)
	return strings.Repeat("█", full) + strings.Repeat("░", barCells-full) + " " + number(done) + " of " + number(total)
}

// Duration is a duration with as many digits as a person wants.
func Duration(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
