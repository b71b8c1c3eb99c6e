//go:build !nodev

package program_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/activities"
	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// stopBound is how late it may be noticed that a run was stopped: half a second
// that a workflow task of reads lasts, and what a machine adds.
const stopBound = 1200 * time.Millisecond

// promptly checks that something is no later than it may be, by what it says
// itself. A busy machine is late now and then, a defect each time: so what is late
// is tried again, by another name.
func promptly(t *testing.T, name string, bound time.Duration, try func(t *testing.T, name string) time.Duration) {
	t.Helper()
	var late []time.Duration
	for n := range 5 {
		took := try(t, fmt.Sprintf("%s%d", name, n))
		if t.Failed() || took <= bound {
			return
		}
		late = append(late, took)
	}
	t.Errorf("it was late each time, by %s; it may be by %s", late, bound)
}

// A timedBackend takes as long for a call as the tool's name says in milliseconds
// (read_100, write_20), and notes when each call has come, by the argument "of".
type timedBackend struct {
	mu    sync.Mutex
	calls map[string][]timedCall
	came  *sync.Cond

	next  activities.Caller // that makes the calls instead; nil = none
	ended chan struct{}     // gets the end of each call that this has made
}

type timedCall struct {
	tool string
	at   time.Time
}

func newTimedBackend() *timedBackend {
	b := &timedBackend{calls: map[string][]timedCall{}, ended: make(chan struct{}, 100)}
	b.came = sync.NewCond(&b.mu)
	return b
}

func (b *timedBackend) Call(ctx context.Context, call backends.Call) (*backends.Result, error) {
	var args struct {
		Of string `json:"of"`
	}
	if err := json.Unmarshal(call.Arguments, &args); err != nil {
		return nil, &backends.CallError{Backend: call.Backend, Tool: call.Tool, Outcome: backends.Refused, Err: err}
	}
	if b.next == nil {
		if err := call.MaySend(ctx); err != nil {
			return nil, &backends.CallError{Backend: call.Backend, Tool: call.Tool, Outcome: backends.NotSent, Err: err}
		}
	}
	b.mu.Lock()
	b.calls[args.Of] = append(b.calls[args.Of], timedCall{call.Tool, time.Now()})
	b.came.Broadcast()
	b.mu.Unlock()
	if b.next != nil {
		defer func() { b.ended <- struct{}{} }()
		return b.next.Call(ctx, call)
	}
	if strings.HasPrefix(call.Tool, "readlater") {
		return nil, &backends.CallError{Backend: call.Backend, Tool: call.Tool, Outcome: backends.NotSent, Away: true, RetryAfter: time.Second, Err: errors.New("busy")}
	}
	var ms int
	_, _ = fmt.Sscan(call.Tool[strings.IndexByte(call.Tool, '_')+1:], &ms)
	select {
	case <-time.After(time.Duration(ms) * time.Millisecond):
	case <-ctx.Done():
		return nil, &backends.CallError{Backend: call.Backend, Tool: call.Tool, Outcome: backends.Unknown, Err: context.Cause(ctx)}
	}
	if strings.HasPrefix(call.Tool, "fail") {
		return &backends.Result{IsError: true, Content: []backends.Content{{Type: "text", Text: "planned failure"}}}, nil
	}
	return &backends.Result{Structured: call.Arguments}, nil
}

// of are the calls of a run so far whose tools begin so, in the order of arrival.
func (b *timedBackend) of(name, prefix string) []timedCall {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.calls[name]), func(c timedCall) bool { return !strings.HasPrefix(c.tool, prefix) })
}

// await waits for a call of a run.
func (b *timedBackend) await(name, prefix string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !slices.ContainsFunc(b.calls[name], func(c timedCall) bool { return strings.HasPrefix(c.tool, prefix) }) {
		b.came.Wait()
	}
}

// A stopLab has a Temporal, a worker and a backend that tells when it was called.
type stopLab struct {
	temporal client.Client
	door     *runs.Client
	backend  *timedBackend
	worker   worker.Worker

	mu     sync.Mutex
	called map[string]*definitions.Definition
}

func newStopLab(t *testing.T) *stopLab {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	l := &stopLab{temporal: startTemporal(t, quiet), backend: newTimedBackend(), called: map[string]*definitions.Definition{}}
	l.door = runs.New(runs.Config{Keys: testKeys, Client: l.temporal, Namespace: "default", Logger: quiet})
	l.work(t)
	return l
}

// work starts a worker, after the one before was stopped.
func (l *stopLab) work(t *testing.T) {
	t.Helper()
	l.worker = worker.New(l.temporal, workflows.TaskQueue, worker.Options{MaxHeartbeatThrottleInterval: time.Second, Interceptors: []interceptor.WorkerInterceptor{workflows.InPlace()}})
	workflows.Register(l.worker, trust)
	activities.Register(l.worker, activities.New(l.backend, slog.New(slog.DiscardHandler), activities.Options{
		CatchUp: l.door.CatchUp, CallBeforeReset: l.door.CallHistory().CallBeforeReset, Resolve: l.resolve, Outcome: l.door.ChildOutcome, Latest: l.door.Latest, TimesAnew: l.door.CallHistory().TimesAnew,
		UndoneSteps: l.door.CallHistory().UndoneSteps,
	}))
	perduretest.NoError(t, l.worker.Start())
	t.Cleanup(l.worker.Stop)
}

func (l *stopLab) resolve(_ context.Context, ref workflows.DefinitionRef) (found workflows.ResolvedDefinition, err error) {
	l.mu.Lock()
	d := l.called[ref.Workflow]
	l.mu.Unlock()
	if d == nil {
		return found, activities.ErrNoDefinition
	}
	found.Definition = workflows.Pinned{Name: d.Name, Digest: d.Digest(), Source: d.Source()}
	found.Tools = timedTools(d)
	return found, nil
}

// timedTools are the tools of a definition, of the class that their names say.
func timedTools(d *definitions.Definition) map[string]definitions.Tool {
	tools := map[string]definitions.Tool{}
	for _, name := range d.ToolNames() {
		effect := definitions.Unsafe
		if strings.HasPrefix(name, "read") {
			effect = definitions.Read
		}
		tools[name] = definitions.Tool{Name: name, Backend: "be", Original: name, Effect: effect}
	}
	return tools
}

// define reads a definition. SELF stands in it for its name, and OF for the
// argument that says it, by which its calls are told apart.
func define(t *testing.T, name, fields string) *definitions.Definition {
	t.Helper()
	fields = strings.ReplaceAll(fields, "SELF", name)
	source := fmt.Sprintf("{name: %s, description: d, %s}", name, strings.ReplaceAll(fields, "OF", "arguments: {of: "+name+"}"))
	if strings.HasPrefix(fields, "script:") {
		source = fmt.Sprintf("name: %s\ndescription: d\n%s", name, strings.ReplaceAll(fields, "OF", fmt.Sprintf("of=%q", name)))
	}
	defs, diags := definitions.Parse("stops.yaml", []byte(source))
	if err := diags.Err(); err != nil {
		t.Fatalf("%s\n%s", err, source)
	}
	return defs[0]
}

func (l *stopLab) start(t *testing.T, d *definitions.Definition) runs.RunID {
	t.Helper()
	started, err := l.door.Start(t.Context(), runs.StartRequest{Definition: d, Arguments: json.RawMessage(`{}`), Tools: timedTools(d)})
	if err != nil {
		t.Fatal(err)
	}
	return started.ID
}

func (l *stopLab) end(t *testing.T, id runs.RunID) *runs.Outcome {
	t.Helper()
	var seq int64
	return nextEvent(t, l.door, id, &seq, runs.EventDone).Outcome
}

// chainOf is a chain of steps that call a tool, and then one that writes.
func chainOf(n int, tool string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{id: s%d, tool: %s, OF", i, tool)
		if i > 0 {
			fmt.Fprintf(&b, ", dependsOn: [s%d]", i-1)
		}
		b.WriteString("}, ")
	}
	return fmt.Sprintf("%s{id: w, tool: write_1, OF, dependsOn: [s%d]}", b.String(), n-1)
}

// A run that was told to stop while it reads sends nothing after that.
func TestAttackStoppedRunWhileItReads(t *testing.T) {
	t.Parallel()
	l := newStopLab(t)
	for name, fields := range map[string]string{
		"chain":     "steps: [" + chainOf(5, "read_1500") + "]",
		"quick":     "steps: [" + chainOf(60, "read_40") + "]",
		"each":      "steps: [{id: e, type: forEach, collection: '[1,2,3,4,5,6,7,8,9]', maxParallel: 1, step: {tool: read_200, OF}}, {id: w, tool: write_1, OF, dependsOn: [e]}]",
		"scripted":  "script: |\n  for i in range(30):\n      read_100(OF)\n  write_1(OF)\n",
		"computing": "script: |\n  read_1(OF)\n  n = 0\n  for i in range(3000000):\n      n += i\n  write_1(OF)\n",
		"beside":    "steps: [{id: r, tool: read_1900, OF}, {id: q, tool: read_900, OF}, {id: w, tool: write_1, OF, dependsOn: [q]}]",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			promptly(t, name, stopBound, func(t *testing.T, name string) time.Duration {
				id := l.start(t, define(t, name, fields))
				l.backend.await(name, "read")
				perduretest.NoError(t, l.door.Cancel(t.Context(), id, "stop"))
				cancelled := time.Now()
				outcome := l.end(t, id)
				took := time.Since(cancelled)
				if outcome.Status != runs.Cancelled || len(l.backend.of(name, "write")) > 0 {
					t.Errorf("the run is %s, and has written %d times", outcome.Status, len(l.backend.of(name, "write")))
				}
				return took
			})
		})
	}
}

// A run that was told to stop in the workflow task in which the pause of a read is over does
// not schedule the read.
func TestAttackStoppedRunWhileItPauses(t *testing.T) {
	t.Parallel()
	l := newStopLab(t)
	id := l.start(t, define(t, "pausing", "steps: [{id: r, tool: readlater_1, OF}]"))
	until(t, "the run to pause", func() bool { // one timer is that of the run's time
		started := slices.DeleteFunc(l.events(t, id), func(kind enums.EventType) bool { return kind != enums.EVENT_TYPE_TIMER_STARTED })
		return len(started) == 2
	})
	l.worker.Stop()
	until(t, "the pause to be over", func() bool { return slices.Contains(l.events(t, id), enums.EVENT_TYPE_TIMER_FIRED) })
	perduretest.NoError(t, l.door.Cancel(t.Context(), id, "stop"))
	l.work(t)
	if outcome := l.end(t, id); outcome.Status != runs.Cancelled {
		t.Errorf("the run is %s", outcome.Status)
	}
	if events := l.events(t, id); slices.Contains(events, enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED) {
		t.Errorf("its history is %v", events)
	}
}

// events are the kinds of the events in the history of a run.
func (l *stopLab) events(t *testing.T, id runs.RunID) (kinds []enums.EventType) {
	t.Helper()
	history := l.temporal.GetWorkflowHistory(t.Context(), string(id), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		e := perduretest.Must(history.Next())(t)
		kinds = append(kinds, e.EventType)
	}
	return kinds
}

// Times that are over while a run reads end what they are for, and nothing more
// is sent.
func TestAttackStoppedRunOutOfTime(t *testing.T) {
	t.Parallel()
	l := newStopLab(t)
	for name, tc := range map[string]struct {
		fields string
		limit  time.Duration
		code   string
	}{
		"run":         {"timeout: 1s, steps: [" + chainOf(5, "read_1500") + "]", time.Second, "run_timeout"},
		"quick":       {"timeout: 1s, steps: [" + chainOf(60, "read_40") + "]", time.Second, "run_timeout"},
		"script":      {"steps: [{id: s, type: script, timeout: 1s, OF, script: \"for i in range(60):\\n    read_100(of='SELF')\\nwrite_1(of='SELF')\\n\"}]", time.Second, "step_timeout"},
		"each":        {"steps: [{id: e, type: forEach, timeout: 1s, collection: '[1,2,3,4,5,6,7,8,9]', maxParallel: 2, step: {tool: read_900, OF}}, {id: w, tool: write_1, OF, dependsOn: [e]}]", time.Second, "step_timeout"},
		"step":        {"steps: [{id: r, tool: read_9000, OF, timeout: 2500ms}, {id: w, tool: write_1, OF, dependsOn: [r]}]", 2500 * time.Millisecond, "step_timeout"},
		"item":        {"steps: [{id: e, type: forEach, collection: '[1,2]', step: {tool: read_9000, OF, timeout: 2500ms}}, {id: w, tool: write_1, OF, dependsOn: [e]}]", 2500 * time.Millisecond, "step_timeout"},
		"within":      {"script: |\n  def reads():\n      for i in range(60):\n          read_100(OF)\n      write_1(OF)\n  within(\"1s\", reads)\n", time.Second, "step_timeout"},
		"withinSlow":  {"script: |\n  def reads():\n      read_1900(OF)\n      write_1(OF)\n  within(\"1s\", reads)\n", time.Second, "step_timeout"},
		"approval":    {"steps: [{id: g, type: elicitation, message: m, timeout: 1s}, " + chainOf(60, "read_40") + "]", time.Second, "elicitation_timeout"},
		"runOfScript": {"script: |\n  for i in range(60):\n      read_100(OF)\n  write_1(OF)\ntimeout: 1s\n", time.Second, "run_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			promptly(t, name, stopBound, func(t *testing.T, name string) time.Duration {
				began := time.Now()
				outcome := l.end(t, l.start(t, define(t, name, tc.fields)))
				took := time.Since(began)
				if took < tc.limit {
					t.Errorf("it ended after %s; its time was %s", took, tc.limit)
				}
				if outcome.Failure == nil || string(outcome.Failure.Error.Code) != tc.code || len(l.backend.of(name, "write")) > 0 {
					t.Errorf("it ended with %+v, and has written %d times", outcome.Failure, len(l.backend.of(name, "write")))
				}
				return took - tc.limit
			})
		})
	}
}

// What comes out of a branch does not wait for the reads of another one.
func TestAttackStoppedRunIsNotLate(t *testing.T) {
	t.Parallel()
	l := newStopLab(t)
	t.Run("question", func(t *testing.T) {
		t.Parallel()
		promptly(t, "question", stopBound, func(t *testing.T, name string) time.Duration {
			began := time.Now()
			id := l.start(t, define(t, name, "steps: [{id: g, type: elicitation, message: m}, "+chainOf(60, "read_100")+"]"))
			var seq int64
			opened := nextEvent(t, l.door, id, &seq, runs.EventOpened)
			asked := time.Since(began)
			answered := time.Now()
			if _, err := l.door.Answer(t.Context(), id, runs.Answer{ElicitationID: opened.Elicitation.ID, Action: "decline", By: "ada"}); err != nil {
				t.Fatal(err)
			}
			if outcome := l.end(t, id); outcome.Failure == nil || outcome.Failure.Error.Code != "declined" {
				t.Errorf("after the answer it ended with %+v", outcome.Failure)
			}
			return max(asked, time.Since(answered))
		})
	})
	for name, fields := range map[string]string{
		"timer":  "steps: [{id: p, type: wait, for: 1s}, {id: x, tool: write_1, OF, dependsOn: [p]}, " + chainOf(40, "read_100") + "]",
		"write":  "steps: [{id: p, tool: read_900, OF}, {id: x, tool: write_1, OF, dependsOn: [p]}, " + chainOf(40, "read_100") + "]",
		"pauses": "script: |\n  def pauses():\n      sleep(\"1s\")\n      write_1(OF)\n  def reads():\n      for i in range(40):\n          read_100(OF)\n  parallel([pauses, reads])\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			promptly(t, name, stopBound, func(t *testing.T, name string) time.Duration {
				began := time.Now()
				id := l.start(t, define(t, name, fields))
				l.backend.await(name, "write")
				late := time.Since(began) - time.Second
				perduretest.NoError(t, l.door.Cancel(t.Context(), id, "seen enough"))
				l.end(t, id)
				return late
			})
		})
	}
}

// Runs that a stopped run has called send nothing either.
func TestAttackStoppedRunStopsThoseItCalled(t *testing.T) {
	t.Parallel()
	l := newStopLab(t)
	l.called["inner"] = define(t, "inner", "steps: ["+strings.ReplaceAll(chainOf(60, "read_40"), "OF", "arguments: {of: below}")+"]")
	l.called["middle"] = define(t, "middle", "steps: [{id: c, type: workflow, workflow: inner}]")
	for name, fields := range map[string]string{
		"graph":  "steps: [{id: c, type: workflow, workflow: middle}, " + chainOf(60, "read_40") + "]",
		"timed":  "timeout: 2s, steps: [{id: c, type: workflow, workflow: middle}, " + chainOf(60, "read_40") + "]",
		"script": "script: |\n  call_workflow(\"middle\")\n  write_1(OF)\n",
	} {
		t.Run(name, func(t *testing.T) {
			bound := 3 * stopBound // of the run, and of each that it has called
			promptly(t, name, bound, func(t *testing.T, name string) time.Duration {
				began := time.Now()
				id := l.start(t, define(t, name, fields))
				l.backend.await("below", "read")
				stopped := began.Add(2 * time.Second)
				if !strings.HasPrefix(fields, "timeout:") {
					perduretest.NoError(t, l.door.Cancel(t.Context(), id, "stop"))
					stopped = time.Now()
				}
				l.end(t, id)
				took := time.Since(stopped)
				if n := len(l.backend.of(name, "write")) + len(l.backend.of("below", "write")); n > 0 {
					t.Errorf("it has written %d times", n)
				}
				l.backend.mu.Lock()
				delete(l.backend.calls, "below")
				l.backend.mu.Unlock()
				return took
			})
		})
	}
}

// A run that is terminated at Temporal tells the runs that it called nothing. They send
// nothing either, until a resumption takes them up.
func TestAttackTerminatedRunAbove(t *testing.T) {
	t.Parallel()
	for depth, calls := range []string{"below", "between"} {
		t.Run(calls, func(t *testing.T) {
			t.Parallel()
			l := newStopLab(t)
			l.called["below"] = define(t, "below", "steps: ["+chainOf(20, "read_40")+"]")
			l.called["between"] = define(t, "between", "steps: [{id: c, type: workflow, workflow: below}]")
			id := l.start(t, define(t, "above", "steps: [{id: c, type: workflow, workflow: "+calls+"}]"))
			l.backend.await("below", "read")
			perduretest.NoError(t, l.temporal.TerminateWorkflow(t.Context(), string(id), "", "stop"))
			until(t, "the run below to wait", func() bool {
				list, err := l.door.List(t.Context(), runs.Filter{Called: true, Tool: "below", Limit: 1})
				if err != nil || len(list) == 0 {
					return false
				}
				run, err := l.door.Get(t.Context(), list[0].ID)
				return err == nil && (run.WaitingFor == "parent" || run.Closed != nil)
			})
			if n := len(l.backend.of("below", "write")); n > 0 {
				t.Errorf("%d runs below one that was terminated, it has written %d times", depth+1, n)
			}
			plan, err := l.door.Resumptions().Plan(t.Context(), id, history.ResumeRequest{})
			if err == nil {
				err = l.door.Resumptions().Execute(t.Context(), plan)
			}
			if err != nil {
				t.Fatal(err)
			}
			if outcome := l.end(t, id); outcome.Status != runs.Completed || len(l.backend.of("below", "write")) != 1 {
				t.Errorf("resumed, it is %s and has written %d times", outcome.Status, len(l.backend.of("below", "write")))
			}
		})
	}
}

// A call that waits for a connection when its run is stopped is not sent when
// there is one, however soon that is.
func TestAttackStoppedRunBeforeItIsSent(t *testing.T) {
	t.Parallel()
	l := newStopLab(t)
	backend := serveFakes(t, map[string]fakeTool{"be_write": structuredAnswer(`{}`)})
	behind := perduretest.Must(url.Parse(backend.web.URL))(t)
	through := httputil.NewSingleHostReverseProxy(behind)
	came, open := make(chan struct{}, 10), make(chan struct{})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case came <- struct{}{}:
		default:
		}
		<-open
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	pool, err := backends.New([]backends.Config{{Name: "be", Transport: backends.StreamableHTTP, URL: front.URL + "/be/mcp"}}, backends.Aggregation{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pool.Start(t.Context())
	t.Cleanup(pool.Close)
	l.backend.next = pool
	id := l.start(t, define(t, "write_now", "steps: [{id: w, tool: write, OF}]"))
	l.backend.await("write_now", "write")
	receive(t, came, "a connection to the backend")
	perduretest.NoError(t, l.door.Cancel(t.Context(), id, "stop"))
	outcome := l.end(t, id)
	close(open)
	if outcome.Status != runs.Cancelled {
		t.Errorf("the run ended with %+v", outcome)
	}
	if !pool.WaitReady(t.Context(), patience) {
		t.Fatal("the backend is not up")
	}
	receive(t, l.backend.ended, "the end of the call")
	if n := backend.count("be_write", ""); n > 0 {
		t.Errorf("it was sent %d times after the run had ended", n)
	}
}

// A call that waits for a worker when its run is stopped is not sent when there is
// one: neither a further attempt nor one of a run that the stopped one has called,
// whatever the worker takes up first.
func TestAttackStoppedRunWithoutWorkers(t *testing.T) {
	t.Parallel()
	l := newStopLab(t)
	const again = ", onError: {action: retry, retryCount: 8, retryDelay: 1s}"
	l.called["below"] = define(t, "below", "steps: [{id: w, tool: fail_1, OF"+again+"}]")
	names := map[string]string{ // of the argument by which calls are known
		"again": "again", "timed": "timed", "each": "each", "caller": "below",
	}
	ids := map[string]runs.RunID{}
	for name, fields := range map[string]string{
		"again":  "steps: [{id: w, tool: fail_1, OF" + again + "}]",
		"timed":  "timeout: 4s, steps: [{id: w, tool: fail_1, OF" + again + "}]",
		"each":   "steps: [{id: e, type: forEach, timeout: 4s, collection: '[1]', step: {tool: fail_1, OF" + again + "}}]",
		"caller": "steps: [{id: c, type: workflow, workflow: below}]",
	} {
		ids[name] = l.start(t, define(t, name, fields))
	}
	for _, of := range names {
		l.backend.await(of, "fail")
	}
	l.worker.Stop()
	before := map[string]int{}
	for _, of := range names {
		before[of] = len(l.backend.of(of, "fail"))
	}
	for _, name := range []string{"again", "caller"} {
		perduretest.NoError(t, l.door.Cancel(t.Context(), ids[name], "stop"))
	}
	time.Sleep(5 * time.Second) // until the others are out of time, and further attempts are due
	l.work(t)
	for name, id := range ids {
		outcome := l.end(t, id)
		if of := names[name]; len(l.backend.of(of, "fail")) != before[of] {
			t.Errorf("%s: the run ended as %s, and called %d times after it was stopped", name, outcome.Status, len(l.backend.of(of, "fail"))-before[of])
		}
	}
}

// above is a run of another program that calls one of ours and waits for its end.
func above(ctx workflow.Context, in workflows.RunInput) error {
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: in.Definition.Name, TaskQueue: workflows.TaskQueue, WaitForCancellation: true, ParentClosePolicy: enums.PARENT_CLOSE_POLICY_ABANDON,
		TypedSearchAttributes: ofTool(in.Definition.Name),
	})
	return workflow.ExecuteChildWorkflow(ctx, in.WorkflowType(), in).Get(ctx, nil)
}

// ofTool are the search attributes without which a workflow is no run.
func ofTool(name string) temporal.SearchAttributes {
	return temporal.NewSearchAttributes(temporal.NewSearchAttributeKeyKeyword(workflows.AttrTool).ValueSet(name))
}

// A run that is stopped while its workers are away stops those that it has called
// before they send what they decide meanwhile, since their own workers are there.
func TestAttackStoppedRunAboveWithoutWorkers(t *testing.T) {
	t.Parallel()
	l := newStopLab(t)
	work := func() worker.Worker {
		w := worker.New(l.temporal, "above", worker.Options{})
		w.RegisterWorkflowWithOptions(above, workflow.RegisterOptions{Name: "above"})
		perduretest.NoError(t, w.Start())
		return w
	}
	w := work()
	d := define(t, "called", "steps: [{id: r, tool: read_1, OF}, {id: p, type: wait, for: 3s, dependsOn: [r]}, {id: w, tool: write_1, OF, dependsOn: [p]}]")
	run, err := l.temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "caller", TaskQueue: "above", TypedSearchAttributes: ofTool("above")}, "above", workflows.RunInput{
		Definition: workflows.Pinned{Name: d.Name, Digest: d.Digest(), Source: d.Source()}, Tools: timedTools(d), Arguments: json.RawMessage(`{}`),
		Lineage: "l", Within: "c//", Depth: 1, Parent: &workflows.Parent{RunID: "caller", StepPath: "c"},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.backend.await("called", "read")
	w.Stop()
	perduretest.NoError(t, l.temporal.CancelWorkflow(t.Context(), run.GetID(), ""))
	time.Sleep(5 * time.Second) // until the called run has decided to write
	if n := len(l.backend.of("called", "write")); n > 0 {
		t.Fatalf("it has written %d times while the run above was away, which was stopped", n)
	}
	t.Cleanup(work().Stop)
	if outcome := l.end(t, "called"); outcome.Status != runs.Cancelled || len(l.backend.of("called", "write")) > 0 {
		t.Errorf("the called run is %s, and has written %d times", outcome.Status, len(l.backend.of("called", "write")))
	}
}
