package main

import (
	"io/fs"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// What of the control group's memory is left out of Go's limit: a tenth, and this at least.
// It is for what Go does not count (the program itself, mapped files of SQLite, C stacks),
// and for moments above the limit, which with values of 5 MB were 27 MB.
const leastRoom = 40 << 20

// adaptMemory sets Go's memory limit from that of the control group, unless GOMEMLIMIT
// is set, so that garbage is collected in time in a container. Without a control group
// that has one, it is half of the machine's memory.
func adaptMemory() {
	if _, said := os.LookupEnv("GOMEMLIMIT"); said {
		return
	}
	root := os.DirFS("/")
	if most, ok := limit(root); ok {
		debug.SetMemoryLimit(within(most))
	} else if all := machine(root); all > 0 {
		debug.SetMemoryLimit(all / 2)
	}
}

// within is Go's limit in a group that may have most.
func within(most int64) int64 { return max(most/2, min(most/10*9, most-leastRoom)) }

// collectLess lets the heap of dev grow to three times what lives before garbage is
// collected, within the memory limit, unless GOGC is set. The embedded Temporal makes much
// garbage: with Go's own twice, a run takes a tenth more processor time.
func collectLess() {
	if _, said := os.LookupEnv("GOGC"); !said {
		debug.SetGCPercent(200)
	}
}

// machine is the memory of the machine in bytes; 0 = not known. See proc_meminfo(5).
func machine(root fs.FS) int64 {
	text, _ := fs.ReadFile(root, "proc/meminfo") // on Linux
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "MemTotal:" {
			kilobytes, _ := strconv.ParseInt(fields[1], 10, 40) // 0 = none that could be
			return kilobytes << 10
		}
	}
	return 0
}

// unlimited is below the value for no limit of version 1, the largest multiple of the
// page size.
const unlimited = 1 << 60

// limit is the least limit of the process's control group and those around it, in bytes.
// See cgroups(7).
func limit(root fs.FS) (most int64, ok bool) {
	for _, file := range files(root) {
		text, err := fs.ReadFile(root, file)
		if err != nil {
			continue // no limit there, or a path of another namespace
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" = none
		if err == nil && n > 0 && n < unlimited && (!ok || n < most) {
			most, ok = n, true
		}
	}
	return most, ok
}

// files are where limits may be: of version 2, also beside version 1, and of version 1.
// A container may see the path of its group on the host; its own group is then above
// it.
func files(root fs.FS) []string {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	var files []string
	for line := range strings.Lines(string(groups)) { // ID:CONTROLLERS:PATH
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) != 3:
		case fields[1] == "":
			files = append(files, upwards("sys/fs/cgroup", fields[2], "memory.max")...)
			files = append(files, upwards("sys/fs/cgroup/unified", fields[2], "memory.max")...)
		case slices.Contains(strings.Split(fields[1], ","), "memory"):
			files = append(files, upwards("sys/fs/cgroup/memory", fields[2], "memory.limit_in_bytes")...)
		}
	}
	return files
}

// upwards is a file in the directory of a group and in those above.
func upwards(mount, group, file string) []string {
	var files []string
	for at := path.Clean("/" + group); ; at = path.Dir(at) {
		files = append(files, path.Join(mount, at, file))
		if at == "/" {
			return files
		}
	}
}
