package script_test

import (
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/starlark"
	"github.com/perdure/perdure/workflows/script"
)

// Long computing gives others a turn at the same places each time it is
// executed, whatever the clock says, and ends workflow tasks before they take
// too long.
func TestLongComputing(t *testing.T) {
	t.Parallel()
	p := compile(t, `
def compute(i):
    x = 0
    for j in range(40000):
        x = (x * 31 + i) % 1000003
    t_echo(i = i)
    for j in range(40000):
        x = (x * 31 + i) % 1000003
    t_echo(i = i, again = True)
    return x
return map_parallel(compute, range(6))
`)
	limits := script.Limits{Limits: starlark.Limits{Steps: 20_000_000, Memory: 1 << 30}}
	var first []string
	var result string
	for i := range 3 {
		host := &fake{delay: func(script.ToolCall) time.Duration { return 0 }}
		out, failure := execute(t, p, host, script.Input{Limits: limits})
		if failure != nil {
			t.Fatal(failure)
		}
		if i > 0 && (!slices.Equal(host.calls, first) || string(out) != result) {
			t.Errorf("time %d: %s\n%q\nwant %s\n%q", i, out, host.calls, result, first)
		}
		first, result = host.calls, string(out)
	}
}
