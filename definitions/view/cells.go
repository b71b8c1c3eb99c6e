package view

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// Cells is how many cells of a terminal a text takes, without characters that cannot
// be seen.
func Cells(text string) (n int) {
	for _, r := range text {
		n += cellsOf(r)
	}
	return n
}

func cellsOf(r rune) int {
	if r >= 0xfdd0 && r <= 0xfdef || // no characters, which programs use for styles
		unicode.In(r, unicode.Mn, unicode.Me) || unicode.Is(unicode.Variation_Selector, r) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Clip cuts a text to a number of cells; what was cut ends in ….
func Clip(text string, most int) string {
	if Cells(text) <= most {
		return text
	}
	if most <= 0 {
		return ""
	}
	var b strings.Builder
	left := most - 1
	for _, r := range text {
		if left -= cellsOf(r); left < 0 {
			break
		}
		b.WriteRune(r)
	}
	return b.String() + "…"
}

// Pad fills a text up with spaces to a number of cells.
func Pad(text string, cells int) string {
	return text + strings.Repeat(" ", max(cells-Cells(text), 0))
}
