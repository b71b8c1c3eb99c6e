package definitions

import (
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/internal/perduretest"
)

// TestEveryCheckHasFiles holds the checks that the code can report against
// checks.yaml, which says what each means, and the files of testdata: the
// .out of one has it, and one with nothing wrong has a comment, # right: NAME,
// where it does right what the check is about.
func TestEveryCheckHasFiles(t *testing.T) {
	t.Parallel()
	checks, notes := reportedChecks(t)
	if len(checks) < 40 || len(notes) < 10 {
		t.Fatalf("only the checks %q and the notes %q are found in the code", checks, notes)
	}
	files := slices.DeleteFunc(slices.Clone(checks), func(check string) bool { return check == "permission" }) // needs a publisher: permission_test.go
	reported, right := regexp.MustCompile(`\[([a-z-]+)\]\n`), regexp.MustCompile(`# right: ([a-z, -]+)\n`)
	for _, known := range []struct {
		what       string
		code, here []string
	}{
		{"what checks.yaml explains", checks, explainedChecks()},
		{"what testdata/err does wrong", files, mentionedChecks(t, reported, "testdata/err/*.out")},
		{"what testdata/ok does right", files, mentionedChecks(t, right, "testdata/ok/*.yaml")},
		{"what is noted of testdata/notes", notes, mentionedChecks(t, reported, "testdata/notes/all.out")},
		{"what testdata/notes/none.yaml does as ToolHive", notes, mentionedChecks(t, right, "testdata/notes/none.yaml")},
	} {
		if diff := cmp.Diff(known.code, known.here); diff != "" {
			t.Errorf("%s (-code +there):\n%s", known.what, diff)
		}
	}
}

// reportedChecks gives the names of the checks, and of the notes, in the calls
// that report something: the argument before the format.
func reportedChecks(t *testing.T) (checks, notes []string) {
	t.Helper()
	reporters := []string{"errorf", "warnf", "report", "stepErrorf", "stepWarnf", "readf", "neverRuns", "notef", "warn"}
	word := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	for _, file := range goFiles(t, ".") {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !slices.Contains(reporters, calledName(call)) {
				return true
			}
			into := &checks
			if calledName(call) == "notef" || slices.ContainsFunc(call.Args, isNoteSeverity) {
				into = &notes
			}
			for i := range len(call.Args) - 1 {
				check, format := textOf(call.Args[i]), textOf(call.Args[i+1])
				if word.MatchString(check) && format != "" && !word.MatchString(format) {
					*into = append(*into, check)
				}
			}
			return true
		})
	}
	checks = append(checks, slices.Collect(maps.Values(scriptChecks))...)
	slices.Sort(checks)
	slices.Sort(notes)
	return slices.Compact(checks), slices.Compact(notes)
}

func isNoteSeverity(e ast.Expr) bool {
	name, ok := e.(*ast.Ident)
	return ok && name.Name == "SeverityNote"
}

// textOf gives the text of a string literal, "" of anything else.
func textOf(e ast.Expr) string {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(literal.Value)
	if err != nil {
		return ""
	}
	return text
}

// mentionedChecks gives the checks that files name, by a regular expression
// whose group is a list of them, sorted, once each.
func mentionedChecks(t *testing.T, mention *regexp.Regexp, patterns ...string) []string {
	t.Helper()
	var checks []string
	for _, pattern := range patterns {
		for _, file := range perduretest.Files(t, pattern) {
			for _, m := range mention.FindAllStringSubmatch(string(perduretest.Read(t, file)), -1) {
				checks = append(checks, strings.FieldsFunc(m[1], func(r rune) bool { return r == ',' || r == ' ' })...)
			}
		}
	}
	slices.Sort(checks)
	return slices.Compact(checks)
}

func explainedChecks() (names []string) {
	for _, e := range Explanations() {
		names = append(names, e.Check)
	}
	return names
}
