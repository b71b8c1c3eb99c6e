package workflows_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// continuedScript plays a script until it is woken after a while, and gives the result
// of the execution after that, and its calls. prepare sets up the first one.
func continuedScript(t *testing.T, script string, after time.Duration, prepare func(*bench)) (output string, calls []string) {
	t.Helper()
	first := newBench(t, scripted(script, ""), `{}`, nil)
	if prepare != nil {
		prepare(first)
	}
	began := first.env.Now()
	first.suggest(after)
	first.env.RegisterDelayedCallback(func() { first.env.SignalWorkflow("wake", nil) }, after)
	second := newBench(t, scripted(script, ""), `{}`, nil)
	second.input = first.firstExecution()
	second.env.SetStartTime(began.Add(after))
	output, failure := second.run()
	if failure != nil {
		t.Fatalf("failed: %+v", failure.Error)
	}
	return output, second.calls
}

// Which functions of parallel had begun when one of them skipped the rest does
// not depend on the order in which the next execution reaches them.
func TestSkippedRestContinuesAsNew(t *testing.T) {
	t.Parallel()
	output, calls := continuedScript(t, `
def item(i):
    if i == 0:
        sleep("10m")
        return skip_rest("enough")
    sleep("4m")
    return echo(n=i)["n"]
r = map_parallel(item, [0, 1, 2, 3, 4, 5], max=2)
sleep("10h")
return r
`, time.Hour, nil)
	if want := `["enough",1,2,3,null,null]`; output != want || len(calls) > 0 {
		t.Errorf("got %s and calls %q, want %s", output, calls, want)
	}
}

// What failed first stays what a parallel failed with, and those that it stopped do not
// continue.
func TestFailedParallelContinuesAsNew(t *testing.T) {
	t.Parallel()
	output, calls := continuedScript(t, `
def late():
    sleep("20m")
    fail("late")
def early():
    sleep("10m")
    fail("early")
r = parallel([lambda: parallel([late, early])], on_error="collect")
d = parallel([lambda: parallel({"late": late, "first": lambda: 7, "early": lambda first: fail("early %d" % first)}, after={"early": ["first"]})], on_error="collect")
sleep("10h")
return [r[0].error.message, d[0].error.message]
`, time.Hour, nil)
	if diff := cmp.Diff(`["early","early 7"]`, output); diff != "" || len(calls) > 0 {
		t.Errorf("calls %s, output: %s", strings.Join(calls, ", "), diff)
	}
}
