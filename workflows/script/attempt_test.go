package script_test

import (
	"strings"
	"testing"

	"github.com/perdure/perdure/workflows/script"
)

// TestFailDoesNotPretend shows that a script cannot end with an error that says of
// the run what only the run knows: that it was cancelled, or broke down.
func TestFailDoesNotPretend(t *testing.T) {
	t.Parallel()
	for _, category := range []string{"cancelled", "internal", "outcome_unknown", "credentials", "permission"} {
		for _, call := range []string{
			`fail("no", category = "` + category + `")`,
			`fail(attempt(lambda: fail("no")).error, category = "` + category + `")`,
		} {
			p, ds := script.Compile(script.Source{File: "a.star", Text: call}, script.Limits{})
			if ds != nil {
				t.Fatal(ds)
			}
			_, failure := execute(t, p, &fake{}, script.Input{})
			if failure == nil || failure.Category == category || !strings.Contains(failure.Message, "category is one of") {
				t.Errorf("%s ended with %+v", call, failure)
			}
		}
	}
}
