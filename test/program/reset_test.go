//go:build !nodev

package program_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/perdure/perdure/activities"
	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/payloads"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// notingBackend executes every call, and loses the answers of the tool lost and of those that
// it is to lose.
type notingBackend struct {
	mu      sync.Mutex
	calls   []string
	losing  string
	failing int             // so many calls fail, before the others do something
	keyed   map[string]bool // tools that do nothing where they know the key
	keys    map[string]bool
}

// loses has it lose the answers of a tool from now on.
func (b *notingBackend) loses(tool string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.losing = tool
}

func (b *notingBackend) Call(_ context.Context, call backends.Call) (*backends.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failing--; b.failing >= 0 {
		return &backends.Result{IsError: true}, nil
	}
	if !b.keyed[call.Tool] || !b.keys[call.IdempotencyKey] {
		b.calls = append(b.calls, call.Tool)
	}
	if b.keyed != nil {
		b.keys[call.IdempotencyKey] = true
	}
	if call.Tool == "lost" || call.Tool == b.losing {
		return nil, &backends.CallError{Backend: call.Backend, Tool: call.Tool, Outcome: backends.Unknown, Err: errors.New("connection reset")}
	}
	return &backends.Result{Structured: json.RawMessage(`{"n":7}`)}, nil
}

func (b *notingBackend) made() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.calls)
}

// sealedClient seals, with keys, "" = none, what goes over the connection of another
// client, which closes it.
func sealedClient(t *testing.T, of client.Client, keys string, more ...func(*client.Options)) (client.Client, converter.DataConverter) {
	t.Helper()
	var k *payloads.Keys
	if keys != "" {
		var err error
		if k, err = payloads.ReadKeys(t.Context(), func(context.Context) ([]byte, error) { return []byte(keys), nil }); err != nil {
			t.Fatal(err)
		}
	}
	options := client.Options{Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))}
	payloads.Seal(&options, k)
	for _, change := range more {
		change(&options)
	}
	c := perduretest.Must(client.NewClientFromExistingWithContext(t.Context(), of, options))(t)
	return c, options.DataConverter
}

// A run that was reset, by the button of the Web UI or otherwise, makes no call
// of an unsafe tool a second time: the result that it had counts, and what is not
// known stays unknown. An answered question is asked and told anew.
func TestReset(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.DiscardHandler)
	c, sealed := sealedClient(t, startTemporal(t, quiet), "first:"+strings.Repeat("0a", 32))
	door := runs.New(runs.Config{Keys: testKeys, Client: c, DataConverter: sealed, Logger: quiet})
	backend := &notingBackend{}
	w := worker.New(c, workflows.TaskQueue, worker.Options{})
	workflows.Register(w, trust)
	activities.Register(w, activities.New(backend, quiet, activities.Options{CallBeforeReset: door.CallHistory().CallBeforeReset}))
	perduretest.NoError(t, w.Start())
	t.Cleanup(w.Stop)

	defs, diags := definitions.Parse("reset.yaml", []byte(`{name: reset, description: d, timeout: 24h, steps: [
		{id: make, tool: make}, {id: g, type: elicitation, message: "Go on with {{.steps.make.output.n}}?", dependsOn: [make], timeout: 24h},
		{id: again, tool: make, dependsOn: [g]}, {id: lost, tool: lost, dependsOn: [again]}]}`))
	perduretest.NoError(t, diags.Err())
	tools := map[string]definitions.Tool{}
	for _, name := range []string{"make", "lost"} {
		tools[name] = definitions.Tool{Name: name, Backend: "be", Original: name}
	}
	started, err := door.Start(t.Context(), runs.StartRequest{Definition: defs[0], Arguments: json.RawMessage(`{}`), Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	var seq int64
	for _, point := range []string{"", "first task", "after the question"} {
		if point != "" {
			resetTo(t, c, string(started.ID), "", point)
		}
		asked := nextEvent(t, door, started.ID, &seq, runs.EventOpened)
		if got := asked.Elicitation.Message; got != "Go on with 7?" {
			t.Errorf("%s: asked %s", point, got)
		}
		if _, err := door.Answer(t.Context(), started.ID, runs.Answer{ElicitationID: asked.Elicitation.ID, Action: "accept", By: "ada"}); err != nil {
			t.Fatalf("%s: answering: %v", point, err)
		}
		done := nextEvent(t, door, started.ID, &seq, runs.EventDone)
		if f := done.Outcome.Failure; f == nil || f.Error.Category != codes.CategoryOutcomeUnknown {
			t.Errorf("%s: ended with %+v", point, done.Outcome)
		}
		if diff := cmp.Diff([]string{"make", "make", "lost"}, backend.made()); diff != "" {
			t.Errorf("%s: calls: %s", point, diff)
		}
	}
	// What is resumed after a reset knows as much.
	plan, err := door.Resumptions().Plan(t.Context(), started.ID, history.ResumeRequest{})
	if err != nil || len(plan.OutcomeUnknown) != 1 {
		t.Fatalf("the plan is %+v, %v", plan, err)
	}
	// And a call that is said not to have been executed is made.
	if plan, err = door.Resumptions().Plan(t.Context(), started.ID, history.ResumeRequest{Otherwise: runs.NotHappened}); err != nil {
		t.Fatal(err)
	}
	perduretest.NoError(t, door.Resumptions().Execute(t.Context(), plan))
	nextEvent(t, door, started.ID, &seq, runs.EventDone)
	if diff := cmp.Diff([]string{"make", "make", "lost", "lost"}, backend.made()); diff != "" {
		t.Errorf("calls after the resumption: %s", diff)
	}
	// That was said of the call before it, and not of this one, also after a further reset.
	resetTo(t, c, string(started.ID), "", "first task")
	nextEvent(t, door, started.ID, &seq, runs.EventDone)
	if diff := cmp.Diff([]string{"make", "make", "lost", "lost"}, backend.made()); diff != "" {
		t.Errorf("calls after the reset of the resumption: %s", diff)
	}
}

// heldBackend executes every call, and answers those of the tool slow when it is
// released.
type heldBackend struct {
	notingBackend
	release chan struct{}
}

func (b *heldBackend) Call(ctx context.Context, call backends.Call) (*backends.Result, error) {
	result, err := b.notingBackend.Call(ctx, call)
	if call.Tool == "slow" {
		<-b.release
	}
	return result, err
}

// A run is reset to a point at which a call was under way that has completed since:
// Temporal has what was under way there executed again, and the call is not made.
func TestAttackResetOfACallUnderWay(t *testing.T) {
	t.Parallel()
	backend := &heldBackend{release: make(chan struct{})}
	c, door := resetLab(t, backend)
	def := define(t, "reset", `steps: [{id: slow, tool: slow}, {id: quick, tool: quick}, {id: f, type: elicitation, message: First?, dependsOn: [quick], timeout: 24h},
		{id: g, type: elicitation, message: "Go on with {{.steps.slow.output.n}}?", dependsOn: [slow], timeout: 24h}]`)
	tools := map[string]definitions.Tool{}
	for _, name := range []string{"slow", "quick"} {
		tools[name] = definitions.Tool{Name: name, Backend: "be", Original: name}
	}
	started, err := door.Start(t.Context(), runs.StartRequest{Definition: def, Arguments: json.RawMessage(`{}`), Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	var seq int64
	asked := func(message string) {
		t.Helper()
		for nextEvent(t, door, started.ID, &seq, runs.EventOpened).Elicitation.Message != message {
		}
	}
	asked("First?")
	close(backend.release)
	asked("Go on with 7?")
	resetTo(t, c, string(started.ID), "", "the question")
	asked("Go on with 7?")
	made := backend.made()
	slices.Sort(made)
	if diff := cmp.Diff([]string{"quick", "slow"}, made); diff != "" {
		t.Errorf("calls (-want +got): %s", diff)
	}
}

// What was undone before a reset, and is done again since somebody recorded that it is
// not done, is undone again when the run fails.
func TestAttackResetOfAnUndoneCall(t *testing.T) {
	t.Parallel()
	u := startUndoing(t)
	u.decline()
	resetTo(t, u.temporal, string(u.id), "", "first task")
	nextEvent(t, u.door, u.id, &u.seq, runs.EventDone)
	plan, err := u.door.Resumptions().Plan(t.Context(), u.id, history.ResumeRequest{Otherwise: runs.NotHappened})
	if err != nil {
		t.Fatal(err)
	}
	perduretest.NoError(t, u.door.Resumptions().Execute(t.Context(), plan))
	u.decline()
	if diff := cmp.Diff([]string{"make", "undo", "make", "undo"}, u.backend.made()); diff != "" {
		t.Errorf("calls (-want +got): %s", diff)
	}
}

// What a script has repeated until it succeeded is not made again after a reset where it had
// failed: that would succeed now.
func TestAttackResetOfARepeatedCall(t *testing.T) {
	t.Parallel()
	for name, effect := range map[string]definitions.Effect{"unsafe": definitions.Unsafe, "keyed": definitions.Keyed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend := &notingBackend{failing: 1}
			c, door := resetLab(t, backend)
			def := define(t, "reset", `script: "retry(lambda: be.make(), delay=0)\nreturn 1"`)
			tools := map[string]definitions.Tool{"be_make": {Name: "be_make", Backend: "be", Original: "make", Effect: effect}}
			started := perduretest.Must(door.Start(t.Context(), runs.StartRequest{Definition: def, Arguments: json.RawMessage(`{}`), Tools: tools}))(t)
			var seq int64
			for range 3 {
				if done := nextEvent(t, door, started.ID, &seq, runs.EventDone); done.Outcome.Failure != nil {
					t.Fatalf("it failed: %+v", done.Outcome.Failure)
				}
				if diff := cmp.Diff([]string{"make"}, backend.made()); diff != "" {
					t.Fatalf("calls (-want +got): %s", diff)
				}
				resetTo(t, c, string(started.ID), "", "first task")
			}
		})
	}
}

// What was undone before a reset and is done again, and what undoes that, has another key: a
// backend that knows the key does nothing. What was neither undone nor done since is not sent.
func TestAttackResetOfAnUndoneCallWithItsKey(t *testing.T) {
	t.Parallel()
	for _, keyed := range [][]string{{"make"}, {"undo"}, {"make", "undo"}} {
		t.Run(strings.Join(keyed, " and "), func(t *testing.T) {
			t.Parallel()
			u := startUndoing(t, keyed...)
			u.decline()
			for times := 2; times < 4; times++ {
				resetTo(t, u.temporal, string(u.id), "", "first task")
				if keyed[0] != "make" { // a person decides whether an unsafe call is made again
					nextEvent(t, u.door, u.id, &u.seq, runs.EventDone)
					plan := perduretest.Must(u.door.Resumptions().Plan(t.Context(), u.id, history.ResumeRequest{Otherwise: runs.NotHappened}))(t)
					perduretest.NoError(t, u.door.Resumptions().Execute(t.Context(), plan))
				}
				u.decline()
				if diff := cmp.Diff(slices.Repeat([]string{"make", "undo"}, times), u.backend.made()); diff != "" {
					t.Fatalf("calls (-want +got): %s", diff)
				}
			}
			resetTo(t, u.temporal, string(u.id), "", "after the question")
			u.decline()
			if diff := cmp.Diff(slices.Repeat([]string{"make", "undo"}, 3), u.backend.made()); diff != "" {
				t.Errorf("calls after a reset to behind the call (-want +got): %s", diff)
			}
		})
	}
}

// What was undone is not undone again where an execution between did not do it anew.
func TestAttackResetOfWhatWasUndone(t *testing.T) {
	t.Parallel()
	u := startUndoing(t)
	u.decline()
	first := perduretest.Must(u.temporal.DescribeWorkflowExecution(t.Context(), string(u.id), ""))(t)
	resetTo(t, u.temporal, string(u.id), "", "first task") // which finds that it was undone
	nextEvent(t, u.door, u.id, &u.seq, runs.EventDone)
	resetTo(t, u.temporal, string(u.id), first.WorkflowExecutionInfo.Execution.RunId, "after the question")
	u.decline()
	if diff := cmp.Diff([]string{"make", "undo"}, u.backend.made()); diff != "" {
		t.Errorf("calls (-want +got): %s", diff)
	}
}

// A call that was undone may have been made anew, with an unknown outcome: it is not undone
// again, and a person decides.
func TestAttackResetOfWhatMayBeDoneAnew(t *testing.T) {
	t.Parallel()
	u := startUndoing(t)
	u.decline()
	first := perduretest.Must(u.temporal.DescribeWorkflowExecution(t.Context(), string(u.id), ""))(t)
	resetTo(t, u.temporal, string(u.id), "", "first task")
	nextEvent(t, u.door, u.id, &u.seq, runs.EventDone)
	plan := perduretest.Must(u.door.Resumptions().Plan(t.Context(), u.id, history.ResumeRequest{Otherwise: runs.NotHappened}))(t)
	u.backend.loses("make")
	perduretest.NoError(t, u.door.Resumptions().Execute(t.Context(), plan))
	nextEvent(t, u.door, u.id, &u.seq, runs.EventDone)
	resetTo(t, u.temporal, string(u.id), first.WorkflowExecutionInfo.Execution.RunId, "after the question")
	u.seq = 0 // what followed the execution that was reset is no longer told
	u.answer("decline")
	asked := nextEvent(t, u.door, u.id, &u.seq, runs.EventOpened).Elicitation
	for asked.Kind == workflows.ForCaller { // of before the reset
		asked = nextEvent(t, u.door, u.id, &u.seq, runs.EventOpened).Elicitation
	}
	if diff := cmp.Diff([]string{"make", "undo", "make"}, u.backend.made()); diff != "" {
		t.Errorf("calls (-want +got): %s", diff)
	}
	if asked.Kind != workflows.Compensation || asked.StepPath != "make/compensate" {
		t.Errorf("asked %+v", asked)
	}
}

// An undoing is a run that makes something, and undoes it when its gate is declined.
type undoing struct {
	t        *testing.T
	temporal client.Client
	door     *runs.Client
	backend  *notingBackend
	id       runs.RunID
	seq      int64 // of the last event that was seen
}

func startUndoing(t *testing.T, keyed ...string) *undoing {
	backend := &notingBackend{keyed: map[string]bool{}, keys: map[string]bool{}}
	c, door := resetLab(t, backend)
	def := define(t, "reset", `steps: [{id: make, tool: make, compensate: {tool: undo}}, {id: g, type: elicitation, message: Go on?, dependsOn: [make], timeout: 24h}]`)
	tools := map[string]definitions.Tool{}
	for _, name := range []string{"make", "undo"} {
		tools[name] = definitions.Tool{Name: name, Backend: "be", Original: name}
	}
	for _, name := range keyed {
		backend.keyed[name] = true
		tools[name] = definitions.Tool{Name: name, Backend: "be", Original: name, Effect: definitions.Keyed}
	}
	started, err := door.Start(t.Context(), runs.StartRequest{Definition: def, Arguments: json.RawMessage(`{}`), Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	return &undoing{t: t, temporal: c, door: door, backend: backend, id: started.ID}
}

// resetLab has a Temporal, and a worker that looks into histories and calls a backend.
func resetLab(t *testing.T, backend activities.Caller) (client.Client, *runs.Client) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	c := startTemporal(t, quiet)
	door := runs.New(runs.Config{Keys: testKeys, Client: c, Logger: quiet})
	w := worker.New(c, workflows.TaskQueue, worker.Options{})
	workflows.Register(w, trust)
	activities.Register(w, activities.New(backend, quiet, activities.Options{CallBeforeReset: door.CallHistory().CallBeforeReset}))
	perduretest.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	return c, door
}

// decline answers the gate and waits for the end of the run.
func (u *undoing) decline() {
	u.t.Helper()
	u.answer("decline")
	nextEvent(u.t, u.door, u.id, &u.seq, runs.EventDone)
}

// answer answers the gate.
func (u *undoing) answer(action string) {
	u.t.Helper()
	asked := nextEvent(u.t, u.door, u.id, &u.seq, runs.EventOpened)
	if _, err := u.door.Answer(u.t.Context(), u.id, runs.Answer{ElicitationID: asked.Elicitation.ID, Action: action, By: "ada"}); err != nil {
		u.t.Fatal(err)
	}
}

// nextEvent is the next event of a kind after the one with a number.
func nextEvent(t *testing.T, door *runs.Client, id runs.RunID, after *int64, kind runs.EventKind) runs.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for e, err := range door.Follow(ctx, id, *after, runs.AllEvents) {
		if err != nil {
			t.Fatalf("waiting to be told %s: %v", kind, err)
		}
		*after = e.Seq
		if e.Kind == kind {
			return e
		}
		if e.Kind == runs.EventDone {
			t.Fatalf("ended without %s: %+v", kind, e.Outcome.Failure)
		}
	}
	t.Fatalf("no %s", kind)
	return runs.Event{}
}

// resetTo resets an execution of a run, "" = the last one, to a point, without applying
// answers again.
func resetTo(t *testing.T, c client.Client, id, execution, point string) {
	t.Helper()
	resetApplying(t, c, id, execution, point, enums.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL)
}

// resetApplying resets an execution of a run, and applies again what followed, but for what
// is excluded.
func resetApplying(t *testing.T, c client.Client, id, execution, point string, exclude ...enums.ResetReapplyExcludeType) {
	t.Helper()
	_, err := c.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: execution}, Reason: "a button", RequestId: point,
		WorkflowTaskFinishEventId: resetPoint(t, c, id, execution, point), ResetReapplyExcludeTypes: exclude,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// resetPoint is the first workflow task of an execution, the one that opens its question,
// the one after which that was open, or the one that called a run.
func resetPoint(t *testing.T, c client.Client, id, execution, point string) (to int64) {
	t.Helper()
	var last int64
	history := c.GetWorkflowHistory(t.Context(), id, execution, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	open := false
	for history.HasNext() {
		e := perduretest.Must(history.Next())(t)
		switch {
		case e.EventType == enums.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED:
			if open = true; to == 0 && point == "the question" {
				to = last
			}
		case e.EventType == enums.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED && point == "the call":
			to = last
		case e.EventType == enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED && to == 0 && (point == "first task" || open && point != "the call"):
			to = e.EventId
		case e.EventType == enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
			last = e.EventId
		}
	}
	return to
}
