//go:build unix

package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

// What comes through a pipe, as <(…) gives it, can be read as often as a file.
func TestAttackConfigurationFromPipe(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("backends: [{name: a, url: http://127.0.0.1:1/mcp, transport: sse}]\n"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	name := fmt.Sprintf("/dev/fd/%d", r.Fd())
	text, err := ReadFile(name)
	if err != nil || !IsConfiguration(name, text) {
		t.Fatalf("%q is no configuration: %v", text, err)
	}
	found, diags := Load(Sources{Config: name})
	if len(diags) > 0 || len(found.Backends) != 1 {
		t.Errorf("%d backends, %v", len(found.Backends), diags)
	}
}

// A pipe that nobody writes to is refused, wherever it is named.
func TestAttackConfigurationFromNamedPipe(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "pipe.yaml")
	perduretest.NoError(t, syscall.Mkfifo(name, 0o600))
	if _, err := ReadFile(name); !errors.Is(err, errEndless) {
		t.Errorf("reading it: %v", err)
	}
	for _, src := range []Sources{{Config: name}, {Definitions: []string{name}}} {
		if _, diags := Load(src); !strings.Contains(fmt.Sprint(diags), "cannot be read: it is a pipe") {
			t.Errorf("%+v: %v", src, diags)
		}
	}
}

// What cannot be read in a directory is named itself.
func TestAttackUnreadableFileOfADirectory(t *testing.T) {
	t.Parallel()
	for kind, make := range map[string]func(file string) error{
		"a link to nothing": func(file string) error { return os.Symlink("nowhere.yaml", file) },
		"a pipe":            func(file string) error { return syscall.Mkfifo(file, 0o600) },
	} {
		dir := t.TempDir()
		bad := filepath.Join(dir, "below", "bad.yaml")
		perduretest.NoError(t, os.Mkdir(filepath.Dir(bad), 0o700))
		perduretest.NoError(t, make(bad))
		_, diags := Load(Sources{Definitions: []string{dir}})
		if len(diags) != 1 || diags[0].Pos.File != bad {
			t.Errorf("%s: %v", kind, diags)
		}
	}
}

// A file that is larger than any of definitions is not read, whatever size its file
// system reports, wherever it is named.
func TestAttackLargeFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "huge.yaml")
	perduretest.NoError(t, os.WriteFile(name, []byte("name: huge\n"), 0o600))
	if err := os.Truncate(name, 1<<40); err != nil { // takes no room
		t.Skip(err)
	}
	for _, src := range []Sources{{Config: name}, {Definitions: []string{name}}, {Definitions: []string{dir}}} {
		if _, diags := Load(src); !strings.Contains(fmt.Sprint(diags), "huge.yaml: cannot be read: it is larger than 8388608 bytes") {
			t.Errorf("%+v: %.300v", src, diags)
		}
	}
	if _, err := BesideFile(filepath.Join(dir, "a.yaml"))("huge.yaml"); err == nil {
		t.Error("a script was read from it")
	}
}
