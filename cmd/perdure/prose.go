package main

import (
	"strings"

	"github.com/perdure/perdure/definitions/view"
)

// prose breaks text for people between words, where a terminal would break it within one.
// Commands stay on one line, so that they can be copied.
func (c *console) prose(text string, terminal bool) string {
	if !terminal || c.size == nil {
		return text
	}
	width, _ := c.size()
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if view.Cells(line) > width {
			lines[i] = foldedLine(line, width)
		}
	}
	return strings.Join(lines, "\n")
}

// foldedLine is a line as several, each with the indent of the first. A word that is
// longer than a line stays whole.
func foldedLine(line string, width int) string {
	words := strings.TrimLeft(line, " ")
	indent := line[:len(line)-len(words)]
	var b strings.Builder
	at := 0
	for i, word := range unbroken(strings.Split(words, " ")) {
		switch cells := view.Cells(word); {
		case i == 0:
			b.WriteString(indent + word)
			at = len(indent) + cells
		case at+1+cells > width:
			b.WriteString("\n" + indent + word)
			at = len(indent) + cells
		default:
			b.WriteString(" " + word)
			at += 1 + cells
		}
	}
	return b.String()
}

// unbroken joins the words of each command: from perdure to the end of the clause.
func unbroken(words []string) (joined []string) {
	within := false
	for _, word := range words {
		if within = within && !strings.HasPrefix(word, "("); within {
			joined[len(joined)-1] += " " + word
		} else {
			joined = append(joined, word)
			within = word == "perdure"
		}
		if word != "" && strings.ContainsRune(",;:.)", rune(word[len(word)-1])) {
			within = false
		}
	}
	return joined
}
