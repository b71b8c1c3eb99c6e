package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/store"
)

// TestAnswersFile: the next process knows which runs were answered, the last ones of
// many, and takes a line for nothing that was not written to its end.
func TestAnswersFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "answers")
	first := openAnswers(t, path)
	note := func(a *store.AnswersFile, run string, answered bool) {
		t.Helper()
		perduretest.NoError(t, a.Note(run, answered))
	}
	note(first, "a/1", true)
	note(first, "a/2", true)
	note(first, "a/2", false)
	if first.Answered("a/1") {
		t.Error("a run of this process counts as one of the process before")
	}
	file := perduretest.Must(os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0))(t)
	if _, err := file.WriteString("+a/3"); err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	second := openAnswers(t, path)
	for run, want := range map[string]bool{"a/1": true, "a/2": false, "a/3": false, "a/4": false} {
		if got := second.Answered(run); got != want {
			t.Errorf("answered %s: %v, want %v", run, got, want)
		}
	}
	const many = 100_000
	for i := range many {
		note(second, fmt.Sprintf("many/%040d", i), true)
	}
	third := openAnswers(t, path)
	for i := many - 15_000; i < many; i++ {
		if !third.Answered(fmt.Sprintf("many/%040d", i)) {
			t.Fatalf("run %d of %d is forgotten", i, many)
		}
	}
	for _, part := range []string{path, path + ".older"} {
		if info, err := os.Stat(part); err != nil || info.Size() > 1<<20+100 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %+v, %v", part, info, err)
		}
	}
}

func openAnswers(t *testing.T, path string) *store.AnswersFile {
	t.Helper()
	a := perduretest.Must(store.OpenAnswersFile(path))(t)
	t.Cleanup(func() { _ = a.Close() })
	return a
}
