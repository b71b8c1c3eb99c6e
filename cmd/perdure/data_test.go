package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

// A data directory is its user's alone, whoever has made it before; one that is
// shared is told of and left as it is.
func TestDataIsClosedToOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files []string
		mode  os.FileMode
		want  os.FileMode
		told  bool
	}{
		"new":        {mode: 0o755, want: 0o700},
		"of before":  {files: []string{"temporal.db", "temporal.db-wal", "registry.db"}, mode: 0o777, want: 0o700},
		"shared":     {files: []string{"others.txt"}, mode: 0o755, want: 0o755, told: true},
		"sticky":     {files: []string{"temporal.db"}, mode: 0o777 | os.ModeSticky, want: 0o777, told: true},
		"as it must": {files: []string{"temporal.db"}, mode: 0o700, want: 0o700},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		perduretest.NoError(t, os.Mkdir(dir, 0o700))
		for _, file := range c.files {
			path := filepath.Join(dir, file)
			write(t, path, "x")
			perduretest.NoError(t, os.Chmod(path, 0o644))
		}
		perduretest.NoError(t, os.Chmod(dir, c.mode))
		if open := restrictData(dir); slices.Contains(open, dir) != c.told || len(open) > 1 {
			t.Errorf("%s: told of %v", name, open)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != c.want {
			t.Errorf("%s: the directory is %v, %v", name, info.Mode(), err)
		}
		for _, file := range c.files {
			info, err := os.Stat(filepath.Join(dir, file))
			if private := file != "others.txt"; err != nil || (info.Mode().Perm() == 0o600) != private {
				t.Errorf("%s: %s is %v, %v", name, file, info.Mode(), err)
			}
		}
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	perduretest.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	perduretest.NoError(t, os.WriteFile(name, []byte(text), 0o644))
}
