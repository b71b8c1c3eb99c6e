package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions/view"
)

// A table takes lines whose cells end in tabs, and writes them as columns. On a terminal
// it is not wider than that: the widest columns but the first, which people copy, are
// cut, and a cell for which no room is left nevertheless begins a further line.
type table struct {
	to    io.Writer
	width int  // in cells; 0 = any
	wraps bool // the last column continues on the next line instead
	text  strings.Builder
}

// table lays out lines for standard output, which to is or leads to.
func (c *console) table(to io.Writer) *table {
	t := &table{to: to}
	if c.outTerminal {
		t.width, _ = c.size()
	}
	return t
}

// wrappingTable lays out lines that are too important to be cut: the last column
// continues on the next line, the others are as wide as they must be.
func (c *console) wrappingTable(to io.Writer) *table {
	t := c.table(to)
	t.wraps = true
	return t
}

func (t *table) Write(p []byte) (int, error) { return t.text.Write(p) }

// Flush writes the table.
func (t *table) Flush() error {
	var rows [][]string
	var columns []int
	for line := range strings.Lines(t.text.String()) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		for i, cell := range cells[:len(cells)-1] { // the last one has no column
			if i == len(columns) {
				columns = append(columns, 0)
			}
			columns[i] = max(columns[i], view.Cells(cell))
		}
		rows = append(rows, cells)
	}
	columns = t.fit(columns, rows)
	var b strings.Builder
	for _, cells := range rows {
		b.WriteString(t.row(cells, columns) + "\n")
	}
	_, err := fmt.Fprint(t.to, b.String())
	return err
}

const (
	columnGap   = 2
	leastColumn = 19 // to which a column is cut, in cells: a time
	leastCell   = 12 // of a last cell that is worth beginning on the line
)

// fit makes the widest columns narrower until the rows that have them all fit, with a
// last cell that is short. Where they would not, they are as wide as they must be.
func (t *table) fit(columns []int, rows [][]string) []int {
	if t.width == 0 || t.wraps || len(columns) == 0 {
		return columns
	}
	all := 0
	for _, cells := range rows {
		if len(cells) == len(columns)+1 {
			all = max(all, view.Cells(cells[len(columns)]))
		}
	}
	if all > leastCell { // it goes below
		all = 0
	}
	for _, c := range columns {
		all += c + columnGap
	}
	fitted := slices.Clone(columns)
	for ; all > t.width; all-- {
		widest := 0
		for i, c := range fitted {
			if i > 0 && c > leastColumn && (widest == 0 || c > fitted[widest]) {
				widest = i
			}
		}
		if widest == 0 {
			return columns
		}
		fitted[widest]--
	}
	return fitted
}

func (t *table) row(cells []string, columns []int) string {
	var b strings.Builder
	at, last := 0, len(cells)-1
	for i, cell := range cells[:last] {
		width := columns[i]
		if t.width > 0 && i > 0 {
			width = min(width, max(t.width-columnGap, 1))
			if at+width > t.width {
				b.WriteString("\n" + strings.Repeat(" ", columnGap))
				at = columnGap
			}
		}
		b.WriteString(column(cell, width) + strings.Repeat(" ", columnGap))
		at += width + columnGap
	}
	if t.width == 0 {
		return strings.TrimRight(b.String()+cells[last], " ")
	}
	least := 2 * leastCell
	if t.wraps {
		least = leastCell
	}
	if room := t.width - at; room < least && view.Cells(cells[last]) > room { // it goes below
		b.WriteString("\n" + strings.Repeat(" ", columnGap))
		at = columnGap
	}
	if t.wraps {
		b.WriteString(strings.Join(wrapped(cells[last], max(t.width-at, leastCell)), "\n"+strings.Repeat(" ", at)))
	} else {
		b.WriteString(view.Clip(cells[last], max(t.width-at, 1)))
	}
	return trailing.ReplaceAllString(b.String(), "")
}

// trailing are spaces at the end of lines.
var trailing = regexp.MustCompile(`(?m) +$`)

// wrapped breaks a text into lines of some cells: between words, and in words that are
// longer.
func wrapped(text string, cells int) (lines []string) {
	line, at := "", 0 // at is where the last word of the line begins
	for _, r := range text {
		if view.Cells(line+string(r)) > cells {
			if at == 0 {
				at = len(line)
			}
			lines, line = append(lines, strings.TrimRight(line[:at], " ")), line[at:]
			at = 0
		}
		if line += string(r); r == ' ' {
			at = len(line)
		}
	}
	return append(lines, line)
}
