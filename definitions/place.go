package definitions

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// maxSearched is how far into a text, and into its line, a place is searched for, in bytes.
const maxSearched = 16 << 10

// within gives the position of the byte at an offset of a text, or of the text itself
// if that is unknown.
//
// YAML changes only white space and escapes of a text: it folds, indents or drops
// them. So this finds the letter with the same number of letters, other than white
// space, before it.
func (w Written) within(path, text string, offset int) Position {
	pos := w.At(path)
	if w.written == nil || offset < 0 || offset > len(text) {
		return pos
	}
	p, ok := w.written.places[path]
	if !ok || max(offset, p.column) > maxSearched {
		return pos
	}
	offset += len(text[offset:]) - len(strings.TrimLeftFunc(text[offset:], unicode.IsSpace))
	r := w.written.reader(p)
	for _, wanted := range text[:offset] {
		if unicode.IsSpace(wanted) {
			continue
		}
		if got, ok := r.letter(); !ok || got != wanted {
			return pos // it is written in another way
		}
	}
	if at, ok := r.next(); ok {
		return Position{w.written.file, at.line, at.column}
	}
	return pos
}

// A scalarReader reads a text in its file, letter by letter, without white space. It
// need not know where the text ends.
type scalarReader struct {
	lines  []string
	style  yaml.Style
	line   int    // of the rest, from 0
	rest   string // of the line
	column int    // of the rest, from 1
}

// reader gives a reader at the first letter of the text at a place.
func (w *written) reader(p spot) *scalarReader {
	r := &scalarReader{lines: w.lines, style: p.style &^ yaml.TaggedStyle, line: p.line - 1}
	switch r.style {
	case yaml.LiteralStyle, yaml.FoldedStyle:
		r.line++ // after | or >
	}
	if r.line < 0 || r.line >= len(r.lines) {
		return r
	}
	r.rest, r.column = r.lines[r.line], 1
	if r.line == p.line-1 {
		for r.column < p.column && r.rest != "" {
			r.take(1)
		}
		for r.rest != "" && (r.rest[0] == '&' || r.rest[0] == '!') { // an anchor, a tag
			end := strings.IndexFunc(r.rest, unicode.IsSpace)
			if end < 0 {
				return r
			}
			r.take(utf8.RuneCountInString(r.rest[:end]))
			r.take(len(r.rest) - len(strings.TrimLeft(r.rest, " \t")))
		}
		if r.style == yaml.SingleQuotedStyle || r.style == yaml.DoubleQuotedStyle {
			r.take(1)
		}
	}
	return r
}

// take skips n letters.
func (r *scalarReader) take(n int) {
	for ; n > 0 && r.rest != ""; n-- {
		_, size := utf8.DecodeRuneInString(r.rest)
		r.rest = r.rest[size:]
		r.column++
	}
}

// next skips white space, also as an escape, and gives the position of the next letter.
func (r *scalarReader) next() (at spot, ok bool) {
	for r.line < len(r.lines) {
		letter, _, n := r.peek()
		switch {
		case n == 0:
			r.line++
			if r.line < len(r.lines) {
				r.rest, r.column = r.lines[r.line], 1
			}
		case unicode.IsSpace(letter):
			r.take(n)
		default:
			return spot{line: r.line + 1, column: r.column}, true
		}
	}
	return spot{}, false
}

// letter reads the next letter that is no white space.
func (r *scalarReader) letter() (letter rune, ok bool) {
	if _, ok := r.next(); !ok {
		return 0, false
	}
	letter, ok, n := r.peek()
	r.take(n)
	return letter, ok
}

// escapes are those of a double-quoted text that mean one letter.
var escapes = map[byte]rune{
	'0': 0, 'a': '\a', 'b': '\b', 't': '\t', 'n': '\n', 'v': '\v', 'f': '\f', 'r': '\r', 'e': 0x1b,
	' ': ' ', '"': '"', '/': '/', '\\': '\\', 'N': 0x85, '_': 0xa0, 'L': 0x2028, 'P': 0x2029, '\t': '\t',
}

// peek gives the letter at the start of the rest of the line, and how many letters its
// escape has: 0 at the end of the line.
func (r *scalarReader) peek() (letter rune, ok bool, n int) {
	first, _ := utf8.DecodeRuneInString(r.rest)
	switch {
	case r.rest == "":
		return 0, false, 0
	case r.style == yaml.SingleQuotedStyle && strings.HasPrefix(r.rest, "''"):
		return '\'', true, 2
	case r.style != yaml.DoubleQuotedStyle || first != '\\':
		return first, true, 1
	case len(r.rest) == 1: // the line continues in the next one
		return ' ', true, 1
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[r.rest[1]]
	if digits == 0 {
		letter, ok = escapes[r.rest[1]]
		return letter, ok, 2
	}
	if len(r.rest) < 2+digits {
		return 0, false, len(r.rest)
	}
	code, err := strconv.ParseUint(r.rest[2:2+digits], 16, 32)
	return rune(code), err == nil, 2 + digits
}
