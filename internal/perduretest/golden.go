// Package perduretest is what tests of several packages share: files with what is
// wanted, and an identity provider.
package perduretest

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Update is the flag -update: tests write what they get into their files.
var Update = flag.Bool("update", false, "write what tests get into their files")

// Golden compares got with a file, or writes the file with -update.
func Golden(t *testing.T, file, got string) {
	t.Helper()
	if *Update {
		NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	if diff := cmp.Diff(string(Read(t, file)), got); diff != "" {
		t.Errorf("%s (-want +got, -update takes it over):\n%s", file, diff)
	}
}

// Read is the content of a file.
func Read(t testing.TB, file string) []byte {
	t.Helper()
	return Must(os.ReadFile(file))(t)
}

// Files are the files that match a pattern. At least one must match.
func Files(t testing.TB, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	return files
}

// AddFiles gives a fuzz test the files that match the patterns as seeds. Each pattern
// must match some.
func AddFiles(f *testing.F, patterns ...string) {
	f.Helper()
	for _, pattern := range patterns {
		for _, file := range Files(f, pattern) {
			f.Add(Read(f, file))
		}
	}
}

// Must is the value of a call, if it did not fail: perduretest.Must(os.Getwd())(t).
func Must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		NoError(t, err)
		return value
	}
}

// NoError fails the test if something did not work that must.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
