package template

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// Patterns from outside. RE2 never backtracks, but it compiles a repetition once for
// each time, so a few letters make a program of megabytes, and a search keeps all
// capture groups for each active instruction. So a pattern is measured by its syntax
// tree before it is compiled.
const (
	// MaxPatternText bounds the text of a pattern, in bytes.
	MaxPatternText = 10_000
	// MaxPatternSize bounds the instructions of its program.
	MaxPatternSize = 20_000
	// MaxPatternSlots bounds the capture slots that a search may hold, of 8 bytes
	// each: two for each group, at each instruction.
	MaxPatternSlots = 1 << 20
	// capturesPerStep is how many groups are copied in the time of one instruction.
	capturesPerStep = 8
	// rangesPerStep is how many ranges of a character class are compiled in the
	// time of one instruction.
	rangesPerStep = 16
)

// CompilePattern compiles a regular expression of RE2 that comes from outside:
// from a definition, a caller, a backend or a file. It is an error, found before
// much has been allocated, if its program would be large.
func CompilePattern(text string) (*regexp.Regexp, error) {
	re, _, err := CompileCharged(text, nil)
	return re, err
}

// CompileCharged is CompilePattern that also gives the steps a search may take for one
// letter. It calls charge before it compiles; nil = no charge.
func CompileCharged(text string, charge func(steps int) error) (re *regexp.Regexp, steps int, err error) {
	if len(text) > MaxPatternText {
		return nil, 0, fmt.Errorf("a regular expression is at most %d bytes long (limit MaxPatternText)", MaxPatternText)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, 0, err
	}
	size, groups := programSize(parsed), parsed.MaxCap()+1 // the whole match is one
	switch {
	case size > MaxPatternSize:
		return nil, 0, fmt.Errorf("the regular expression is too large: with its repetitions written out it has more than %d parts (limit MaxPatternSize)", MaxPatternSize)
	case size*2*groups > MaxPatternSlots:
		return nil, 0, fmt.Errorf("the regular expression is too large: %d groups in %d parts (limit MaxPatternSlots); use (?:…) where nothing reads a group", groups-1, size)
	}
	steps = size * (1 + groups/capturesPerStep)
	if charge != nil {
		if err := charge(steps); err != nil {
			return nil, 0, err
		}
	}
	re, err = regexp.Compile(text)
	return re, steps, err
}

// after finds re after one letter of a text, as its first group.
func after(re *regexp.Regexp) (*regexp.Regexp, error) {
	return regexp.Compile(`\A(?s:.)(?s:.*?)(` + re.String() + `)`)
}

// programSize is an upper bound of the instructions of re's program, or more than
// MaxPatternSize. The parser has bounded the depth of re.
func programSize(re *syntax.Regexp) int {
	size := 1
	switch re.Op {
	case syntax.OpLiteral:
		size = len(re.Rune)
	case syntax.OpCharClass:
		size = 1 + len(re.Rune)/rangesPerStep
	}
	for _, sub := range re.Sub {
		if size += programSize(sub); size > MaxPatternSize {
			return MaxPatternSize + 1
		}
	}
	switch re.Op {
	case syntax.OpCapture, syntax.OpAlternate:
		size += 1 + len(re.Sub)
	case syntax.OpStar:
		size++ // one more if the repeated pattern may be empty
	case syntax.OpRepeat:
		// Each repetition beyond the minimum is optional, which is one more
		// instruction; without a maximum the last one is a star.
		size = (size+1)*max(re.Min, re.Max, 1) + 1
	}
	return min(size, MaxPatternSize+1)
}
