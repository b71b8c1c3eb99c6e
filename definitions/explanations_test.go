package definitions

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestExplanations holds the examples of checks against the checks: the wrong one is
// reported by it, and nothing is wrong with the right one.
func TestExplanations(t *testing.T) {
	t.Parallel()
	all := Explanations()
	if !slices.IsSortedFunc(all, func(a, b Explanation) int { return strings.Compare(a.Check, b.Check) }) {
		t.Error("the checks are not sorted")
	}
	for _, e := range all {
		if e.Check == "permission" { // needs a publisher: permission_test.go
			continue
		}
		wrong, right := checkExampleText(t, e.Wrong), checkExampleText(t, e.Right)
		if !slices.ContainsFunc(wrong, func(d Diagnostic) bool { return d.Check == e.Check }) {
			t.Errorf("%s: what is wrong is reported as %v", e.Check, wrong)
		}
		if len(right) > 0 {
			t.Errorf("%s: what is right is reported as %v", e.Check, right)
		}
	}
}

// checkExampleText checks an example, which gets what each definition must have.
func checkExampleText(t *testing.T, text string) Diagnostics {
	t.Helper()
	if !strings.Contains("\n"+text, "\nname:") && !strings.Contains(text, "kind:") {
		text = "name: example\ndescription: An example.\n" + text
	}
	defs, diags := Parse("example.yaml", []byte(text))
	for _, d := range defs {
		diags = append(diags, d.Pin(func(name string) (string, error) {
			if name == "lib/own.star" {
				return "def twice(n):\n    return 2 * n\n", nil
			}
			return "", errors.New("no such file")
		})...)
	}
	return append(diags, Check(defs, CheckOptions{Tools: testTools(t)})...)
}
