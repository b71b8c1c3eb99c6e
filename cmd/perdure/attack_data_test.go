package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

// useDir has a data directory be that of a dev which runs for as long as the test.
func useDir(t *testing.T, dir string) {
	t.Helper()
	f := perduretest.Must(os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600))(t)
	t.Cleanup(func() { _ = f.Close() })
	perduretest.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
}

// TestAttackStaleDataDirectory has the directory of a dev that was killed, whose
// process ID another process has by now, and the copy of one that runs: a command
// that names either does nothing, though another server listens where the file says.
func TestAttackStaleDataDirectory(t *testing.T) {
	t.Parallel()
	running, copied, killed := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{running, copied, killed} {
		perduretest.NoError(t, (devFile{PID: os.Getpid(), MCP: "http://127.0.0.1:4483/mcp"}).write(dir))
	}
	useDir(t, running)
	perduretest.NoError(t, os.WriteFile(filepath.Join(copied, "lock"), []byte("1\n"), 0o600))
	if dev, err := dataDir(running).running(); dev == nil || err != nil {
		t.Errorf("where one runs: %v, %v", dev, err)
	}
	for _, dir := range []string{copied, killed} {
		if dev, err := dataDir(dir).running(); dev != nil || err == nil || !strings.Contains(err.Error(), "nothing was done") {
			t.Errorf("where none runs: %+v, %v", dev, err)
		}
	}
}
