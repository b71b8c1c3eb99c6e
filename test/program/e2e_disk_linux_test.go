package program_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/topology"
)

// TestFullDiskOfDev fills the disk of a dev: it is not ready and says so once, and
// is ready again when there is room.
func TestFullDiskOfDev(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	disk := filepath.Join(dir, "disk")
	perduretest.NoError(t, os.Mkdir(disk, 0o700))
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=32m"); err != nil {
		t.Skipf("no small disk can be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) }) // after the end of dev
	d := startDev(t, dir, "--data", filepath.Join(disk, "data"))

	filler := filepath.Join(disk, "filler")
	f := perduretest.Must(os.Create(filler))(t)
	defer f.Close()
	block := make([]byte, 4<<10)
	until(t, "dev not to be ready", func() bool {
		for { // it stays full when others give room
			if _, err := f.Write(block); err != nil {
				break
			}
		}
		return !ready(d.address)
	})
	if !topology.Answers("http://" + d.address + "/reachable")(t.Context()) {
		t.Error("dev cannot be reached")
	}
	perduretest.NoError(t, os.Remove(filler))
	f.Close()
	until(t, "dev to be ready", func() bool { return ready(d.address) })
	time.Sleep(2 * time.Second)
	for _, what := range []string{"Temporal is away", "Temporal is back"} {
		if n := strings.Count(d.output.String(), what); n != 1 {
			t.Errorf("dev says %d times that %s", n, what)
		}
	}
}
