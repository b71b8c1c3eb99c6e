package main

import (
	"fmt"
	"slices"
	"strings"
)

// A screen is the last lines of a terminal, which are drawn anew whenever they change.
type screen struct {
	c      *console
	drawn  []screenLine
	paused bool // something else has the terminal
}

// draw replaces what was drawn before.
func (s *screen) draw(lines []screenLine) {
	if s.paused || slices.EqualFunc(s.drawn, lines, func(a, b screenLine) bool { return slices.Equal(a, b) }) {
		return
	}
	s.erase()
	fmt.Fprint(s.c.err, s.c.styled(lines))
	s.drawn = lines
}

// print prints text that stays, above what is drawn.
func (s *screen) print(text string) {
	if text == "" {
		return
	}
	drawn := s.drawn
	s.erase()
	fmt.Fprintln(s.c.err, s.c.prose(strings.TrimSuffix(text, "\n"), s.c.errTerminal))
	s.draw(drawn)
}

func (s *screen) erase() {
	if len(s.drawn) > 0 {
		fmt.Fprintf(s.c.screen, "\x1b[%dA\r\x1b[J", len(s.drawn))
	}
	s.drawn = nil
}

// styled is lines as text for standard error.
func (c *console) styled(lines []screenLine) string {
	var b strings.Builder
	for _, line := range lines {
		for _, span := range line {
			b.WriteString(c.errStyle(span.style, span.text))
		}
		b.WriteString("\n")
	}
	return b.String()
}
