package script_test

import (
	"testing"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/starlark"
	"github.com/perdure/perdure/workflows/script"
)

// TestBombs runs scripts that want all of the memory, or never end, by way of the
// functions that only scripts have; internal/starlark has those of the language. Each
// fails, and reports where.
func TestBombs(t *testing.T) {
	t.Parallel()
	perduretest.Parts(t, "testdata/bombs/*.star", func(t *testing.T, _ string, _ int, bomb string) {
		p, ds := definitions.ScriptLanguage.Compile(starlark.Source{File: "bomb.star", Text: bomb}, starlark.Limits{})
		if ds != nil {
			t.Fatal(ds)
		}
		if _, failure := execute(t, p, &fake{}, script.Input{}); failure == nil {
			t.Errorf("it succeeded:\n%s", bomb)
		} else if failure.Site.Line == 0 {
			t.Errorf("the error does not say where: %+v", failure)
		}
	})
}
