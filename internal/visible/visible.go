// Package visible shows text to people as it is. Characters that are invisible, control
// a terminal or change the order of others become marks such as [U+202E]: what people
// approve is what runs.
//
// All text for people goes through it: the approvals page, terminal output, and
// elicitations in MCP clients.
package visible

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Advice explains the marks.
const Advice = "Marks such as [U+202E] are for characters that cannot be seen, or that change the order of others. They are part of the text."

// Hidden reports whether a character is shown as a mark: it is a control or
// formatting character (C0, C1, bidirectional overrides and isolates, zero-width
// ones, tags), has no width, or is none that Unicode assigns. Line breaks and tabs
// are not hidden.
func Hidden(r rune) bool {
	switch {
	case r >= ' ' && r < 0x7f, r == '\n', r == '\t':
		return false
	case unicode.Is(unicode.Prepended_Concatenation_Mark, r): // formatting characters that are seen
		return false
	case r == 0x2800: // the Braille pattern without dots
		return true
	}
	return !unicode.IsGraphic(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Text is a text with marks. A text that has marks already is unchanged.
func Text(s string) string {
	if !hides(s) {
		return s
	}
	var b strings.Builder
	last := rune(0)
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\r' && strings.HasPrefix(s[i:], "\r\n"): // the end of a line
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "[0x%02X]", s[i])
		case Hidden(r) && !selectsEmoji(last, r):
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
	for _, r := range s {
		if Hidden(r) || r == utf8.RuneError {
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
