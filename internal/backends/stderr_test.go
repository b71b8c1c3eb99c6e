package backends

import (
	"strings"
	"testing"
)

// TestStderrTail finds why programs ended, which they say before the stack.
func TestStderrTail(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ lines, want string }{
		"Node.js": {"node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\nError: Cannot find module '/x'\n    at Module._load (node:internal)\n  code: 'MODULE_NOT_FOUND',\n}\n\nNode.js v20.20.2",
			"Error: Cannot find module '/x'"},
		"Python":           {"Traceback (most recent call last):\n  File \"x\", line 1\nModuleNotFoundError: No module named 'y'", "ModuleNotFoundError: No module named 'y'"},
		"Go":               {"panic: assignment to entry in nil map\n\ngoroutine 1 [running]:\nmain.main()\n\t/x.go:3 +0x1d", "panic: assignment to entry in nil map"},
		"a long usage":     {"Error: no context is set\nUsage:\n" + strings.Repeat("--flag\n", 2*maxTrace), "Error: no context is set"},
		"a bare usage":     {"unknown flag --x\nUsage of server:\n" + strings.Repeat("-flag\n", 2*maxTrace), "unknown flag --x"},
		"argparse":         {"usage: server [-h] DIR\nserver: error: the following arguments are required: DIR", "server: error: the following arguments are required: DIR"},
		"long after":       {"Error: one\nUsage:\n" + strings.Repeat("listening\n", maxUsage+maxTrace) + "no such directory", "no such directory"},
		"no error":         {"usage: server DIR\n", "usage: server DIR"},
		"an earlier error": {"error: retrying\n" + strings.Repeat("listening\n", maxTrace+1) + "no such directory", "no such directory"},
		"two":              {"error: one\nerror: two\n  at x", "error: two"},
		"nothing":          {"\n", ""},
	} {
		var tail stderrTail
		for line := range strings.Lines(tc.lines) {
			tail.add(strings.TrimSpace(line))
		}
		if got := tail.last(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
