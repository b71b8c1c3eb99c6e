package definitions

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

// TestNotesFiles notes what each file of testdata/notes does otherwise than
// ToolHive; its .out says what.
func TestNotesFiles(t *testing.T) {
	t.Parallel()
	for _, file := range perduretest.Files(t, "testdata/notes/*.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			defs, diags := Parse(filepath.Base(file), perduretest.Read(t, file))
			diags = append(diags, Check(defs, CheckOptions{})...)
			perduretest.NoError(t, diags.Err())
			var b strings.Builder
			for _, d := range Notes(defs) {
				if d.Severity != SeverityNote {
					t.Errorf("%v is no note", d)
				}
				fmt.Fprintln(&b, d)
			}
			perduretest.Golden(t, strings.TrimSuffix(file, ".yaml")+".out", b.String())
		})
	}
}

func FuzzNotes(f *testing.F) {
	perduretest.AddFiles(f, "testdata/ok/*.yaml", "testdata/err/*.yaml", "testdata/notes/*.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		defs, _ := Parse("fuzz.yaml", data)
		for _, d := range Notes(defs) {
			if d.Severity != SeverityNote || d.Check == "" {
				t.Errorf("%v", d)
			}
		}
	})
}
