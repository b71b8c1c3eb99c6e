package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"
)

// TestLimit finds the limit of each version of control groups, inside of a container
// and outside.
func TestLimit(t *testing.T) {
	t.Parallel()
	const none = "9223372036854771712\n"
	for name, tc := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no groups":                  {map[string]string{}, 0},
		"version 2 in a container":   {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1073741824\n"}, 1 << 30},
		"version 2 without a limit":  {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 0},
		"version 2, a unit":          {map[string]string{"proc/self/cgroup": "0::/system.slice/perdure.service\n", "sys/fs/cgroup/system.slice/perdure.service/memory.max": "2048\n", "sys/fs/cgroup/system.slice/memory.max": "max\n"}, 2048},
		"version 2, above it":        {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "4096\n", "sys/fs/cgroup/a/memory.max": "1024\n"}, 1024},
		"version 1":                  {map[string]string{"proc/self/cgroup": "4:cpu,memory:/a\n0::/\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "512\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": none}, 512},
		"version 1 in a container":   {map[string]string{"proc/self/cgroup": "4:memory:/docker/4711\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "512\n"}, 512},
		"version 1 without a limit":  {map[string]string{"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": none}, 0},
		"another controller":         {map[string]string{"proc/self/cgroup": "4:memoryless:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "512\n"}, 0},
		"version 2 beside version 1": {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/unified/a/memory.max": "512\n"}, 512},
		"odd": {map[string]string{"proc/self/cgroup": "\n:\n0::/../../a//b/\n4:memory\n", "sys/fs/cgroup/a/memory.max": "-7\n",
			"sys/fs/cgroup/memory.max": "99999999999999999999\n", "sys/fs/cgroup/a/b/memory.max": ""}, 0},
	} {
		root := fstest.MapFS{}
		for file, text := range tc.files {
			root[file] = &fstest.MapFile{Data: []byte(text)}
		}
		if got, ok := limit(root); got != tc.want || ok != (tc.want > 0) {
			t.Errorf("%s: %d, %t", name, got, ok)
		}
	}
}

// TestWithin leaves room beside Go's limit, in small containers more than a tenth.
func TestWithin(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for most, want := range map[int64]int64{1000 * mib: 900 * mib, 400 * mib: 360 * mib, 240 * mib: 200 * mib, 60 * mib: 30 * mib, 0: 0} {
		if got := within(most); got != want {
			t.Errorf("of %d MiB: %d, want %d", most/mib, got, want)
		}
	}
}

// TestMachine reads how much memory the machine has.
func TestMachine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"MemTotal:       1024 kB\nMemFree: 1 kB\n": 1 << 20, "MemTotal: x kB\n": 0, "MemTotal:\n": 0, "": 0, "MemTotal: -1 kB": -1024,
	} {
		if got := machine(fstest.MapFS{"proc/meminfo": {Data: []byte(text)}}); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// TestAdapt: a process has its part of its group's limit, or half of the machine's
// memory, unless GOMEMLIMIT says something else, and dev collects garbage when two thirds
// of the heap are garbage, unless GOGC says something else.
func TestAdapt(t *testing.T) {
	if os.Getenv("PERDURE_TEST_ADAPT") != "" {
		adaptMemory()
		collectLess()
		t.Logf("limit=%d gc=%d", debug.SetMemoryLimit(-1), debug.SetGCPercent(100))
		return
	}
	want := int64(math.MaxInt64)
	if most, ok := limit(os.DirFS("/")); ok {
		want = within(most)
	} else if all := machine(os.DirFS("/")); all > 0 {
		want = all / 2
	}
	for env, want := range map[string]string{
		"X=": fmt.Sprintf("limit=%d gc=200", want), "GOMEMLIMIT=123MiB": fmt.Sprintf("limit=%d gc=200", 123<<20), "GOGC=50": fmt.Sprintf("limit=%d gc=50", want),
	} {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestAdapt$", "-test.v")
		cmd.Env = append(os.Environ(), "PERDURE_TEST_ADAPT=1", env)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want+"\n") {
			t.Errorf("with %s, want %s: %v\n%s", env, want, err, out)
		}
	}
}
