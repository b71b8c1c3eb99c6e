package starlark_test

import (
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/starlark"
)

// TestAttackForeign: what other languages have is explained in bounded time, however much
// of it a program has.
func TestAttackForeign(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a long line": "x = a" + strings.Repeat(" && a", 50_000),
		"many lines":  strings.Repeat("x = a && b\n", 20_000),
	} {
		_, ds := (&starlark.Language{}).Compile(starlark.Source{File: "a.star", Text: text}, starlark.Limits{})
		if len(ds) == 0 || len(ds) > 100 {
			t.Errorf("%s: %d diagnostics", name, len(ds))
		}
	}
}
