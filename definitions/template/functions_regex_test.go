package template

import (
	"regexp"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// FuzzRegex holds that searches find what the regexp package finds.
func FuzzRegex(f *testing.F) {
	for _, seed := range [][2]string{
		{"[0-9]+", "ab12cd3"}, {"", "añb"}, {"a*", "baac"}, {`\b`, "one two"}, {"(?m)^.", "a\nb\n"}, {"^a", "aaa"}, {"a.*z|a", "aaa"},
		{`(a)(b)?`, "aab"}, {"x*$", "axx"}, {`\Bb`, "abb b"}, {"(?i)Ä", "äÄ"}, {".", "\xff\xfea"}, {"(?P<n>a|b)c*", "acbcc"},
	} {
		f.Add(seed[0], seed[1], 3)
	}
	f.Fuzz(func(t *testing.T, expression, s string, n int) {
		re, err := regexp.Compile(expression)
		if err != nil || len(expression) > 200 || len(s) > 200 || !utf8.ValidString(expression) {
			return
		}
		x := newExpansion()
		found, err := x.search(expression, s, maxListLength+1)
		if err != nil {
			return // too much work
		}
		if diff := cmp.Diff(re.FindAllStringSubmatchIndex(s, -1), found.places); diff != "" {
			t.Errorf("%q in %q (-regexp +ours):\n%s", expression, s, diff)
		}
		parts, err := (&call{x: x, args: []any{expression, s, int64(n)}}).result(regexFunctions["regexSplit"])
		if err != nil {
			return
		}
		var got []string
		for _, part := range parts.([]any) {
			got = append(got, part.(string))
		}
		if want := re.Split(s, n); len(want)+len(got) > 0 && !cmp.Equal(want, got) {
			t.Errorf("splitting %q by %q into %d: %q, not %q", s, expression, n, got, want)
		}
		replaced, err := (&call{x: x, args: []any{expression, s, "<$1>"}}).result(regexFunctions["regexReplaceAll"])
		if want := re.ReplaceAllString(s, "<$1>"); err == nil && replaced != want {
			t.Errorf("replacing %q in %q gave %q, not %q", expression, s, replaced, want)
		}
	})
}
