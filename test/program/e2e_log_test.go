package program_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/perduretest"
)

// TestLogThatNobodyReads has a dev log to a pipe that is full and that nobody reads: it
// starts, takes calls and ends.
func TestLogThatNobodyReads(t *testing.T) {
	t.Parallel()
	dir, address := t.TempDir(), freeAddress(t)
	putFile(t, filepath.Join(dir, "soon.yaml"), "name: soon\ndescription: Ends soon.\nsteps: [{id: wait, type: wait, for: 10ms}]\n")
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	perduretest.NoError(t, writer.SetWriteDeadline(time.Now().Add(200*time.Millisecond)))
	if _, err := writer.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("filling the pipe: %v", err)
	}
	cmd := program(t, dir, "dev", "--definitions", ".", "--listen", address, "--ui-listen", "", "--log-level", "debug")
	cmd.Stderr = writer
	perduretest.NoError(t, cmd.Start())
	writer.Close()
	t.Cleanup(func() { killGroup(cmd) })
	for _, args := range [][]string{{"ready", "--url", "http://" + address, "--wait", "1m"}, {"call", "soon", "--url", "http://" + address + endpoint}} {
		if out, err := program(t, dir, args...).CombinedOutput(); err != nil {
			t.Fatalf("perdure %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	perduretest.NoError(t, cmd.Process.Signal(os.Interrupt))
	watchdog := time.AfterFunc(patience, func() { killGroup(cmd) })
	defer watchdog.Stop()
	perduretest.NoError(t, cmd.Wait())
}
