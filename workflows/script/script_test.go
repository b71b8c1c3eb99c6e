package script_test

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/starlark"
	"github.com/perdure/perdure/workflows/script"
)

// TestScripts runs each part of each file of testdata, in the way of Starlark's own
// tests: parts are separated by lines of three dashes, and ### "regexp" at the end of a
// line means that the part must fail there. Without it the part must succeed; eq and true
// are there for it.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.star")
	if err != nil || len(files) == 0 {
		t.Fatal("no files in testdata", err)
	}
	for _, file := range files {
		text := perduretest.Read(t, file)
		line := 0
		for _, part := range strings.SplitAfter(string(text), "\n---\n") {
			first := line
			line += strings.Count(part, "\n")
			t.Run(filepath.Base(file)+":"+strconv.Itoa(first+1), func(t *testing.T) {
				t.Parallel()
				runPart(t, file, strings.Repeat("\n", first)+strings.TrimSuffix(part, "---\n"))
			})
		}
	}
}

var expectation = regexp.MustCompile(`### ("(?:[^"\\]|\\.)*")`)

func runPart(t *testing.T, file, text string) {
	wantLine, want := 0, ""
	for i, line := range strings.Split(text, "\n") {
		if m := expectation.FindStringSubmatch(line); m != nil {
			var err error
			if want, err = strconv.Unquote(m[1]); err != nil {
				t.Fatal(err)
			}
			wantLine = i + 1
		}
	}
	text = `load("assert.star", "eq", "true"); ` + text
	p, ds := definitions.ScriptLanguage.Compile(starlark.Source{File: file, Text: text, Modules: map[string]string{"assert.star": assertions, "lib.star": library}}, starlark.Limits{})
	gotLine, got := 0, ""
	if ds != nil {
		gotLine, got = ds[0].Line, ds[0].Message
	} else if _, failure := execute(t, p, &fake{}, script.Input{Data: []byte(`{"n":12345678901234567890,"f":1.5,"list":[1,2],"text":"hi"}`)}); failure != nil {
		gotLine, got = failure.Site.Line, failure.Message
		if failure.Site.File == "assert.star" {
			gotLine = 0
			t.Errorf("%s\n%s", got, failure.Backtrace)
		}
	}
	switch {
	case want == "" && got != "":
		t.Errorf("%s:%d: %s", file, gotLine, got)
	case want != "" && got == "":
		t.Errorf("%s:%d: succeeds, want %q", file, wantLine, want)
	case want != "" && (gotLine != wantLine || !regexp.MustCompile(want).MatchString(got)):
		t.Errorf("%s:%d: %s\nwant at line %d: %q", file, gotLine, got, wantLine, want)
	}
}

// library is what parts may load as lib.star.
const library = `
NAMES = ["a", "b"]

def double(x):
    return 2 * x

def echo(x):
    return call_tool("t_echo", x = x)["x"]
`
