package template

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/perduretest"
)

// replacementBombs are replacements of which one match builds much, or which are
// read for each match and build nothing.
var replacementBombs = map[string]string{
	"a large group, many times":    `{{$s := repeat 20000 "a"}}{{regexReplaceAll "(a*)" $s (repeat 20000 "$1")}}`,
	"the whole match, many times":  `{{$s := repeat 20000 "a"}}{{regexReplaceAll "a*" $s (repeat 20000 "${0}")}}`,
	"a named group, many times":    `{{$s := repeat 20000 "a"}}{{regexReplaceAll "(?P<n>a*)" $s (repeat 20000 "$n ")}}`,
	"a group that does not exist":  `{{regexReplaceAll "" (repeat 200 "a") (repeat 1000000 "$9")}}`,
	"an empty group":               `{{regexReplaceAll "(b?)" (repeat 200 "a") (repeat 1000000 "$1")}}`,
	"names among many groups":      `{{regexReplaceAll (repeat 200 "(b?)") (repeat 200 "a") (repeat 100000 "${x}")}}`,
	"a long name":                  `{{regexReplaceAll "" (repeat 200 "a") (print "${" (repeat 3000000 "x") "}")}}`,
	"a long replacement, as it is": `{{regexReplaceAllLiteral "" (repeat 20000 "a") (repeat 1000000 "$1")}}`,
}

// TestAttackReplacements: replacing takes little time and memory, whatever the
// replacement refers to. Memory is exact; the machine may be busy.
func TestAttackReplacements(t *testing.T) {
	for _, name := range SortedKeys(replacementBombs) {
		t.Run(name, func(t *testing.T) {
			template, err := Parse(replacementBombs[name])
			if err != nil {
				t.Fatal(err)
			}
			perduretest.Frugal(t, 30*time.Second, 100<<20, func() { _, _, err = template.Expand(map[string]any{}, nil) })
			if err == nil || !strings.Contains(err.Error(), "(limit MaxExpansion") {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// TestReplacementsInPieces: pieces that are expanded one by one make what the
// whole replacement makes.
func TestReplacementsInPieces(t *testing.T) {
	t.Parallel()
	re := regexp.MustCompile(`(?P<a>b)(c)?`)
	place := re.FindStringSubmatchIndex("xbcx")
	signs := []string{"$", "{", "}", "a", "1", "9", "é", "-"}
	var check func(replacement string, more int)
	check = func(replacement string, more int) {
		var got []byte
		for piece, rest := cutPiece(replacement); piece != ""; piece, rest = cutPiece(rest) {
			got = re.ExpandString(got, piece, "xbcx", place)
		}
		if want := re.ExpandString(nil, replacement, "xbcx", place); string(got) != string(want) {
			t.Errorf("%q gave %q instead of %q", replacement, got, want)
		}
		if more > 0 {
			for _, sign := range signs {
				check(replacement+sign, more-1)
			}
		}
	}
	check("", 6)
}
