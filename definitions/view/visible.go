package view

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// All text for people (the approvals page, terminal output, elicitations in MCP clients)
// is shown as it is: characters that are invisible, control a terminal, change the order
// of others or are drawn over them become marks such as [U+202E]. What people approve is
// what runs.

// Advice explains the marks.
const Advice = "Marks such as [U+202E] are for characters that cannot be seen, or that change the order of others. They are part of the text."

// blank are those characters that are drawn as nothing though Unicode counts them among
// letters, marks and symbols and has no property that says so.
var blank = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x2800, 0x2800, 1}, // Braille pattern without dots
		{0x2d7f, 0x2d7f, 1}, // Tifinagh consonant joiner
		{0xfffc, 0xfffc, 1}, // where an object is that is not there
	},
	R32: []unicode.Range32{
		{0x1107f, 0x1107f, 1}, // Brahmi number joiner
		{0x13440, 0x13442, 1}, // hieroglyphs: mirror, full and half blank
		{0x16fe4, 0x16fe4, 1}, // Khitan small script filler
		{0x1bc9d, 0x1bc9d, 1}, // Duployan thick letter selector
		{0x1d159, 0x1d159, 1}, // musical symbol null notehead
	},
}

// Hidden reports whether a character is shown as a mark: it is a control or
// formatting character (C0, C1, bidirectional overrides and isolates, zero-width
// ones, tags), is ignored where it cannot be shown, is drawn as nothing, or is none
// that Unicode assigns. Line breaks, tabs and spaces are not hidden.
func Hidden(r rune) bool {
	switch {
	case r >= ' ' && r < 0x7f, r == '\n', r == '\t':
		return false
	case unicode.Is(unicode.Prepended_Concatenation_Mark, r): // formatting characters that are seen
		return false
	}
	return !unicode.IsGraphic(r) || unicode.In(r, blank, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// mostAccents is how many combining characters one character may have: more are drawn
// over the lines around it.
const mostAccents = 4

// An accents counts combining characters.
type accents int

// exceeded reports whether r is one combining character too many.
func (a *accents) exceeded(r rune) bool {
	if r < 0x300 || !unicode.In(r, unicode.Mn, unicode.Me) {
		*a = 0
		return false
	}
	*a++
	return *a > mostAccents
}

// Text is a text with marks. A text that has marks already is unchanged.
func Text(s string) string {
	if !hides(s) {
		return s
	}
	var b strings.Builder
	var above accents
	last := rune(0)
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch tooMany := above.exceeded(r); {
		case r == '\r' && strings.HasPrefix(s[i:], "\r\n"): // the end of a line
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "[0x%02X]", s[i])
		case tooMany, Hidden(r) && !selectsEmoji(last, r):
			fmt.Fprintf(&b, "[U+%04X]", r)
		default:
			b.WriteString(s[i : i+size])
		}
		i, last = i+size, r
	}
	return b.String()
}

// Explained is a text with marks, followed by Advice if it has any.
func Explained(s string) string {
	shown := Text(s)
	if shown == s {
		return s
	}
	return shown + "\n\n(" + Advice + ")"
}

// hides reports whether a text may need marks.
func hides(s string) bool {
	var above accents
	for _, r := range s {
		if above.exceeded(r) || Hidden(r) || r == utf8.RuneError {
			return true
		}
	}
	return false
}

// selectsEmoji reports whether a character only selects colour or black and white for
// the symbol before it.
func selectsEmoji(symbol, r rune) bool {
	return (r == 0xfe0f || r == 0xfe0e) && unicode.Is(unicode.So, symbol)
}

// Line is a text with marks on one line: a name, a label, a choice.
func Line(s string) string { return strings.Join(strings.Fields(Text(s)), " ") }

// ShellWord quotes a word for a shell where that is needed.
func ShellWord(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("=_-./:@,+#%", r)
	}
	if word != "" && word[0] != '#' && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(Line(word), "'", `'\''`) + "'"
}
