package template

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/perduretest"
)

// patternBombs are small regular expressions with large programs, or with much to
// keep while they are searched for.
var patternBombs = map[string]string{
	"many groups, repeated":   "(?:" + strings.Repeat("(x?)", 1000) + "){400}",
	"groups":                  strings.Repeat("(x?)", 2400),
	"many repetitions":        strings.Repeat("x{1000}", 1428),
	"optional repetitions":    strings.Repeat("x{0,1000}", 1100),
	"repetitions of ranges":   strings.Repeat(`\pL{1000}`, 1100),
	"nested repetitions":      "((((x{10}){10}){10}y{10}){10}z{99}){9}",
	"a repeated alternative":  "(?:" + strings.Repeat("a|b", 3000) + "){1000}",
	"folded classes":          strings.Repeat(`(?i:[^\pL])`, 900),
	"classes":                 strings.Repeat(`[\pL\PN\x{0}-\x{10FFFF}]`, 400),
	"deep parentheses":        strings.Repeat("(", 990) + strings.Repeat(")", 990),
	"too deep parentheses":    strings.Repeat("(", 5000) + strings.Repeat(")", 5000),
	"common prefixes":         strings.Repeat("aaaaaaaaa|", 990),
	"prefixes of each other":  "a|aa|aaa|" + strings.Repeat("aaaa|", 1900),
	"stars":                   strings.Repeat("(a*)*", 1900),
	"anchors":                 "^" + strings.Repeat(`\b\B$^`, 1600),
	"one pass":                "^(?:" + strings.Repeat("[a-z]?", 900) + "){1000}$",
	"a long text":             strings.Repeat("a", 20_000),
	"a repetition of nothing": strings.Repeat("(?:){1000}", 900),
	"quests":                  strings.Repeat("(?:a?){1000}", 800),
	"a lazy repetition":       strings.Repeat("(.*?){500}", 900),
	"minima":                  strings.Repeat("x{999,}", 1400),
}

// TestAttackPatterns gives patterns from outside to all that takes them. Each is
// compiled and searched for, or refused, in little time and memory.
func TestAttackPatterns(t *testing.T) {
	text := strings.Repeat("xab", 1000)
	for name, bomb := range patternBombs {
		t.Run(name, func(t *testing.T) {
			perduretest.Frugal(t, 30*time.Second, 100<<20, func() {
				if re, err := CompilePattern(bomb); err == nil {
					re.MatchString(text)
					re.FindStringSubmatch(text)
				}
			})
			parsed := mustParse(t, `{{regexMatch .p .t}}{{regexFindAll .p .t -1 | len}}`)
			perduretest.Frugal(t, 30*time.Second, 100<<20, func() { parsed.Expand(map[string]any{"p": bomb, "t": text}, nil) })
		})
	}
}

// TestPatternsOfTools shows that patterns that schemas of real tools have are not
// refused.
func TestPatternsOfTools(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{
		`^[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,63}$`,
		`^(?:[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12})$`,
		`^(25[0-5]|2[0-4]\d|1?\d?\d)(\.(25[0-5]|2[0-4]\d|1?\d?\d)){3}$`,
		`^[^\x00-\x1f]{1,1000}$`, `^(?i)(\pL+\s?){1,200}$`, `^arn:aws:[a-z0-9-]{1,63}:[a-z0-9-]*:\d{12}:.{1,512}$`,
	} {
		if _, err := CompilePattern(pattern); err != nil {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

// FuzzPatternSize holds that patterns are measured as at least what they are
// compiled to.
func FuzzPatternSize(f *testing.F) {
	for _, seed := range []string{"(a{2,5}|b)*c{3,}", "x{0}", "(?:){3}", "(a|b|c|){0,3}", `(?i)é\pL[^a]`, "a??b*?c+?", "((x?){2,}){3}", "^$", "(?:a{3}|bc){4}", "[a]b{7}"} {
		f.Add(seed)
	}
	for _, bomb := range patternBombs {
		f.Add(bomb[:min(len(bomb), 200)])
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := syntax.Parse(text, syntax.Perl)
		if err != nil || len(text) > 1000 {
			return
		}
		size := programSize(parsed)
		if size > MaxPatternSize {
			return
		}
		program := perduretest.Must(syntax.Compile(parsed.Simplify()))(t)
		if got := len(program.Inst) - 2; got > size { // those that every program has
			t.Errorf("%q was measured as %d and has %d instructions", text, size, got)
		}
		if _, err := regexp.Compile(text); err != nil {
			t.Fatal(err)
		}
	})
}
