package script_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/starlark"
	"github.com/perdure/perdure/workflows/script"
)

// FuzzRun: whatever a script does, it ends, and does not panic.
func FuzzRun(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.star")
	for _, file := range files {
		text := perduretest.Read(f, file)
		for _, part := range strings.Split(string(text), "---\n") {
			f.Add(part)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, ds := definitions.ScriptLanguage.Compile(starlark.Source{Text: text, Modules: map[string]string{"assert.star": assertions, "lib.star": library}}, starlark.Limits{})
		if ds != nil {
			return
		}
		execute(t, p, &fake{}, script.Input{Limits: script.Limits{Limits: starlark.Limits{Steps: 20_000, Memory: 8 << 20}, Calls: 20}})
	})
}
