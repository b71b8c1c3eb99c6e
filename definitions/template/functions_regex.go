package template

import (
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Regular expressions are those of RE2. One search takes time in proportion to
// the text and to the size of the expression's program, but all matches of a
// text together may take its square: "a.*z|a" looks at the whole rest of "aaa…"
// for each a. So searches read the text through a reader that charges for each
// letter, and stops them when the work is too much.

// stepPrice is the price of compiling one step of a pattern, in bytes.
const stepPrice = 32

var regexFunctions = map[string]function{
	"regexMatch": {2, 2, func(c *call) any { return len(c.search(1).places) > 0 }},
	"regexFind": {2, 2, func(c *call) any {
		m := c.search(1)
		if len(m.places) == 0 {
			return ""
		}
		return c.built(m.text(0))
	}},
	"regexFindAll": {3, 3, func(c *call) any {
		m := c.search(c.int(2))
		found := make([]any, len(m.places))
		for i := range found {
			found[i] = m.text(i)
		}
		return found
	}},
	"regexSplit":      {3, 3, regexSplit},
	"regexReplaceAll": {3, 3, func(c *call) any { return c.regexReplace((*call).appendExpanded) }},
	"regexReplaceAllLiteral": {3, 3, func(c *call) any {
		return c.regexReplace(func(_ *call, out []byte, replacement string, _ matches, _ []int) []byte {
			return append(out, replacement...)
		})
	}},
	"regexQuoteMeta": {1, 1, func(c *call) any { return c.built(regexp.QuoteMeta(c.str(0))) }},
}

// matches of a regular expression in s.
type matches struct {
	re     *regexp.Regexp
	s      string
	places [][]int // as FindStringSubmatchIndex gives them
}

func (m matches) text(i int) string { return m.s[m.places[i][0]:m.places[i][1]] }

// search finds the first n matches of the first argument in the second; a
// negative n is as many as an array may have.
func (c *call) search(n int) matches {
	regex, s := c.str(0), c.str(1)
	if c.err != nil {
		return matches{}
	}
	if n < 0 || n > maxListLength {
		n = maxListLength + 1
	}
	m, err := c.x.search(regex, s, n)
	if c.ok(err) {
		c.mayList(len(m.places))
	}
	return m
}

func (x *expansion) search(regex, s string, n int) (matches, error) {
	p, err := x.pattern(regex)
	if err != nil {
		return matches{}, err
	}
	places, err := x.places(p, s, n)
	return matches{p.re, s, places}, err
}

// A pattern is a compiled regular expression.
type pattern struct {
	re    *regexp.Regexp
	later *regexp.Regexp // finds it after one letter, so that ^ and \b see that letter
	steps int            // that a letter of the text may take
}

func (x *expansion) pattern(text string) (*pattern, error) {
	re, steps, err := CompileCharged(text, func(steps int) error { return x.charge(steps * stepPrice) })
	if err != nil {
		return nil, err
	}
	return &pattern{re: re, steps: steps}, nil
}

// places finds the first n matches as FindAllStringSubmatchIndex does: an empty
// one does not follow another.
func (x *expansion) places(p *pattern, s string, n int) ([][]int, error) {
	var places [][]int
	for at, end := 0, -1; len(places) < n && at <= len(s); {
		place, err := x.find(p, s, at)
		if err != nil {
			return nil, err
		}
		if place == nil {
			break
		}
		isNew := place[1] > at || place[0] != end
		if end = place[1]; end > at {
			at = end
		} else {
			_, width := utf8.DecodeRuneInString(s[at:])
			at += max(width, 1)
		}
		if isNew {
			places = append(places, place)
		}
	}
	return places, nil
}

// find gives the first match that does not start before at; nil = none.
func (x *expansion) find(p *pattern, s string, at int) ([]int, error) {
	re, start := p.re, at
	if at > 0 {
		if p.later == nil {
			later, err := after(p.re)
			if err != nil {
				return nil, err
			}
			p.later = later
		}
		_, width := utf8.DecodeLastRuneInString(s[:at])
		re, start = p.later, at-width
	}
	reader := &chargingReader{x: x, s: s[start:], price: p.steps}
	place := re.FindReaderSubmatchIndex(reader)
	if reader.err != nil {
		return nil, reader.err
	}
	if at > 0 && place != nil {
		place = place[2:] // the first group is the pattern itself
	}
	for i := range place {
		if place[i] >= 0 {
			place[i] += start
		}
	}
	return place, nil
}

// A chargingReader gives the letters of s, for a price each.
type chargingReader struct {
	x     *expansion
	s     string
	price int
	err   error // what stopped it before the end
}

// ReadRune ends the text where the work becomes too much.
func (r *chargingReader) ReadRune() (rune, int, error) {
	if r.s == "" {
		return 0, 0, io.EOF
	}
	if r.err = r.x.charge(r.price); r.err != nil {
		return 0, 0, io.EOF
	}
	letter, width := utf8.DecodeRuneInString(r.s)
	r.s = r.s[width:]
	return letter, width, nil
}

// regexSplit gives the parts between matches, n at most.
func regexSplit(c *call) any {
	n := c.int(2)
	m := c.search(n)
	if c.err != nil {
		return nil
	}
	parts := []any{}
	start, end := 0, 0
	for _, place := range m.places {
		if n > 0 && len(parts) == n-1 {
			break
		}
		end = place[0]
		if place[1] != 0 {
			parts = append(parts, m.s[start:end])
		}
		start = place[1]
	}
	if n != 0 && (end != len(m.s) || m.s == "" && m.re.String() != "") {
		parts = append(parts, m.s[start:])
	}
	c.mayList(len(parts))
	return parts
}

// regexReplace replaces each match by what expand appends for it.
func (c *call) regexReplace(expand func(c *call, out []byte, replacement string, m matches, place []int) []byte) any {
	replacement, m := c.str(2), c.search(-1)
	var out []byte
	end := 0
	for _, place := range m.places {
		out = expand(c, append(out, m.s[end:place[0]]...), replacement, m, place)
		if end = place[1]; !c.fits(len(out)) {
			return nil
		}
	}
	return c.built(string(append(out, m.s[end:]...)))
}

// piecePrice is the price of looking up a reference in a replacement.
const piecePrice = 8

// appendExpanded appends a replacement with its references expanded. A short one can
// refer to a long group many times for each match, so it is expanded in pieces, and
// each is charged for.
func (c *call) appendExpanded(out []byte, replacement string, m matches, place []int) []byte {
	price := piecePrice + m.re.NumSubexp() // a name is searched for among all groups
	for piece, rest := cutPiece(replacement); piece != ""; piece, rest = cutPiece(rest) {
		if !c.spend(price + len(piece)/readBytes) {
			return out
		}
		if out = m.re.ExpandString(out, piece, m.s, place); !c.fits(len(out)) {
			return out
		}
	}
	return out
}

// cutPiece cuts a replacement before its second reference; $$ is the sign itself.
func cutPiece(replacement string) (piece, rest string) {
	at := min(1, len(replacement))
	if strings.HasPrefix(replacement, "$$") {
		at = 2
	}
	if next := strings.IndexByte(replacement[at:], '$'); next >= 0 {
		return replacement[:at+next], replacement[at+next:]
	}
	return replacement, ""
}
