package workflows_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/perdure/perdure/workflows"
)

// retry repeats nothing in which a call was left with an unknown outcome:
// one that parallel has stopped, at whatever depth, one whose
// failure the script has taken notice of, one of a called run.
func TestRetrySparesTheUnknown(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, script string
		calls        []string // in the order of their names
		underWay     int      // calls, when broken fails
		spared       bool
	}{
		{"a stopped write", `retry(lambda: parallel([lambda: write(n=1), lambda: broken()]), delay=0)`, []string{"broken", "write"}, 1, true},
		{"within another parallel", `retry(lambda: parallel([lambda: map_parallel(lambda n: write(n=n), [1, 2]), lambda: broken()]), delay=0)`, []string{"broken", "write", "write"}, 2, true},
		{"of an inner retry", `retry(lambda: retry(lambda: parallel({"a": lambda: write(), "b": lambda: broken()}), delay=0), delay=0)`, []string{"broken", "write"}, 1, true},
		{"collected and failed", "def f():\n    parallel([lambda: parallel([lambda: write(), lambda: broken()])], on_error=\"collect\")\n    fail(\"no\")\nretry(f, delay=0)", []string{"broken", "write"}, 1, true},
		{"taken notice of", "def f():\n    try_call_tool(\"lost\")\n    broken()\nretry(f, delay=0)", []string{"broken", "lost"}, 0, true},
		{"a called run that is stopped", `retry(lambda: parallel([lambda: call_workflow("callee"), lambda: broken()]), delay=0)`, nil, 1, true},
		{"a stopped read", `retry(lambda: parallel([lambda: read_slowly(), lambda: broken()]), delay=0)`, []string{"broken", "broken", "broken", "read_slowly", "read_slowly", "read_slowly"}, 1, false},
		{"a write that is done", "def f():\n    done()\n    broken()\nretry(f, delay=0)", []string{"broken", "broken", "broken", "done", "done", "done"}, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, scripted(test.script, "")+"---\n"+callee, `{}`, nil)
			forRetry(b, test.underWay)
			_, failure := b.run()
			if failure == nil {
				t.Fatal("it did not fail")
			}
			var calls []string
			for _, call := range b.calls {
				name, _, _ := strings.Cut(call, " ")
				calls = append(calls, name)
			}
			if slices.Sort(calls); test.calls != nil && !slices.Equal(calls, test.calls) {
				t.Errorf("calls %v, want %v", calls, test.calls)
			}
			if e := failure.Error; strings.Contains(e.Message, "it is not known whether") != test.spared || test.spared && e.Retryable {
				t.Errorf("it failed with %+v", e)
			}
			if unknown := failure.Effects != nil && len(failure.Effects.Unknown) > 0; unknown != test.spared {
				t.Errorf("the failure says of effects %+v", failure.Effects)
			}
		})
	}
}

// callee is a composite tool that writes.
const callee = "name: callee\ndescription: d\nscript: |\n  return write()\n"

// forRetry gives a bench tools that are under way until they are stopped, one that
// fails as soon as so many of these are, and one whose outcome is unknown.
func forRetry(b *bench, underWay int) {
	began, stopped := make(chan struct{}, 100), make(chan struct{}, 100)
	b.env.SetOnActivityCanceledListener(func(*activity.Info) { stopped <- struct{}{} })
	slowly := func(workflows.ToolCall) (string, error) {
		began <- struct{}{}
		<-stopped // at least one of them; the others are not waited for
		return `{}`, nil
	}
	broken := func(call workflows.ToolCall) (string, error) {
		for range underWay {
			<-began
		}
		return answerFails("no")(call)
	}
	b.tools = map[string]toolFunc{"broken": broken, "lost": answerLost, "write": slowly, "read_slowly": slowly}
}

// What retry has given up stays so when the run continues as new, though the call
// that was stopped is not reached any more.
func TestSparedRetryContinuesAsNew(t *testing.T) {
	t.Parallel()
	output, calls := continuedScript(t, `
r = parallel([lambda: retry(lambda: parallel([lambda: write(), lambda: broken()]), delay=0)], on_error="collect")
sleep("10h")
return [r[0].ok, r[0].error.retryable, r[0].error.message.count("it is not known whether")]
`, time.Hour, func(b *bench) { forRetry(b, 1) })
	if output != `[false,false,1]` || len(calls) > 0 {
		t.Errorf("got %s and calls %q", output, calls)
	}
}
