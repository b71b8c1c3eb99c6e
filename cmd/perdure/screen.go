package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure/internal/live"
)

// A screen is the last lines of a terminal, which are drawn anew whenever they change.
type screen struct {
	c      *console
	drawn  []live.Line
	paused bool // something else has the terminal
}

// draw replaces what was drawn before.
func (s *screen) draw(lines []live.Line) {
	if s.paused || slices.EqualFunc(s.drawn, lines, func(a, b live.Line) bool { return slices.Equal(a, b) }) {
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
	fmt.Fprint(s.c.err, strings.TrimSuffix(text, "\n")+"\n")
	s.draw(drawn)
}

func (s *screen) erase() {
	if len(s.drawn) > 0 {
		fmt.Fprintf(s.c.screen, "\x1b[%dA\r\x1b[J", len(s.drawn))
	}
	s.drawn = nil
}

// liveStyles are how the styles of steps look.
var liveStyles = map[live.Style]style{
	live.Faint: faint, live.Good: green, live.Bad: red, live.Active: yellow, live.Strong: bold,
}

// styled is lines as text for standard error.
func (c *console) styled(lines []live.Line) string {
	var b strings.Builder
	for _, line := range lines {
		for _, span := range line {
			b.WriteString(c.errStyle(liveStyles[span.Style], span.Text))
		}
		b.WriteString("\n")
	}
	return b.String()
}
