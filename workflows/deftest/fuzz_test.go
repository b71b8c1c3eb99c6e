package deftest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/perdure/perdure/definitions/library"
)

// FuzzParse holds that no test file makes reading it panic or go on for ever,
// that what is wrong with one has a place, and that the cases of one without
// errors can be run.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"../../definitions/library/*_test.yaml", "testdata/*/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add([]byte("definition: {name: a, description: d, steps: [{id: s, tool: t}]}\n" +
		"tools: {t: [{when: {n: 1}, error: no}, {text: yes, after: 1s}]}\ncases:\n- {name: c, expect: {calls: {t: 1}, order: [s before s]}}\n"))
	f.Add([]byte("library: check_repository\ncases: [{name: c, answers: [{action: accept, content: {a: 1}, message: '('}]}]"))
	sources := Sources{Library: library.Files, ReadFile: func(string) ([]byte, error) { return nil, errors.New("not in a fuzz test") }}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, diags := Parse("fuzz_test.yaml", data, sources)
		for _, d := range diags {
			if d.Pos.Line < 1 || d.Message == "" {
				t.Fatalf("%q is told to be wrong without a place or a reason: %+v", data, d)
			}
		}
		if diags.HasErrors() {
			return
		}
		if len(file.Cases) == 0 {
			t.Fatalf("%q has no cases and no errors", data)
		}
		for _, c := range file.Cases {
			if c.Name == "" || c.Definition == nil || c.Pos.Line < 1 {
				t.Fatalf("%q gives the case %+v", data, c)
			}
		}
	})
}
