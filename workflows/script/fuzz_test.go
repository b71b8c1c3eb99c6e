package script_test

import (
	"testing"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/starlark"
	"github.com/perdure/perdure/workflows/script"
)

// FuzzRun: whatever a script does, it ends, and does not panic.
func FuzzRun(f *testing.F) {
	perduretest.AddParts(f, "testdata/*.star")
	f.Fuzz(func(t *testing.T, text string) {
		p, ds := definitions.ScriptLanguage.Compile(starlark.Source{Text: text, Modules: map[string]string{"assert.star": assertions, "lib.star": library}}, starlark.Limits{})
		if ds != nil {
			return
		}
		execute(t, p, &fake{}, script.Input{Limits: script.Limits{Limits: starlark.Limits{Steps: 20_000, Memory: 8 << 20}, Calls: 20}})
	})
}
