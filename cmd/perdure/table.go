package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
)

// A table takes lines whose cells end in tabs, and writes them as columns. On a terminal
// it is not wider than that: a last cell for which no room is left goes to a line of its
// own, and the widest columns but the first, which people copy, are cut.
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
			columns[i] = max(columns[i], cellsIn(cell))
		}
		rows = append(rows, cells)
	}
	t.fit(columns, rows)
	var b strings.Builder
	for _, cells := range rows {
		b.WriteString(t.row(cells, columns) + "\n")
	}
	_, err := fmt.Fprint(t.to, b.String())
	return err
}

const (
	columnGap   = 2
	leastColumn = 12 // to which a column is cut, in cells
)

// fit makes the widest columns narrower until the rows that have them all fit, with a
// last cell that is short.
func (t *table) fit(columns []int, rows [][]string) {
	if t.width == 0 || t.wraps || len(columns) == 0 {
		return
	}
	all := 0
	for _, cells := range rows {
		if len(cells) == len(columns)+1 {
			all = max(all, cellsIn(cells[len(columns)]))
		}
	}
	if all > leastColumn { // it goes below
		all = 0
	}
	for _, c := range columns {
		all += c + columnGap
	}
	for ; all > t.width; all-- {
		widest := 0
		for i, c := range columns {
			if i > 0 && c > leastColumn && (widest == 0 || c > columns[widest]) {
				widest = i
			}
		}
		if columns[widest] <= leastColumn {
			return
		}
		columns[widest]--
	}
}

func (t *table) row(cells []string, columns []int) string {
	var b strings.Builder
	at, last := 0, len(cells)-1
	for i, cell := range cells[:last] {
		cell = clip(cell, columns[i])
		b.WriteString(cell + strings.Repeat(" ", columns[i]-cellsIn(cell)+columnGap))
		at += columns[i] + columnGap
	}
	if t.width == 0 {
		return strings.TrimRight(b.String()+cells[last], " ")
	}
	least := 2 * leastColumn
	if t.wraps {
		least = leastColumn
	}
	if room := t.width - at; room < least && cellsIn(cells[last]) > room { // it goes below
		b.WriteString("\n" + strings.Repeat(" ", columnGap))
		at = columnGap
	}
	if t.wraps {
		b.WriteString(strings.Join(wrapped(cells[last], max(t.width-at, leastColumn)), "\n"+strings.Repeat(" ", at)))
	} else {
		b.WriteString(clip(cells[last], max(t.width-at, 1)))
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
		if cellsIn(line+string(r)) > cells {
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
