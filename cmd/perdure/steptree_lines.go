package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/runs"
)

// A span is text in one style (0 = none), without characters that cannot be seen.
type span struct {
	text  string
	style style
}

// A screenLine is spans beside each other.
type screenLine []span

// String is the text of a line.
func (l screenLine) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.text)
	}
	return b.String()
}

// clip cuts a line to a width in cells.
func (l screenLine) clip(width int) screenLine {
	var out screenLine
	for _, s := range l {
		n := view.Cells(s.text)
		if n <= width {
			out, width = append(out, s), width-n
			continue
		}
		return append(out, span{view.Clip(s.text, width), s.style})
	}
	return out
}

// spin are the frames of what is under way, a tenth of a second each.
var spin = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

func spinner(now time.Time) string { return spin[now.UnixMilli()/100%int64(len(spin))] }

// drawnStatus is how a status is drawn.
func drawnStatus(s string, now time.Time) span {
	switch {
	case s == "completed":
		return span{"✓", green}
	case stepFailed(s):
		return span{"✗", red}
	case s == gateway.StepWaiting:
		return span{"?", yellow}
	case s == gateway.StepRunning:
		return span{spinner(now), yellow}
	}
	return span{"–", faint}
}

const (
	mostLabel = 32 // cells of the column of names
	mostTool  = 32 // of that of tools
	mostBelow = 8  // of what has completed within a step is named
	barCells  = 20
)

// A treeLayout is the widths of columns.
type treeLayout struct{ label, tool, width int }

func (t *stepTree) layout(width int) treeLayout {
	l := treeLayout{width: width}
	for _, n := range t.roots {
		for _, b := range append(slices.Clone(n.shown()), n) {
			l.label = max(l.label, min(view.Cells(view.Line(b.label()))+2*depth(b), mostLabel))
			l.tool = max(l.tool, min(view.Cells(view.Line(b.tool)), mostTool))
		}
	}
	return l
}

func depth(n *stepNode) int {
	if string(n.Path) == n.Path.Top() {
		return 0
	}
	return 1
}

// shown are the nodes below that have a line: all of a few, else those that have not
// completed.
func (n *stepNode) shown() []*stepNode {
	if len(n.below) <= mostBelow {
		return n.below
	}
	return slices.DeleteFunc(slices.Clone(n.below), func(b *stepNode) bool { return b.Status == "completed" })
}

// lines are the tree at a time, of at most height lines; 0 = as many as there are.
func (t *stepTree) lines(width, height int, now time.Time) (lines []screenLine) {
	l := t.layout(width)
	for _, n := range t.roots {
		lines = append(lines, l.node(n, now, 0)...)
	}
	if height > 0 && len(lines) > height {
		more := len(lines) - height + 1
		lines = append(lines[:height-1], screenLine{{fmt.Sprintf("  … and %d more lines", more), faint}})
	}
	return lines
}

func (l treeLayout) node(n *stepNode, now time.Time, indent int) []screenLine {
	status := n.status()
	line := screenLine{
		{strings.Repeat("  ", indent+1), 0}, drawnStatus(status, now), {" ", 0},
		{column(view.Line(n.label()), l.label-2*indent), 0}, {"  ", 0},
	}
	if l.tool > 0 {
		line = append(line, span{column(view.Line(n.tool), l.tool), faint}, span{"  ", 0})
	}
	line = append(line, span{column(n.duration(now), 7), 0})
	lines := []screenLine{append(line, n.beside(status)...).trim().clip(l.width)}
	if stepFailed(status) && n.Error != "" || n.Attempt > 1 && !stepEnded(status) && n.Error != "" {
		lines = append(lines, screenLine{{strings.Repeat("  ", indent+2) + view.Line(n.Error), red}}.clip(l.width))
	}
	for _, b := range n.shown() {
		lines = append(lines, l.node(b, now, indent+1)...)
	}
	return lines
}

// column makes a text as wide as a number of cells: cut, or with spaces after it.
func column(text string, width int) string { return view.Pad(view.Clip(text, width), width) }

func (l screenLine) trim() screenLine {
	l[len(l)-1].text = strings.TrimRight(l[len(l)-1].text, " ")
	return l
}

// beside is what follows the name of a node in its line.
func (n *stepNode) beside(status string) (out screenLine) {
	add := func(text string, style style) {
		if text != "" {
			out = append(out, span{"  " + text, style})
		}
	}
	if n.Attempt > 1 {
		add("attempt "+strconv.Itoa(n.Attempt), yellow)
	}
	if len(n.below) > 0 {
		add(n.counts(), faint)
	}
	switch {
	case status == gateway.StepWaiting:
		add("waits for an answer", yellow)
	case stepEnded(status) && n.asks:
		add(view.Line(n.What), faint)
	case status == runs.StepSkipped:
		add("skipped: "+view.Line(n.Error), faint)
	case stepEnded(status) && status != "completed" && status != "failed":
		add(strings.ReplaceAll(view.Line(status), "_", " "), faint)
	case !stepEnded(status):
		add(bar(n.Progress, n.Total), yellow)
		add(view.Line(n.says), faint)
	}
	return out
}

// counts says how many of what is executed within a node have ended.
func (n *stepNode) counts() string {
	ended := 0
	for _, b := range n.below {
		if stepEnded(b.Status) {
			ended++
		}
	}
	if under := len(n.below) - ended; under > 0 {
		return fmt.Sprintf("%d done, %d under way", ended, under)
	}
	return fmt.Sprintf("%d done", ended)
}

// summary is the line below the tree: how far the run is.
func (t *stepTree) summary(done, total float64, took time.Duration, now time.Time) screenLine {
	line := screenLine{{"  ", 0}, {spinner(now), yellow}, {" ", 0}}
	if t.waits() {
		line[1] = span{"?", yellow}
	}
	switch {
	case t.count.Total > 0:
		line = append(line, span{bar(t.count.Progress, t.count.Total), yellow}, span{"  ", 0})
	case total > 0:
		line = append(line, span{fmt.Sprintf("%d of %d steps", int(done), int(total)), 0}, span{"  ", 0})
	}
	return append(line, span{shortDuration(took), faint})
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

// shortDuration is a duration with as many digits as a person wants.
func shortDuration(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
