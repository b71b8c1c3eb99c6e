// Package counts has the tests that count what runs cost: requests to Temporal,
// history, coroutines and the resuming of these, and allocations. They use no clock, so
// they find on any machine what makes runs dearer.
package counts_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/secrets"
	"github.com/perdure/perdure/workflows"
)

type mcpMux map[string]http.Handler

func (m mcpMux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h, ok := m[r.URL.Path]; ok {
		h.ServeHTTP(w, r)
		return
	}
	http.NotFound(w, r)
}

// A count is what one run of a shape takes.
type count struct {
	Requests   map[string]int `json:"requests"`   // to Temporal, by method; those that poll for tasks left out
	Events     int            `json:"events"`     // of history
	Bytes      int            `json:"bytes"`      // of history
	Coroutines int            `json:"coroutines"` // that are started
	Passes     int            `json:"passes"`     // in which each that is alive is resumed once
	Yields     int            `json:"yields"`     // of coroutines, in all passes
	Allocs     int            `json:"allocs"`     // of memory, of a replay
}

// figures are those of a count by name.
func (c count) figures() map[string]int {
	all := map[string]int{"events": c.Events, "bytes": c.Bytes, "coroutines": c.Coroutines, "passes": c.Passes, "yields": c.Yields, "allocs": c.Allocs}
	for method, n := range c.Requests {
		all["requests "+method] = n
	}
	return all
}

const baseline = "testdata/baseline.json"

// shapes are those of testdata/shapes.yaml.
var shapes = []string{"one_step", "three_parallel", "chain_of_5", "chain_script", "foreach", "foreach_script", "approval"}

// TestRunsCost compares what runs take with what they took when testdata/baseline.json
// was written. Where they take more, and are meant to, -update writes it anew.
func TestRunsCost(t *testing.T) {
	h := open(t, "")
	now := map[string]count{}
	for _, shape := range shapes {
		for _, backend := range []string{"unsafe", "reads"} {
			now[backend+"_"+shape] = h.count(t, h.client, backend+"_"+shape, nil, 10)
		}
	}

	now["modern_approval"] = h.count(t, h.modern, "unsafe_approval", nil, 10)
	if *perduretest.Update {
		written, err := json.MarshalIndent(now, "", "  ")
		if err == nil {
			err = os.WriteFile(baseline, append(written, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	before := map[string]count{}
	read, err := os.ReadFile(baseline)
	if err == nil {
		err = json.Unmarshal(read, &before)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, shape := range slices.Sorted(maps.Keys(now)) {
		compare(t, shape, before[shape], now[shape])
	}
}

// compare fails for each figure that has grown by more than its tolerance.
func compare(t *testing.T, shape string, before, now count) {
	t.Helper()
	was := before.figures()
	figures := now.figures()
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		if most := allowed(name, was[name]); figures[name] > most {
			t.Errorf("%s: %d %s for a run, at most %d expected (baseline %d)", shape, figures[name], name, most, was[name])
		}
	}
}

// allowed is how much of something a run may take that took so much of it before. How
// many workflow tasks a run has depends on how busy the machine is.
func allowed(name string, before int) int {
	switch name {
	case "coroutines":
		return before
	case "bytes", "allocs":
		return before * 11 / 10
	}
	return before*5/4 + 1
}

// count makes some calls of a composite tool, and counts what one takes.
func (h *house) count(t *testing.T, by *client.Client, tool string, arguments map[string]any, calls int) count {
	t.Helper()
	for range 2 {
		h.call(t, by, tool, arguments)
	}
	var all []count
	for range calls {
		h.meter.reset()
		h.call(t, by, tool, arguments)
		requests, took, last := h.meter.read()
		history := h.history(t, last)
		all = append(all, count{
			Requests: requests, Events: len(history.Events), Bytes: proto.Size(history),
			Coroutines: took.coroutines, Passes: took.passes, Yields: took.yields, Allocs: allocations(t, history),
		})
	}
	c := typical(all)
	t.Logf("%s: %s", tool, shown(c))
	return c
}

// typical is the median of each figure, without what happens now and then; of requests the
// least, since those that wait for something ask again where the machine is busy.
func typical(all []count) count {
	sorted := func(of func(count) int) []int {
		var figures []int
		for _, c := range all {
			figures = append(figures, of(c))
		}
		slices.Sort(figures)
		return figures
	}
	median := func(of func(count) int) int { return sorted(of)[len(all)/2] }
	c := count{
		Requests: map[string]int{},
		Events:   median(func(c count) int { return c.Events }), Bytes: median(func(c count) int { return c.Bytes }),
		Coroutines: median(func(c count) int { return c.Coroutines }), Passes: median(func(c count) int { return c.Passes }),
		Yields: median(func(c count) int { return c.Yields }), Allocs: median(func(c count) int { return c.Allocs }),
	}
	for method := range all[0].Requests {
		if n := sorted(func(c count) int { return c.Requests[method] })[0]; n > 0 {
			c.Requests[method] = n
		}
	}
	return c
}

func shown(c count) string {
	data, err := json.Marshal(c)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func (h *house) history(t *testing.T, of workflow.Execution) *historypb.History {
	t.Helper()
	history := &historypb.History{}
	for events := h.temporal.GetWorkflowHistory(t.Context(), of.ID, of.RunID, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
		e := perduretest.Must(events.Next())(t)
		history.Events = append(history.Events, e)
	}
	return history
}

// allocations are those of a replay of a run.
func allocations(t *testing.T, history *historypb.History) int {
	t.Helper()
	keys := perduretest.Must(secrets.NewKeys(secrets.FixedKeys([]byte("counts"))))(t)
	replayer := perduretest.Must(worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{Interceptors: []interceptor.WorkerInterceptor{workflows.InPlace()}}))(t)
	workflows.Register(replayer, workflows.Trust{Keys: keys})
	return int(testing.AllocsPerRun(1, func() {
		perduretest.NoError(t, replayer.ReplayWorkflowHistory(quiet, history))
	}))
}

// TestRunsCostInProportion counts that a loop costs as much for its last item as for its
// first, and a graph for its last step.
func TestRunsCostInProportion(t *testing.T) {
	h := open(t, chain(10)+chain(100))
	for _, grown := range []struct {
		name string
		cost func(n int) count
		n    []int
	}{
		{"items of a loop", func(n int) count { return h.count(t, h.client, "reads_foreach", map[string]any{"n": n}, 1) }, []int{50, 200, 1000}},
		{"steps of a graph", func(n int) count { return h.count(t, h.client, fmt.Sprint("chain_", n), nil, 1) }, []int{10, 100}},
	} {
		few := grown.cost(grown.n[0])
		for _, n := range grown.n[1:] {
			many, times := grown.cost(n), n/grown.n[0]
			for name, figure := range map[string][2]int{"yields": {few.Yields, many.Yields}, "passes": {few.Passes, many.Passes}, "allocs": {few.Allocs, many.Allocs}} {
				if 2*figure[1] > 3*times*figure[0] {
					t.Errorf("%d %s: %d %s, %d for %d", n, grown.name, figure[1], name, figure[0], grown.n[0])
				}
			}
		}
	}
}

// chain is a composite tool with so many steps, one after the other.
func chain(n int) string {
	text := fmt.Sprintf("  - name: chain_%d\n    description: a chain\n    steps:\n      - {id: s1, tool: reads_echo, arguments: {message: hi}}\n", n)
	for i := 2; i <= n; i++ {
		text += fmt.Sprintf("      - {id: s%d, tool: reads_echo, arguments: {message: '{{.steps.s%d.output.message}}'}}\n", i, i-1)
	}
	return text
}
