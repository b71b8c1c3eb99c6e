package perduretest

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Programs runs each part of each file testdata/*.star, in the way of Starlark's own
// tests: parts are separated by lines of three dashes, and ### "regexp" at the end of a
// line means that the part must fail there. Without it the part must succeed; eq and true,
// of the module assert.star, are there for it. run reports where and why a part failed.
func Programs(t *testing.T, run func(t *testing.T, file, text string) (line int, failure string)) {
	t.Helper()
	Parts(t, "testdata/*.star", func(t *testing.T, file string, first int, text string) {
		t.Parallel()
		wantLine, want := expected(t, text)
		gotLine, got := run(t, file, `load("assert.star", "eq", "true"); `+strings.Repeat("\n", first-1)+text)
		if wantLine > 0 {
			wantLine += first - 1
		}
		switch {
		case want == "" && got != "":
			t.Errorf("%s:%d: %s", file, gotLine, got)
		case want != "" && got == "":
			t.Errorf("%s:%d: succeeds, want %q", file, wantLine, want)
		case want != "" && (gotLine != wantLine || !regexp.MustCompile(want).MatchString(got)):
			t.Errorf("%s:%d: %s\nwant at line %d: %q", file, gotLine, got, wantLine, want)
		}
	})
}

// Parts runs a test for each part of the files that match a pattern, with the line at
// which it begins. Parts are separated by lines of three dashes.
func Parts(t *testing.T, pattern string, run func(t *testing.T, file string, first int, text string)) {
	t.Helper()
	for _, file := range Files(t, pattern) {
		first := 1
		for _, part := range strings.Split(string(Read(t, file)), "---\n") {
			t.Run(filepath.Base(file)+":"+strconv.Itoa(first), func(t *testing.T) { run(t, file, first, part) })
			first += strings.Count(part, "\n") + 1
		}
	}
}

// AddParts gives a fuzz test the parts of the files that match the patterns as seeds.
func AddParts(f *testing.F, patterns ...string) {
	f.Helper()
	for _, pattern := range patterns {
		for _, file := range Files(f, pattern) {
			for _, part := range strings.Split(string(Read(f, file)), "---\n") {
				f.Add(part)
			}
		}
	}
}

var expectation = regexp.MustCompile(`### ("(?:[^"\\]|\\.)*")`)

// expected is how a part must fail; "" = it must not.
func expected(t *testing.T, text string) (line int, failure string) {
	for i, l := range strings.Split(text, "\n") {
		if m := expectation.FindStringSubmatch(l); m != nil {
			line, failure = i+1, Must(strconv.Unquote(m[1]))(t)
		}
	}
	return line, failure
}
