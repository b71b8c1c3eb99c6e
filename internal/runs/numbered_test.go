package runs_test

import (
	"testing"

	"github.com/perdure/perdure/internal/runs"
)

// TestNumberedLines shows that a reader of a script sees each line of it, in the order
// in which it runs.
func TestNumberedLines(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"a = 1\n\tb()\n":                  "  1  a = 1\n  2  \tb()",
		"# harmless\rdelete()\r\nf()\n\n": "  1  # harmless\n  2  delete()\n  3  f()",
		"x = \"\u202e\u2066é\" # \u200b":  `  1  x = "[U+202E][U+2066]é" # [U+200B]`,
		"log('\x1b[2K\u2028')\U000e0041":  `  1  log('[U+001B][2K[U+2028]')[U+E0041]`,
	} {
		if got := runs.NumberedLines(script); got != want {
			t.Errorf("%q is shown as\n%s\nwant\n%s", script, got, want)
		}
	}
}
