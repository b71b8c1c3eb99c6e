package config

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
)

// TestExplanations holds the examples of checks against the checks, and the checks
// against those that the code can report.
func TestExplanations(t *testing.T) {
	t.Parallel()
	env := func(name string) (string, bool) { return "set", name != "PERDURE_TEST_UNSET" }
	var explained []string
	for _, e := range Explanations() {
		explained = append(explained, e.Check)
		if e.Wrong == "" {
			continue
		}
		load := func(text string) definitions.Diagnostics {
			_, diags := Load(Sources{Config: "example.yaml", Text: []byte(text), Env: env})
			return diags
		}
		if wrong := load(e.Wrong); !slices.ContainsFunc(wrong, func(d definitions.Diagnostic) bool { return d.Check == e.Check }) {
			t.Errorf("%s: what is wrong is reported as %v", e.Check, wrong)
		}
		if right := load(e.Right); len(right) > 0 {
			t.Errorf("%s: what is right is reported as %v", e.Check, right)
		}
	}
	if !slices.IsSorted(explained) {
		t.Errorf("the checks are not sorted: %q", explained)
	}
	reported := append(reportedChecks(t), "duplicate-key", "unknown-key") // definitions.Decode reports them
	slices.Sort(reported)
	if diff := cmp.Diff(slices.Compact(reported), explained); diff != "" {
		t.Errorf("(-reported +explained)\n%s", diff)
	}
}

// reportedChecks are those in the calls of errorf and warnf: the argument before the
// format.
func reportedChecks(t *testing.T) (checks []string) {
	t.Helper()
	files := perduretest.Must(filepath.Glob("*.go"))(t)
	call := regexp.MustCompile(`(?:errorf|warnf)\(.*?"([a-z]+(?:-[a-z]+)*)",\s*"[^"]*[ %]|Check: "([a-z-]+)"|checkNoMatch += "([a-z-]+)"`)
	split := regexp.MustCompile(`(?:errorf|warnf)\([^"]*"([a-z]+(?:-[a-z]+)*)",\n`)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text := perduretest.Read(t, file)
		for _, m := range append(call.FindAllSubmatch(text, -1), split.FindAllSubmatch(text, -1)...) {
			for _, group := range m[1:] {
				if len(group) > 0 {
					checks = append(checks, string(group))
				}
			}
		}
	}
	return checks
}
