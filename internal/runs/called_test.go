package runs_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/perdure/perdure/activities"
	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/devserver"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// The tests of runs that call each other share a Temporal server on which runs
// continue as new soon, so that both of two runs do.
var composing struct {
	once   sync.Once
	err    error
	server *devserver.Server
	client client.Client
}

const suggestAfter = 60 // events

// callable are the definitions that steps can call, by name.
var callable sync.Map

// terminateAndResume ends a run at Temporal, and resumes it.
func terminateAndResume(t *testing.T, c *runs.Client, temporal client.Client, id runs.RunID) {
	t.Helper()
	perduretest.NoError(t, temporal.TerminateWorkflow(t.Context(), string(id), "", "by hand"))
	plan := perduretest.Must(c.Resumptions().Plan(t.Context(), id, history.ResumeRequest{}))(t)
	perduretest.NoError(t, c.Resumptions().Execute(t.Context(), plan))
}

func compose(t testing.TB) (*runs.Client, client.Client) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a Temporal server")
	}
	composing.once.Do(func() {
		composing.server, composing.err = devserver.Start(context.Background(), devserver.Options{
			Dir: filepath.Join(dataDir, "composing"), SearchAttributes: runs.SearchAttributes(), SuggestAfter: suggestAfter, Logger: slog.New(slog.DiscardHandler),
		})
		if composing.err != nil {
			return
		}
		if composing.client, composing.err = dial(composing.server); composing.err != nil {
			return
		}
		w := worker.New(composing.client, workflows.TaskQueue, worker.Options{WorkerStopTimeout: time.Second})
		workflows.Register(w, trust)
		registerActivities(w, composing.client)
		w.RegisterActivityWithOptions(resolve, activity.RegisterOptions{Name: workflows.ResolveName})
		read := activities.New(nil, nil, activities.Options{Outcome: runOutcome, Latest: latestExecution})
		w.RegisterActivityWithOptions(read.RunOutcome, activity.RegisterOptions{Name: workflows.OutcomeName})
		w.RegisterActivityWithOptions(read.LatestExecution, activity.RegisterOptions{Name: workflows.LatestName})
		composing.err = w.Start()
	})
	if composing.err != nil {
		t.Fatal(composing.err)
	}
	return runs.New(runs.Config{Keys: testKeys, Client: composing.client}), composing.client
}

func resolve(_ context.Context, ref workflows.DefinitionRef) (workflows.ResolvedDefinition, error) {
	found, ok := callable.Load(ref.Workflow)
	if !ok {
		return workflows.ResolvedDefinition{}, workflows.Report(&workflows.Error{Code: "unknown_workflow", Category: codes.CategoryTool, Message: "there is no " + ref.Workflow}, false)
	}
	d := found.(*definitions.Definition)
	return workflows.ResolvedDefinition{Definition: workflows.Pinned{Name: d.Name, Version: d.Version, Digest: d.Digest(), Source: d.Source()}, Tools: tools}, nil
}

func runOutcome(ctx context.Context, id string) (*workflows.ChildOutcome, error) {
	return runs.New(runs.Config{Keys: testKeys, Client: composing.client}).ChildOutcome(ctx, id)
}

func latestExecution(ctx context.Context, id string) (string, error) {
	return runs.New(runs.Config{Keys: testKeys, Client: composing.client}).Latest(ctx, id)
}

// composition makes a request of the first of several definitions, which calls
// the others. NAME in the source is one that no other test has.
func composition(t testing.TB, source string) runs.StartRequest {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "_", " ", "_", ",", "").Replace(t.Name()))
	defs, diags := definitions.Parse("test.yaml", []byte(strings.ReplaceAll(source, "NAME", name)))
	diags = append(diags, definitions.Check(defs, definitions.CheckOptions{})...)
	perduretest.NoError(t, diags.Err())
	for _, d := range defs[1:] {
		callable.Store(d.Name, d)
	}
	return runs.StartRequest{Definition: defs[0], Arguments: json.RawMessage(`{}`), Caller: runs.Caller{Subject: "alice"}, Tools: tools}
}

// noted keeps the calls of a test, by the argument "as".
type noted struct {
	mu    sync.Mutex
	calls []workflows.ToolCall
	fail  func(workflows.ToolCall) error // nil = none fails
}

// note notes the calls whose argument "as" begins with the name of the test, and
// nothing else of that name.
func note(t testing.TB, as ...string) *noted {
	n := &noted{}
	for _, as := range as {
		key := t.Name() + as
		scripted.Store(key, func(call workflows.ToolCall) error {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.calls = append(n.calls, call)
			if n.fail != nil {
				return n.fail(call)
			}
			return nil
		})
		t.Cleanup(func() { scripted.Delete(key) })
	}
	return n
}

func (n *noted) paths() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var paths []string
	for _, c := range n.calls {
		paths = append(paths, string(c.StepPath))
	}
	return paths
}

const parentAndChild = `
name: NAME
description: Calls another.
timeout: 5m
steps:
  - {id: review, type: workflow, workflow: NAME_b, arguments: {as: ASb}}
  - {id: after, tool: write, dependsOn: [review], arguments: {as: ASa, text: "{{.steps.review.output.said.text}}"}}
---
name: NAME_b
description: Is called.
version: 1.0.0
timeout: 5m
parameters: {type: object, properties: {as: {type: string}}}
steps:
  - {id: put, tool: write, arguments: {as: "{{.params.as}}", text: put}}
  - {id: ok, type: elicitation, message: Ship it?, dependsOn: [put], schema: {type: object, properties: {n: {type: integer}}, required: [n]}, timeout: 5m}
  - {id: ship, tool: write, dependsOn: [ok], arguments: {as: "{{.params.as}}", text: "{{.steps.ok.content.n}}"}}
`

func source(t testing.TB, text string) string { return strings.ReplaceAll(text, "AS", t.Name()) }

// The question of a called run is asked, and answered, with the run that called it.
func TestCalledRunAsksWithItsParent(t *testing.T) {
	t.Parallel()
	c, _ := compose(t)
	calls := note(t, "a", "b")
	id := start(t, c, composition(t, source(t, parentAndChild)))
	events := followTo(t, c, id, 0, runs.EventOpened)
	gate := events[len(events)-1].Elicitation
	child := runs.RunID(gate.Run)
	if gate.ID != "review/ok#1" || gate.StepID != "review" || !strings.Contains(string(child), "_b/") {
		t.Fatalf("asked is %+v", gate)
	}
	run := perduretest.Must(c.Get(t.Context(), child))(t)
	if diff := cmp.Diff(&runs.Parent{RunID: string(id), StepPath: "review"}, run.Parent); diff != "" || run.Caller != "alice" || run.Version != "1.0.0" || run.Status != workflows.Waiting {
		t.Errorf("the called run is %+v, %s", run, diff)
	}
	d := answer(t, c, id, runs.Answer{ElicitationID: "review/ok#1", Action: "accept", Content: json.RawMessage(`{"n": 7}`), By: "bob"})
	if want := (runs.Decision{Won: true, Action: "accept", By: "bob"}); d != want {
		t.Errorf("got %+v, want %+v", d, want)
	}
	if late := answer(t, c, child, runs.Answer{ElicitationID: "ok#1", Action: "decline", By: "eve"}); late.Won || late.By != "bob" {
		t.Errorf("a second answer, to the called run: %+v", late)
	}
	all := followTo(t, c, id, 0, runs.EventDone)
	want := []string{
		"step review NAME_b ended=false (0/2)",
		"opened review/ok#1 open (0/2)",
		"closed review/ok#1 answered accept (0/2)",
		"step review NAME_b ended=true completed (1/2)",
		"step after write ended=false (1/2)",
		"step after write ended=true completed (2/2)",
		"done completed (2/2)",
	}
	name, _, _ := strings.Cut(string(id), "/")
	for i := range want {
		want[i] = strings.ReplaceAll(want[i], "NAME", name)
	}
	got := tell(all)
	if !slices.Contains(got, want[2]) { // both came in one workflow task
		want[2], want[3] = want[3], strings.Replace(want[2], "(0/2)", "(1/2)", 1)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"put", "ship", "after"}, calls.paths()); diff != "" {
		t.Error(diff)
	}
	detail := perduretest.Must(c.Show(t.Context(), id))(t)
	if s := detail.Steps[0]; s.Path != "review" || s.Run != child || s.Status != "completed" || len(s.Output) == 0 || len(s.Arguments) == 0 {
		t.Errorf("the step is shown as %+v", s)
	}
}

// Lists have the runs that callers have called, and those below them only where
// they are asked for.
func TestCalledRunsAreNotListed(t *testing.T) {
	t.Parallel()
	c, _ := compose(t)
	id := start(t, c, composition(t, source(t, parentAndChild)))
	gate := followTo(t, c, id, 0, runs.EventOpened)
	child := runs.RunID(gate[len(gate)-1].Elicitation.Run)
	deadline := time.Now().Add(20 * time.Second)
	var listed, all []runs.RunID
	for !slices.Contains(listed, id) || !slices.Contains(all, child) {
		if time.Now().After(deadline) {
			t.Fatalf("listed are %v, and with those called %v", listed, all)
		}
		listed, all = ids(t, c, runs.Filter{Waiting: true, Limit: 500}), ids(t, c, runs.Filter{Waiting: true, Called: true, Limit: 500})
	}
	if slices.Contains(listed, child) {
		t.Error("a run that a step has called is listed")
	}
	perduretest.NoError(t, c.Terminate(t.Context(), id, "test"))
	for _, id := range []runs.RunID{id, child} {
		if outcome, err := c.Result(t.Context(), id); err != nil || outcome.Failure == nil || outcome.Failure.Error.Code != "terminated" {
			t.Errorf("%s was not terminated: %+v, %v", id, outcome, err)
		}
	}
}

func ids(t testing.TB, c *runs.Client, f runs.Filter) []runs.RunID {
	t.Helper()
	list := perduretest.Must(c.List(t.Context(), f))(t)
	var ids []runs.RunID
	for _, run := range list {
		ids = append(ids, run.ID)
	}
	return ids
}

// busyParent goes through so many events beside a called run that it continues
// as new while that waits.
var busyParent = strings.Replace(parentAndChild, "  - {id: after, tool: write, dependsOn: [review],",
	`  - {id: busy, type: forEach, collection: "{{json (until 40)}}", maxParallel: 2, step: {tool: write, arguments: {text: "{{.forEach.item}}"}}}
  - {id: after, tool: write, dependsOn: [review, busy],`, 1)

// A run that continues as new while one waits that it has called loses nothing
// of that: neither what it asks, nor how it ends.
func TestContinuedWhileACalledRunWaits(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"accept", "decline", "cancel the run", "terminate the called run"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c, temporal := compose(t)
			calls := note(t, "a", "b")
			id := start(t, c, composition(t, source(t, busyParent)))
			gate := opened(t, c, id)
			awaitContinued(t, c, temporal, id)
			switch how {
			case "cancel the run":
				perduretest.NoError(t, c.Cancel(t.Context(), id, "test"))
			case "terminate the called run":
				perduretest.NoError(t, c.Terminate(t.Context(), runs.RunID(gate.Run), "test"))
				if err := c.Cancel(t.Context(), id, "test"); err != nil { // else it would be noticed within the hour
					t.Fatal(err)
				}
			default:
				if d := answer(t, c, id, runs.Answer{ElicitationID: gate.ID, Action: how, Content: json.RawMessage(`{"n": 7}`), By: "bob"}); !d.Won {
					t.Errorf("got %+v", d)
				}
			}
			all := followTo(t, c, id, 0, runs.EventDone)
			outcome := all[len(all)-1].Outcome
			want := map[string]workflows.Status{"accept": "completed", "decline": "failed", "cancel the run": "cancelled", "terminate the called run": "cancelled"}[how]
			if outcome.Status != want {
				t.Errorf("got %+v, want %s", outcome, want)
			}
			if how == "accept" && !slices.Equal(calls.paths(), []string{"put", "ship", "after"}) || how != "accept" && !slices.Equal(calls.paths(), []string{"put"}) {
				t.Errorf("called were %v", calls.paths())
			}
			if how == "decline" && outcome.Failure.Error.StepPath != "review/ok" {
				t.Errorf("got %+v", outcome.Failure)
			}
			if run, err := c.Get(t.Context(), runs.RunID(gate.Run)); err != nil || run.Closed == nil {
				t.Errorf("the called run goes on: %+v, %v", run, err)
			}
		})
	}
}

// Runs that call each other three deep, and that all continue as new while the
// last one waits, pass on what that asks and what it comes to.
func TestContinuedThreeDeep(t *testing.T) {
	t.Parallel()
	c, temporal := compose(t)
	calls := note(t, "a", "b")
	busy := `  - {id: busy, type: forEach, collection: "{{json (until 40)}}", maxParallel: 2, step: {tool: write, arguments: {text: "{{.forEach.item}}"}}}`
	id := start(t, c, composition(t, source(t, `
name: NAME
description: Calls one that calls another.
timeout: 5m
steps:
  - {id: call, type: workflow, workflow: NAME_mid}
`+busy+`
  - {id: after, tool: write, dependsOn: [call, busy], arguments: {as: ASa, text: "{{.steps.call.output.said.text}}"}}
---
name: NAME_mid
description: Is called, and calls.
timeout: 5m
steps:
  - {id: review, type: workflow, workflow: NAME_b, arguments: {as: ASb}}
`+busy+`
output: {properties: {said: {type: object, description: d, value: "{{json .steps.review.output.said}}"}}}
---
`+strings.SplitN(parentAndChild, "---\n", 2)[1])))
	gate := opened(t, c, id)
	if gate.ID != "call/review/ok#1" {
		t.Fatalf("asked is %+v", gate)
	}
	awaitContinued(t, c, temporal, id)
	mid := perduretest.Must(c.Show(t.Context(), id))(t)
	awaitContinued(t, c, temporal, mid.Steps[slices.IndexFunc(mid.Steps, func(s runs.StepRecord) bool { return s.Path == "call" })].Run)
	if d := answer(t, c, id, runs.Answer{ElicitationID: gate.ID, Action: "accept", Content: json.RawMessage(`{"n": 7}`), By: "bob"}); !d.Won {
		t.Errorf("got %+v", d)
	}
	all := followTo(t, c, id, 0, runs.EventDone)
	if outcome := all[len(all)-1].Outcome; outcome.Status != workflows.Completed || !strings.Contains(string(outcome.Output), `"7"`) {
		t.Errorf("got %+v", outcome)
	}
	if diff := cmp.Diff([]string{"put", "ship", "after"}, calls.paths()); diff != "" {
		t.Error(diff)
	}
}

// opened follows a run to its first question.
func opened(t testing.TB, c *runs.Client, id runs.RunID) runs.Elicitation {
	t.Helper()
	events := followTo(t, c, id, 0, runs.EventOpened)
	return *events[len(events)-1].Elicitation
}

// awaitContinued waits until a run continues in another execution than its first, with
// all of its forEach done.
func awaitContinued(t testing.TB, c *runs.Client, temporal client.Client, id runs.RunID) {
	t.Helper()
	deadline := time.Now().Add(40 * time.Second)
	for time.Now().Before(deadline) {
		d := perduretest.Must(temporal.DescribeWorkflowExecution(t.Context(), string(id), ""))(t)
		info := d.WorkflowExecutionInfo
		if info.FirstRunId != info.Execution.RunId && len(d.PendingActivities) == 0 && len(d.PendingChildren) == 0 && info.HistoryLength < 2*suggestAfter { // it may have stopped just above
			detail := perduretest.Must(c.Show(t.Context(), id))(t)
			if done := slices.ContainsFunc(detail.Steps, func(s runs.StepRecord) bool { return s.Path == "busy[39]" && s.Status == "completed" }); done {
				return
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("the run does not continue as new")
}

// A run whose called run has failed is resumed with what that has done: nothing
// that has completed is executed again, and keys stay what they were.
func TestResumptionGoesDownIntoCalledRuns(t *testing.T) {
	t.Parallel()
	c, _ := compose(t)
	calls := note(t, "a", "b")
	failing := func(call workflows.ToolCall) error {
		if call.StepPath == "ship" {
			e := workflows.Error{Code: "tool_error", Category: codes.CategoryTool, Message: "no", StepID: "ship", StepPath: "ship", Tool: "write"}
			return workflows.Report(&e, false)
		}
		return nil
	}
	calls.fail = failing
	id := start(t, c, composition(t, source(t, parentAndChild)))
	gate := opened(t, c, id)
	answer(t, c, id, runs.Answer{ElicitationID: gate.ID, Action: "accept", Content: json.RawMessage(`{"n": 7}`), By: "bob"})
	all := followTo(t, c, id, 0, runs.EventDone)
	if outcome := all[len(all)-1].Outcome; outcome.Status != workflows.Failed || outcome.Failure.Error.StepPath != "review/ship" {
		t.Fatalf("got %+v", outcome)
	}
	plan := perduretest.Must(c.Resumptions().Plan(t.Context(), id, history.ResumeRequest{By: "ada"}))(t)
	var fates []string
	for _, s := range plan.Steps {
		fates = append(fates, string(s.Path)+" "+s.Plan)
	}
	want := []string{"review executed", "review/put reused", "review/ok reused", "review/ship executed"}
	if diff := cmp.Diff(want, fates); diff != "" {
		t.Errorf("the plan (-want +got):\n%s", diff)
	}
	calls.mu.Lock()
	calls.fail = nil
	calls.mu.Unlock()
	perduretest.NoError(t, c.Resumptions().Execute(t.Context(), plan))
	again := followTo(t, c, id, all[len(all)-1].Seq, runs.EventDone)
	if outcome := again[len(again)-1].Outcome; outcome.Status != workflows.Completed {
		t.Fatalf("got %+v", outcome)
	}
	if diff := cmp.Diff([]string{"put", "ship", "ship", "after"}, calls.paths()); diff != "" {
		t.Error(diff)
	}
	if first, second := calls.calls[1], calls.calls[2]; first.IdempotencyKey != second.IdempotencyKey || first.RunID != second.RunID {
		t.Errorf("the key or the run is another one: %+v, %+v", first, second)
	}
	// The called run has one story, too.
	story, err := c.Show(t.Context(), runs.RunID(gate.Run))
	if err != nil || story.Status != workflows.Completed || len(story.Steps) != 4 {
		t.Errorf("got %+v, %v", story, err)
	}
}

// A called run that has failed and that Temporal keeps no longer is not begun anew
// with what it has done unless that is said.
func TestResumptionWithoutWhatACalledRunHasDone(t *testing.T) {
	t.Parallel()
	c, temporal := compose(t)
	calls := note(t, "a", "b")
	calls.fail = func(call workflows.ToolCall) error {
		if call.StepPath != "ship" {
			return nil
		}
		return workflows.Report(&workflows.Error{Code: "tool_error", Category: codes.CategoryTool, Message: "no", StepID: "ship", StepPath: "ship", Tool: "write"}, false)
	}
	id := start(t, c, composition(t, source(t, parentAndChild)))
	gate := opened(t, c, id)
	answer(t, c, id, runs.Answer{ElicitationID: gate.ID, Action: "accept", Content: json.RawMessage(`{"n": 7}`), By: "bob"})
	followTo(t, c, id, 0, runs.EventDone)
	remove(t, temporal, gate.Run)
	if plan, err := c.Resumptions().Plan(t.Context(), id, history.ResumeRequest{}); err == nil || !strings.Contains(err.Error(), "--from review") {
		t.Errorf("got %+v, %v", plan, err)
	}
	if _, err := c.Resumptions().Plan(t.Context(), id, history.ResumeRequest{From: []string{"review"}}); err != nil {
		t.Error(err)
	}
}

// Neither is one with whose failure the run continued, where its step is executed again
// because what it depends on was undone.
func TestResumptionWithoutWhatAContinuedRunHasDone(t *testing.T) {
	t.Parallel()
	c, temporal := compose(t)
	calls := note(t, "b")
	id := start(t, c, composition(t, source(t, `
name: NAME
description: Goes on without the one that it has called.
timeout: 5m
steps:
  - {id: first, tool: write, compensate: {tool: write}}
  - {id: review, type: workflow, workflow: NAME_b, dependsOn: [first], onError: {action: continue}}
  - {id: last, tool: fail, dependsOn: [review]}
---
name: NAME_b
description: Is called, and fails.
timeout: 5m
steps:
  - {id: put, tool: write, arguments: {as: ASb}}
  - {id: bad, tool: fail, dependsOn: [put]}
`)))
	followTo(t, c, id, 0, runs.EventDone)
	again := func() error {
		_, err := c.Resumptions().Plan(t.Context(), id, history.ResumeRequest{})
		return err
	}
	perduretest.NoError(t, again())
	d := perduretest.Must(c.Show(t.Context(), id))(t)
	review := d.Steps[slices.IndexFunc(d.Steps, func(s runs.StepRecord) bool { return s.Path == "review" })]
	remove(t, temporal, string(review.Run))
	if err := again(); err == nil || !strings.Contains(err.Error(), "--from review") {
		t.Errorf("planned without what %s has done: %v; called were %v", review.Run, err, calls.paths())
	}
}

// A resumption that did not reach a called run leaves the work of that run to the next
// resumption, also when Temporal has deleted the called run since.
func TestResumptionAfterOneThatFailedBefore(t *testing.T) {
	t.Parallel()
	c, temporal := compose(t)
	calls := note(t, "a", "b")
	broken := "ship"
	calls.fail = func(call workflows.ToolCall) error {
		if string(call.StepPath) != broken {
			return nil
		}
		return workflows.Report(&workflows.Error{Code: "tool_error", Category: codes.CategoryTool, Message: "no", StepID: broken, StepPath: workflows.StepPath(broken), Tool: "write"}, false)
	}
	id := start(t, c, composition(t, source(t, `
name: NAME
description: Calls another.
timeout: 5m
steps:
  - {id: early, tool: write, arguments: {as: ASa}, compensate: {tool: write}}
  - {id: review, type: workflow, workflow: NAME_b, dependsOn: [early]}
---
name: NAME_b
description: Is called.
timeout: 5m
steps:
  - {id: put, tool: write, arguments: {as: ASb}}
  - {id: ship, tool: write, arguments: {as: ASb}, dependsOn: [put]}
`)))
	seq := int64(0)
	ended := func() *runs.Outcome {
		t.Helper()
		all := followTo(t, c, id, seq, runs.EventDone)
		seq = all[len(all)-1].Seq
		return all[len(all)-1].Outcome
	}
	again := func(breaks string) *runs.Outcome {
		t.Helper()
		calls.mu.Lock()
		broken = breaks
		calls.mu.Unlock()
		plan := perduretest.Must(c.Resumptions().Plan(t.Context(), id, history.ResumeRequest{}))(t)
		perduretest.NoError(t, c.Resumptions().Execute(t.Context(), plan))
		return ended()
	}
	ended()
	d := perduretest.Must(c.Show(t.Context(), id))(t)
	review := d.Steps[slices.IndexFunc(d.Steps, func(s runs.StepRecord) bool { return s.Path == "review" })]
	if o := again("early"); o.Status != workflows.Failed || o.Failure.Error.StepPath != "early" {
		t.Fatalf("the first resumption came to %+v", o)
	}
	remove(t, temporal, string(review.Run))
	if o := again("none"); o.Status != workflows.Completed {
		t.Fatalf("the second resumption came to %+v", o)
	}
	if diff := cmp.Diff([]string{"early", "put", "ship", "early", "early", "ship"}, calls.paths()); diff != "" {
		t.Errorf("called were (-want +got):\n%s", diff)
	}
}

// A run that continues as new while one waits that it has called, and that is
// deleted meanwhile, says so and does not wait until its time is over. It is
// resumed with what somebody knows of the called run, or by calling it anew.
func TestCalledRunIsDeleted(t *testing.T) {
	t.Parallel()
	c, temporal := compose(t)
	calls := note(t, "a", "b")
	id := start(t, c, composition(t, source(t, busyParent)))
	gate := opened(t, c, id)
	awaitContinued(t, c, temporal, id)
	remove(t, temporal, gate.Run)
	// It looks whether the called run is there within the hour, or when a worker
	// tells it that the run ends, as here.
	told := workflows.ChildReport{RunID: gate.Run, StepPath: "review", Ends: true}
	if err := temporal.SignalWorkflow(t.Context(), string(id), "", workflows.ChildSignal, signed(workflows.ChildSignal, string(id), told)); err != nil {
		t.Fatal(err)
	}
	all := followTo(t, c, id, 0, runs.EventDone)
	outcome := all[len(all)-1].Outcome
	if outcome.Status != workflows.Failed || outcome.Failure.Error.Code != "called_run_gone" || outcome.Failure.Error.StepPath != "review" ||
		outcome.Failure.Error.Category != codes.CategoryOutcomeUnknown {
		t.Fatalf("got %+v", outcome)
	}
	if plan, err := c.Resumptions().Plan(t.Context(), id, history.ResumeRequest{}); err == nil || !strings.Contains(err.Error(), "--from review") || !strings.Contains(err.Error(), "--step-result review=") {
		t.Errorf("got %+v, %v", plan, err)
	}
	plan, err := c.Resumptions().Plan(t.Context(), id, history.ResumeRequest{From: []string{"review"}})
	if err != nil || len(plan.OutcomeUnknown) > 0 {
		t.Errorf("got %+v, %v", plan, err)
	}
	plan, err = c.Resumptions().Plan(t.Context(), id, history.ResumeRequest{Results: map[workflows.StepPath]json.RawMessage{"review": json.RawMessage(`{"said": {"text": "9"}}`)}})
	if err != nil {
		t.Fatal(err)
	}
	perduretest.NoError(t, c.Resumptions().Execute(t.Context(), plan))
	again := followTo(t, c, id, all[len(all)-1].Seq, runs.EventDone)
	if outcome := again[len(again)-1].Outcome; outcome.Status != workflows.Completed {
		t.Fatalf("got %+v", outcome)
	}
	if diff := cmp.Diff([]string{"put", "after"}, calls.paths()); diff != "" {
		t.Error(diff)
	}
}

// remove deletes a run at Temporal, and waits until it is gone.
func remove(t testing.TB, temporal client.Client, id string) {
	t.Helper()
	_, err := temporal.WorkflowService().DeleteWorkflowExecution(t.Context(), &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id},
	})
	if err != nil {
		t.Fatal(err)
	}
	var gone *serviceerror.NotFound
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if _, err = temporal.DescribeWorkflowExecution(t.Context(), id, ""); errors.As(err, &gone) {
			return
		}
	}
	t.Fatalf("run %s is not deleted: %v", id, err)
}

// A run that was terminated above one that continues takes that up again.
func TestResumptionTakesUpACalledRunThatGoesOn(t *testing.T) {
	t.Parallel()
	c, temporal := compose(t)
	calls := note(t, "a", "b")
	id := start(t, c, composition(t, source(t, parentAndChild)))
	gate := opened(t, c, id)
	perduretest.NoError(t, temporal.TerminateWorkflow(t.Context(), string(id), "", "by hand"))
	plan := perduretest.Must(c.Resumptions().Plan(t.Context(), id, history.ResumeRequest{}))(t)
	if len(plan.Steps) != 1 || plan.Steps[0].Plan != history.PlanUnderWay {
		t.Errorf("the plan is %+v", plan.Steps)
	}
	perduretest.NoError(t, c.Resumptions().Execute(t.Context(), plan))
	child := runs.RunID(gate.Run)
	answer(t, c, child, runs.Answer{ElicitationID: "ok#1", Action: "accept", Content: json.RawMessage(`{"n": 7}`), By: "bob"})
	all := followTo(t, c, id, 0, runs.EventDone)
	if outcome := all[len(all)-1].Outcome; outcome.Status != workflows.Completed {
		t.Fatalf("got %+v", outcome)
	}
	if diff := cmp.Diff([]string{"put", "ship", "after"}, calls.paths()); diff != "" {
		t.Error(diff)
	}
}

// What the called run had asked when the run above was terminated is asked through that
// again once it is resumed, and answered there; also what a run below the called one asks.
func TestResumptionTakesUpWhatACalledRunAsks(t *testing.T) {
	t.Parallel()
	below := strings.Replace(parentAndChild, "name: NAME\n", "name: NAME_m\n", 1)
	above := "name: NAME\ndescription: Calls one that calls.\ntimeout: 5m\nsteps: [{id: call, type: workflow, workflow: NAME_m}]\n---"
	for name, text := range map[string]string{"review/ok#1": parentAndChild, "call/review/ok#1": above + below} {
		c, temporal := compose(t)
		note(t, "a", "b")
		id := start(t, c, composition(t, source(t, text)))
		before := followTo(t, c, id, 0, runs.EventOpened)
		terminateAndResume(t, c, temporal, id)
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		var asked *runs.Elicitation
		for e, err := range c.Follow(ctx, id, before[len(before)-1].Seq, runs.AllEvents) {
			if err != nil {
				t.Fatal(err)
			}
			if asked = e.Elicitation; e.Kind == runs.EventOpened {
				break
			}
		}
		if asked == nil || asked.ID != name || asked.Run != before[len(before)-1].Elicitation.Run {
			t.Fatalf("asked is %+v", asked)
		}
		answer(t, c, id, runs.Answer{ElicitationID: asked.ID, Action: "accept", Content: json.RawMessage(`{"n": 7}`), By: "bob"})
		all := followTo(t, c, id, before[len(before)-1].Seq, runs.EventDone)
		for all[len(all)-1].Outcome.Status == workflows.Terminated { // before the resumption
			all = followTo(t, c, id, all[len(all)-1].Seq, runs.EventDone)
		}
		if outcome := all[len(all)-1].Outcome; outcome.Status != workflows.Completed {
			t.Errorf("%s: got %+v", name, outcome)
		}
	}
}

// A run is undone in the order in which its steps have completed, also what was
// under way when it was stopped and has completed since.
func TestCalledRunIsUndoneAsItEnded(t *testing.T) {
	t.Parallel()
	c, temporal := compose(t)
	_, outcome := takenUpAndUndone(t, c, temporal)
	if outcome.Failure == nil {
		t.Fatalf("got %+v", outcome)
	}
	if diff := cmp.Diff([]workflows.StepPath{"review", "between"}, outcome.Failure.Compensated); diff != "" {
		t.Errorf("undone are (-want +got):\n%s", diff)
	}
}

// takenUpAndUndone is a run that was terminated while one continued that it had called,
// and that was resumed: that ends after another step, and is undone with it.
func takenUpAndUndone(t *testing.T, c *runs.Client, temporal client.Client) (runs.RunID, *runs.Outcome) {
	t.Helper()
	note(t, "a", "b")
	id := start(t, c, composition(t, source(t, `
name: NAME
description: Calls another, and fails.
timeout: 5m
steps:
  - {id: review, type: workflow, workflow: NAME_b, arguments: {as: ASb}, compensate: {tool: write}}
  - {id: between, tool: write, arguments: {as: ASa}, compensate: {tool: write}}
  - {id: bad, tool: fail, dependsOn: [review, between]}
---
`+strings.SplitN(parentAndChild, "---\n", 2)[1])))
	gate := opened(t, c, id)
	for seq := int64(0); ; {
		events := followTo(t, c, id, seq, runs.EventStep)
		last := events[len(events)-1]
		if seq = last.Seq; last.StepPath == "between" && last.StepEnded {
			break
		}
	}
	terminateAndResume(t, c, temporal, id)
	answer(t, c, runs.RunID(gate.Run), runs.Answer{ElicitationID: "ok#1", Action: "accept", Content: json.RawMessage(`{"n": 7}`), By: "bob"})
	all := followTo(t, c, id, 0, runs.EventDone)
	return id, all[len(all)-1].Outcome
}

// The run above reports the progress that a backend reports to a called run.
func TestProgressOfACalledRun(t *testing.T) {
	t.Parallel()
	c, _ := compose(t)
	id := start(t, c, composition(t, `
name: NAME
description: d
steps: [{id: call, type: workflow, workflow: NAME_b}]
---
name: NAME_b
description: d
steps: [{id: work, tool: busy}]
`))
	deadline := time.Now().Add(20 * time.Second)
	for {
		told, err := c.Progress(t.Context(), id)
		if err != nil && !errors.Is(err, runs.ErrNotFound) {
			t.Fatal(err)
		}
		if len(told) == 1 && told[0].StepPath == "call/work" && told[0].Message == "half" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("told is %v", fmt.Sprint(told))
		}
		time.Sleep(50 * time.Millisecond)
	}
	perduretest.NoError(t, c.Cancel(t.Context(), id, "test"))
	if all := followTo(t, c, id, 0, runs.EventDone); all[len(all)-1].Outcome.Status != workflows.Cancelled {
		t.Errorf("got %v", tell(all))
	}
}

var record = flag.Bool("record", false, "record histories of runs that call each other that do not exist yet")

// TestRecordCalled keeps the histories of a run and of the one that it has called,
// as they are in their last executions, or in that which adopts the called run.
func TestRecordCalled(t *testing.T) {
	if !*record {
		t.Skip("records new histories only with -record")
	}
	c, temporal := compose(t)
	for _, r := range []struct {
		name, source, action string
		continued            bool
		shows                string // in the history of the run
	}{
		{name: "called", source: parentAndChild, action: "accept"},
		{name: "called_declined", source: parentAndChild, action: "decline"},
		{name: "called_adopted", source: busyParent, action: "accept", continued: true, shows: workflows.AdoptSignal},
	} {
		t.Run(r.name, func(t *testing.T) {
			id := start(t, c, composition(t, source(t, r.source)))
			gate := opened(t, c, id)
			execution := "" // the last
			if r.continued {
				awaitContinued(t, c, temporal, id)
				d := perduretest.Must(temporal.DescribeWorkflowExecution(t.Context(), string(id), ""))(t)
				execution = d.WorkflowExecutionInfo.Execution.RunId
			}
			answer(t, c, id, runs.Answer{ElicitationID: gate.ID, Action: r.action, Content: json.RawMessage(`{"n": 7}`), By: "bob"})
			followTo(t, c, id, 0, runs.EventDone)
			keep(t, temporal, string(id), execution, r.name, r.shows)
			keep(t, temporal, gate.Run, "", r.name+"_below", "")
		})
	}
	t.Run("called_undone", func(t *testing.T) {
		id, _ := takenUpAndUndone(t, c, temporal)
		keep(t, temporal, string(id), "", "called_undone", "")
	})
}

// keep writes the history of an execution, which shows a text, unless there is one of the
// name.
func keep(t *testing.T, c client.Client, id, execution, name, shows string) {
	t.Helper()
	file := filepath.Join("..", "..", "workflows", "testdata", "histories", name+".json")
	if _, err := os.Stat(file); err == nil {
		return
	}
	history := &historypb.History{}
	for events := c.GetWorkflowHistory(t.Context(), id, execution, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
		event := perduretest.Must(events.Next())(t)
		history.Events = append(history.Events, event)
	}
	data := perduretest.Must(protojson.MarshalOptions{Multiline: true, Indent: " "}.Marshal(history))(t)
	if !strings.Contains(string(data), shows) {
		t.Fatalf("the execution of %s shows no %s; record it again", name, shows)
	}
	perduretest.NoError(t, os.WriteFile(file, append(data, '\n'), 0o644))
}
