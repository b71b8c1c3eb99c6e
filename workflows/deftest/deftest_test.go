package deftest_test

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows/deftest"
)

var sources = deftest.Sources{Library: definitions.Library()}

func parse(t *testing.T, name, source string) *deftest.File {
	t.Helper()
	file, diags := deftest.Parse(name, []byte(source), sources)
	perduretest.NoError(t, diags.Err())
	return file
}

// Every case in testdata/ok passes, and every definition of the library has
// tests that pass.
func TestCasesPass(t *testing.T) {
	t.Parallel()
	var files []string
	for _, dir := range []string{"testdata/ok", "../../definitions/library"} {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && definitions.IsTestFile(name) {
				files = append(files, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			file, diags := deftest.Read(name, sources)
			perduretest.NoError(t, diags.Err())
			for _, c := range file.Cases {
				t.Run(c.Name, func(t *testing.T) {
					t.Parallel()
					for _, p := range c.Run().Problems {
						t.Errorf("%s: %s\n%s", p.Pos, p.Message, p.Diff)
					}
				})
			}
		})
	}
}

// Each testdata/err/NAME_test.yaml is refused with what NAME.out says.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, name := range perduretest.Files(t, "testdata/err/*_test.yaml") {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			_, diags := deftest.Read(name, sources)
			var got strings.Builder
			for _, d := range diags {
				d.Pos.File = filepath.ToSlash(strings.TrimPrefix(d.Pos.File, filepath.Dir(name)+string(filepath.Separator)))
				got.WriteString(d.String() + "\n")
			}
			perduretest.Golden(t, strings.Replace(name, "_test.yaml", ".out", 1), got.String())
			if !diags.HasErrors() {
				t.Error("nothing is wrong with it")
			}
		})
	}
}

// Each case in testdata/fail fails, as the .out beside the file says.
func TestCasesFail(t *testing.T) {
	t.Parallel()
	files := perduretest.Files(t, "testdata/fail/*_test.yaml")
	took := regexp.MustCompile(`\([0-9a-zµ.]+( for [0-9a-z.]+)?\)\n`)
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			data := perduretest.Read(t, name)
			var got strings.Builder
			reporter := &deftest.Reporter{W: &got}
			for _, res := range runAll(parse(t, filepath.Base(name), string(data))) {
				if res.Passed() {
					t.Errorf("%q passes", res.Case.Name)
				}
				reporter.Report(res)
			}
			perduretest.Golden(t, strings.Replace(name, "_test.yaml", ".out", 1), took.ReplaceAllString(got.String(), "(took$1)\n"))
		})
	}
}
