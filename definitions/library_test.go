package definitions_test

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
)

// Every definition of library is embedded, and has a test.
func TestLibraryFiles(t *testing.T) {
	t.Parallel()
	found := perduretest.Must(filepath.Glob("library/*.yaml"))(t)
	var want, tests []string
	for _, name := range found {
		name = filepath.Base(name)
		if test, isTest := strings.CutSuffix(name, "_test.yaml"); isTest {
			tests = append(tests, test+".yaml")
		} else {
			want = append(want, name)
		}
	}
	entries := perduretest.Must(fs.ReadDir(definitions.Library(), "."))(t)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("embedded, - is missing in library.go: %s", diff)
	}
	if diff := cmp.Diff(want, tests); diff != "" {
		t.Errorf("definitions with tests, - has none: %s", diff)
	}
}
