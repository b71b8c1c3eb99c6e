package definitions

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNotesFiles notes what each file of testdata/notes does otherwise than
// ToolHive; its .out says what.
func TestNotesFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/notes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata/notes: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			defs, diags := Parse(filepath.Base(file), readFile(t, file))
			diags = append(diags, Check(defs, CheckOptions{})...)
			if err := diags.Err(); err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			for _, d := range Notes(defs) {
				if d.Severity != SeverityNote {
					t.Errorf("%v is no note", d)
				}
				fmt.Fprintln(&b, d)
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".out"
			if *update {
				if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(readFile(t, golden)), b.String()); diff != "" {
				t.Errorf("notes of %s (-want +got):\n%s", file, diff)
			}
		})
	}
}

func FuzzNotes(f *testing.F) {
	for _, pattern := range []string{"testdata/ok/*.yaml", "testdata/err/*.yaml", "testdata/notes/*.yaml"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		defs, _ := Parse("fuzz.yaml", data)
		for _, d := range Notes(defs) {
			if d.Severity != SeverityNote || d.Check == "" {
				t.Errorf("%v", d)
			}
		}
	})
}
