//go:build !nodev

package program_test

import (
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/workflows"
)

var (
	stopCases = flag.Int("stops", 48, "random runs that TestAttackStoppedRunsAtRandom stops")
	stopSeed  = flag.Uint64("stop", 0, "seed of the only one that it stops; 0 = all")
)

// stopsAtOnce is how many of them go on at a time: the machine is to be busy, and
// not to be late by itself.
const stopsAtOnce = 6

// Random runs of reads, writes, waits, questions, loops, scripts and called runs
// are stopped at random times, by a cancel or by their timeout. What arrives at the
// backend later than a bound after that undoes something; how the run has ended
// says what would be repeated; and its history replays.
func TestAttackStoppedRunsAtRandom(t *testing.T) {
	l := newStopLab(t)
	seeds := []uint64{*stopSeed}
	if *stopSeed == 0 {
		seeds = nil
		for seed := range uint64(*stopCases) {
			seeds = append(seeds, seed+1)
		}
	}
	var mu sync.Mutex
	var late []time.Duration
	defer func() {
		if slices.Sort(late); len(late) > 0 {
			t.Logf("the last write before a run ended: half of them up to %s after the run was stopped, all up to %s; %d of %d runs wrote after it",
				late[len(late)/2], late[len(late)-1], len(late), len(seeds))
		}
	}()
	t.Run("runs", func(t *testing.T) {
		turns := make(chan struct{}, stopsAtOnce)
		for _, seed := range seeds {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				turns <- struct{}{}
				defer func() { <-turns }()
				if d := l.stopAtRandom(t, seed); d > 0 {
					mu.Lock()
					late = append(late, d)
					mu.Unlock()
				}
			})
		}
	})
}

// stopAtRandom stops one random run, and says how long after that it has written.
func (l *stopLab) stopAtRandom(t *testing.T, seed uint64) time.Duration {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 13))
	name := fmt.Sprintf("random%d", seed)
	called := define(t, name+"below", randomFields(rnd, name, 3, ""))
	l.mu.Lock()
	l.called[called.Name] = called
	l.mu.Unlock()
	stop := 50*time.Millisecond + time.Duration(rnd.Int64N(int64(1500*time.Millisecond)))
	fields, timed := randomFields(rnd, name, 6, called.Name), rnd.IntN(2) == 0
	if timed {
		fields = fmt.Sprintf("timeout: %s, %s", stop, fields)
	}
	d := define(t, name, fields)
	id := l.start(t, d)
	stopped := time.Now().Add(stop)
	if !timed {
		time.Sleep(stop)
		perduretest.NoError(t, l.door.Cancel(t.Context(), id, "stop"))
		stopped = time.Now()
	}
	outcome := l.end(t, id)
	ended := time.Since(stopped)
	defer func() {
		if t.Failed() {
			t.Logf("repeat it with: cd test && go test ./program -run TestAttackStoppedRunsAtRandom -stop %d\n%s", seed, d.Source())
		}
	}()
	if ended > 2*stopBound && len(l.backend.of(name, "undo")) == 0 { // of the run, and of the one that it has called
		t.Errorf("the run went on for %s after it was stopped", ended)
	}
	last := time.Duration(0)
	for _, call := range l.backend.of(name, "write") {
		last = max(last, call.at.Sub(stopped))
	}
	if last > 2*stopBound {
		t.Errorf("it has written %s after it was stopped", last)
	}
	l.checkRepeated(t, name, outcome)
	l.replay(t, id)
	return last
}

// replay replays the history of a run, and of those that it has called.
func (l *stopLab) replay(t *testing.T, id runs.RunID) {
	t.Helper()
	history := &historypb.History{}
	events := l.temporal.GetWorkflowHistory(t.Context(), string(id), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event := perduretest.Must(events.Next())(t)
		history.Events = append(history.Events, event)
		if called := event.GetChildWorkflowExecutionStartedEventAttributes(); called != nil {
			l.replay(t, runs.RunID(called.GetWorkflowExecution().GetWorkflowId()))
		}
	}
	replayer := worker.NewWorkflowReplayer()
	workflows.Register(replayer, trust)
	d, err := l.temporal.DescribeWorkflowExecution(t.Context(), string(id), "")
	perduretest.NoError(t, err)
	x := d.WorkflowExecutionInfo.Execution // else the replayer takes a run that was reset for the one that was
	options := worker.ReplayWorkflowHistoryOptions{OriginalExecution: workflow.Execution{ID: x.WorkflowId, RunID: x.RunId}}
	if err := replayer.ReplayWorkflowHistoryWithOptions(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)), history, options); err != nil {
		t.Errorf("the history of %s does not replay: %v", id, err)
	}
}

// checkRepeated holds what a run says that would be repeated against what the
// backend has seen.
func (l *stopLab) checkRepeated(t *testing.T, name string, outcome *runs.Outcome) {
	t.Helper()
	f := outcome.Failure
	left := len(l.backend.of(name, "write")) - len(l.backend.of(name, "undo"))
	if f == nil || left == 0 {
		return
	}
	named := 0
	if f.Effects != nil {
		named = len(f.Effects.Unknown) + len(f.Effects.Completed) + f.Effects.More
	}
	if f.Error.Retryable || named < left {
		t.Errorf("%d writes are left; it says retryable: %t, and %s", left, f.Error.Retryable, f.Effects)
	}
}

// randomFields are those of a definition whose calls are told apart by a name.
func randomFields(rnd *rand.Rand, name string, most int, called string) string {
	return "steps: [" + strings.NewReplacer("OF", "arguments: {of: "+name+"}", "NAME", name).Replace(randomSteps(rnd, most, called)) + "]"
}

// randomSteps are steps of all kinds. One may call a run, unless there is none.
func randomSteps(rnd *rand.Rand, most int, called string) string {
	read := func() string { return fmt.Sprintf("read_%d", 5+rnd.IntN(1200)) }
	write := func() string { return fmt.Sprintf("write_%d", 1+rnd.IntN(150)) }
	var list []string
	for i := range 2 + rnd.IntN(most) {
		id := fmt.Sprintf("s%d", i)
		step := ""
		switch rnd.IntN(9) {
		case 0, 1:
			step = fmt.Sprintf("tool: %s, OF", read())
		case 2:
			step = fmt.Sprintf("tool: %s, OF", write())
		case 3:
			step = fmt.Sprintf("tool: %s, OF, compensate: {tool: undo_1, OF}", write())
		case 4:
			step = fmt.Sprintf("type: wait, for: %dms", 1+rnd.IntN(700))
		case 5:
			tool := []string{read(), fmt.Sprintf("read_%d", 1+rnd.IntN(60)), write()}[rnd.IntN(3)]
			step = fmt.Sprintf("type: forEach, collection: '[1,2,3,4,5,6,7,8,9]', maxParallel: %d, step: {tool: %s, OF}", 1+rnd.IntN(3), tool)
		case 6:
			step = fmt.Sprintf("type: elicitation, message: m, timeout: %dms, onCancel: {action: continue}", 1+rnd.IntN(900))
		case 7:
			step = fmt.Sprintf(`type: script, script: "%s"`, randomScript(rnd, read, write))
		case 8:
			if step = "type: workflow, workflow: " + called; called == "" {
				step = fmt.Sprintf("tool: %s, OF", read())
			}
		}
		if i > 0 && rnd.IntN(3) > 0 {
			step += fmt.Sprintf(", dependsOn: [s%d]", rnd.IntN(i))
		}
		list = append(list, "{id: "+id+", "+step+"}")
	}
	return strings.Join(list, ", ")
}

// randomScript reads, writes and goes on after what was not in time.
func randomScript(rnd *rand.Rand, read, write func() string) string {
	const of = "(of='NAME')"
	lines := []string{"def f():"}
	for range 1 + rnd.IntN(4) {
		lines = append(lines, "    "+[]func() string{read, read, write}[rnd.IntN(3)]()+of)
	}
	lines = append(lines, fmt.Sprintf("attempt(lambda: within('%dms', f))", 100+rnd.IntN(900)))
	if rnd.IntN(2) == 0 {
		lines = append(lines, fmt.Sprintf("parallel([lambda: %s%s, lambda: %s%s])", read(), of, write(), of))
	}
	return strings.Join(append(lines, write()+of), `\n`) + `\n`
}
