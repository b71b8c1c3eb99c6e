package view_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/perduretest"
)

// TestAttackHiddenCharacters: what cannot be seen, or changes what is seen of other
// characters, is a mark; what people write is not.
func TestAttackHiddenCharacters(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Pay 12345":                          "Pay 12345",
		"…\u202e54321-\u202c":                "…[U+202E]54321-[U+202C]",
		"a\u2066b\u2069":                     "a[U+2066]b[U+2069]",
		"\u061c\u200e\u200f":                 "[U+061C][U+200E][U+200F]",
		"ro\u200bot":                         "ro[U+200B]ot",
		"ro\u200c\u200dot":                   "ro[U+200C][U+200D]ot",
		"\ufeffx\u00ad\u2060\u180e":          "[U+FEFF]x[U+00AD][U+2060][U+180E]",
		"a\u034fb\u115fc\u3164d\uffa0\u2800": "a[U+034F]b[U+115F]c[U+3164]d[U+FFA0][U+2800]",
		"a\U00016fe4\U0001107f\U0001d159\U00013441\ufffcb": "a[U+16FE4][U+1107F][U+1D159][U+13441][U+FFFC]b",
		"\U000e0041\U000e007f":                             "[U+E0041][U+E007F]",
		"a\ufe00b\U000e0100":                               "a[U+FE00]b[U+E0100]",
		"⚠️ a\ufe0f":                                       "⚠️ a[U+FE0F]",
		"\x1b[2J\x07\x00\x7f\u009b":                        "[U+001B][2J[U+0007][U+0000][U+007F][U+009B]",
		"one\r\ntwo\rthree\tfour":                          "one\ntwo[U+000D]three\tfour",
		"a\u2028b\u2029c":                                  "a[U+2028]b[U+2029]c",
		"\ue000\ufdd0\ufffe":                               "[U+E000][U+FDD0][U+FFFE]",
		"a\xffb":                                           "a[0xFF]b",
		"שלום, мир, 世界, naïve, e\u0301, 👍🏽, a\u00a0b, \u06dd": "שלום, мир, 世界, naïve, e\u0301, 👍🏽, a\u00a0b, \u06dd",
		"a" + strings.Repeat("\u0300", 6) + "b\u0301":         "a\u0300\u0300\u0300\u0300[U+0300][U+0300]b\u0301",
		"U+202E and [U+202E]": "U+202E and [U+202E]",
		"\ufffd":              "\ufffd",
	} {
		if got := view.Text(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
		if again := view.Text(view.Text(text)); again != want {
			t.Errorf("%q is shown the second time as %q", text, again)
		}
	}
	if got := view.Line("approve\n  2. decline\u202e"); got != "approve 2. decline[U+202E]" {
		t.Errorf("a label of two lines is shown as %q", got)
	}
}

// blank are characters that are drawn as nothing, and that have no property for it.
const blank = "\u2800\u2d7f\ufffc\U0001107f\U00013440\U00013441\U00013442\U00016fe4\U0001bc9d\U0001d159"

// TestAttackEveryFormatCharacter: no character is left that Unicode says is for
// control or format, or is ignored where it cannot be shown.
func TestAttackEveryFormatCharacter(t *testing.T) {
	t.Parallel()
	for r := rune(0); r <= unicode.MaxRune; r++ {
		hides := unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp, unicode.Bidi_Control, unicode.Join_Control,
			unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point) || strings.ContainsRune(blank, r)
		if r == '\n' || r == '\t' || unicode.Is(unicode.Prepended_Concatenation_Mark, r) || !utf8.ValidRune(r) {
			continue
		}
		if shown := view.Text(string(r)) == string(r); hides && shown || !hides && !shown && unicode.IsPrint(r) && !unicode.Is(unicode.Variation_Selector, r) {
			t.Errorf("U+%04X is shown as it is: %v", r, shown)
		}
	}
}

// TestAttackManyStyles: a text that is full of what styles are written as takes no time.
func TestAttackManyStyles(t *testing.T) {
	t.Parallel()
	began := time.Now()
	if _, err := view.NewWriter(io.Discard, map[rune]string{'\ue000': "\x1b[1m"}).Write([]byte(strings.Repeat("x\ue000", 400_000))); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("2 MB took %s", took)
	}
}

// TestJSON: JSON for reading has no escapes but those without which it would not
// be JSON; that for programs is the same value.
func TestJSON(t *testing.T) {
	t.Parallel()
	raw := []byte(`{"b":"\u003ch1\u003e & \u00fc","a":[1.50,12345678901234567890],"z\u202e":"x\u202e\ud83d\ude00\udb40\udc41","n":"a\nb\t\"\\ \u0001","u":"\\u202e"}`)
	want := "{\n  \"b\": \"<h1> & ü\",\n  \"a\": [\n    1.50,\n    12345678901234567890\n  ],\n  \"z[U+202E]\": \"x[U+202E]😀[U+E0041]\",\n" +
		"  \"n\": \"a\\nb\\t\\\"\\\\ [U+0001]\",\n  \"u\": \"\\\\u202e\"\n}"
	if got := view.JSON(raw); got != want {
		t.Errorf("JSON gives\n%s\nwant\n%s", got, want)
	}
	if got, want := view.JSONLine([]byte(`["a`+strings.Repeat("\u20e4", 5)+`"]`)), `["a`+strings.Repeat("\u20e4", 4)+`[U+20E4]"]`; got != want {
		t.Errorf("JSONLine gives %s, want %s", got, want)
	}
	if got := view.JSONLine([]byte(`{ "a": "\u003c" }`)); got != `{"a":"<"}` {
		t.Errorf("JSONLine gives %s", got)
	}
	exact := view.Exact(raw)
	var before, after any
	if json.Unmarshal(raw, &before) != nil || json.Unmarshal(exact, &after) != nil {
		t.Fatalf("Exact gives no JSON: %s", exact)
	}
	var x, y bytes.Buffer
	perduretest.NoError(t, json.NewEncoder(&x).Encode(before))
	perduretest.NoError(t, json.NewEncoder(&y).Encode(after))
	if x.String() != y.String() || !bytes.Contains(exact, []byte(`x\u202e😀\udb40\udc41`)) || !bytes.Contains(exact, []byte("<h1> & ü")) || strings.ContainsFunc(string(exact), view.Hidden) {
		t.Errorf("Exact gives %s", exact)
	}
	if got := view.JSON([]byte("{")); got != "" {
		t.Errorf("no JSON gives %q", got)
	}
}

// FuzzExact: whatever JSON it is, programs read the same, and nobody is shown what
// is hidden.
func FuzzExact(f *testing.F) {
	f.Add([]byte(`{"a":["\u202e","\\\"",1e400,{"\u0000":"\ud800"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		exact := view.Exact(raw)
		var before, after any
		unreadable := json.Unmarshal(raw, &before) != nil
		if failed := json.Unmarshal(exact, &after) != nil; failed != unreadable {
			t.Fatalf("%q becomes %q", raw, exact)
		}
		x, _ := json.Marshal(before)
		y, _ := json.Marshal(after)
		if !bytes.Equal(x, y) {
			t.Errorf("%q is %s, and becomes %s", raw, x, y)
		}
		for _, shown := range []string{view.JSON(raw), string(exact)} {
			if strings.ContainsFunc(strings.ReplaceAll(shown, "\ufe0f", ""), view.Hidden) {
				t.Errorf("%q is shown as %q", raw, shown)
			}
		}
	})
}

// TestAttackWriter: on a terminal nothing is written that is hidden, also where a
// character is cut between two writes; only styles steer it.
func TestAttackWriter(t *testing.T) {
	t.Parallel()
	text := "a\u202eb \x1b[2Jü \ufdd0bold\ufdd1 世界\U000e0041"
	want := "a[U+202E]b [U+001B][2Jü <b>bold</b> 世界[U+E0041]"
	for cut := 1; cut <= len(text); cut++ {
		var b bytes.Buffer
		w := view.NewWriter(&b, map[rune]string{'\ufdd0': "<b>", '\ufdd1': "</b>"})
		for rest := []byte(text); len(rest) > 0; rest = rest[min(cut, len(rest)):] {
			if n, err := w.Write(rest[:min(cut, len(rest))]); err != nil || n != min(cut, len(rest)) {
				t.Fatal(n, err)
			}
		}
		if b.String() != want {
			t.Errorf("cut in pieces of %d: %q", cut, b.String())
		}
	}
}
