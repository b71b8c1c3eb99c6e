package template

import (
	"io"
	"regexp"
	"unicode/utf8"
)

// Regular expressions are those of RE2. One search takes time in proportion to
// the text and to the size of the expression's program, but all matches of a
// text together may take its square: "a.*z|a" looks at the whole rest of "aaa…"
// for each a. So searches read the text through a reader that charges for each
// letter, and stops them when the work is too much.

// stepPrice is that of compiling one step of a pattern, in bytes.
const stepPrice = 32

var regexFunctions = map[string]function{
	"regexMatch": {2, 2, func(x *expansion, args []any) (any, error) {
		matches, err := x.search(args[0], args[1], 1)
		return len(matches.places) > 0, err
	}},
	"regexFind": {2, 2, func(x *expansion, args []any) (any, error) {
		matches, err := x.search(args[0], args[1], 1)
		if err != nil || len(matches.places) == 0 {
			return "", err
		}
		return x.built(matches.text(0))
	}},
	"regexFindAll":           {3, 3, regexFindAll},
	"regexSplit":             {3, 3, regexSplit},
	"regexReplaceAll":        {3, 3, regexReplaceAll((*regexp.Regexp).ExpandString)},
	"regexReplaceAllLiteral": {3, 3, regexReplaceAll(literally)},
	"regexQuoteMeta":         onText(regexp.QuoteMeta),
}

// matches of a regular expression in s.
type matches struct {
	re     *regexp.Regexp
	s      string
	places [][]int // as FindStringSubmatchIndex gives them
}

func (m matches) text(i int) string { return m.s[m.places[i][0]:m.places[i][1]] }

// search finds the first n matches; a negative n is as many as an array may
// hold.
func (x *expansion) search(regex, text any, n int) (matches, error) {
	texts, err := x.textArgs([]any{regex, text})
	if err != nil {
		return matches{}, err
	}
	p, err := x.pattern(texts[0])
	if err != nil {
		return matches{}, err
	}
	if n < 0 || n > maxListLength {
		n = maxListLength + 1
	}
	places, err := x.places(p, texts[1], n)
	if err == nil {
		err = x.list(len(places))
	}
	return matches{p.re, texts[1], places}, err
}

// A pattern is a compiled regular expression.
type pattern struct {
	re    *regexp.Regexp
	later *regexp.Regexp // finds it after one letter, which is there for ^ and \b to see
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
		place, err := x.find(p, s, at, n > 1)
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

// find gives the first match that does not start before at; nil if there is
// none.
func (x *expansion) find(p *pattern, s string, at int, more bool) ([]int, error) {
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
		place = place[2:] // the whole is what the parentheses around it found
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

func regexFindAll(x *expansion, args []any) (any, error) {
	n, err := x.intArg(args[2])
	if err != nil {
		return nil, err
	}
	matches, err := x.search(args[0], args[1], n)
	if err != nil {
		return nil, err
	}
	found := make([]any, len(matches.places))
	for i := range found {
		found[i] = matches.text(i)
	}
	return found, nil
}

// regexSplit gives what stands between matches, n parts at most.
func regexSplit(x *expansion, args []any) (any, error) {
	n, err := x.intArg(args[2])
	if err != nil {
		return nil, err
	}
	m, err := x.search(args[0], args[1], n)
	if err != nil {
		return nil, err
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
	return parts, x.list(len(parts))
}

func literally(_ *regexp.Regexp, dst []byte, template, _ string, _ []int) []byte {
	return append(dst, template...)
}

type expander func(re *regexp.Regexp, dst []byte, template, src string, match []int) []byte

func regexReplaceAll(expand expander) func(*expansion, []any) (any, error) {
	return func(x *expansion, args []any) (any, error) {
		replacement, err := x.textArg(args[2])
		if err != nil {
			return nil, err
		}
		m, err := x.search(args[0], args[1], -1)
		if err != nil {
			return nil, err
		}
		var out []byte
		end := 0
		for _, place := range m.places {
			out = expand(m.re, append(out, m.s[end:place[0]]...), replacement, m.s, place)
			if end = place[1]; len(out) > MaxExpansion {
				return nil, errTooLarge
			}
		}
		return x.built(string(append(out, m.s[end:]...)))
	}
}
