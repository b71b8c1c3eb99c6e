package runs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/perdure/perdure/internal/devserver"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/workflows"
)

// Temporal forgets the place that a follower has reached when its own state of
// the run moved on meanwhile. The follower finds its place again.
func TestFollowFindsItsPlaceAgain(t *testing.T) {
	t.Parallel()
	connect(t)
	var refused atomic.Int32
	forgetful := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		r, ok := req.(*workflowservice.GetWorkflowExecutionHistoryRequest)
		if ok && len(r.NextPageToken) > 0 && refused.Add(1)%2 == 1 {
			return status.Error(codes.InvalidArgument, "current and request branch tokens don't match")
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	tc, err := client.Dial(client.Options{
		HostPort: shared.server.Address(), Logger: slog.New(slog.DiscardHandler),
		ConnectionOptions: client.ConnectionOptions{TLS: shared.server.TLS(), DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(forgetful)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tc.Close()
	c := runs.New(runs.Config{Keys: testKeys, Client: tc})
	id := start(t, c, request(t, plain))
	events := followTo(t, c, id, 0, runs.EventDone)
	if refused.Load() == 0 {
		t.Fatal("no place was forgotten")
	}
	want := []string{
		"step look read ended=true completed (1/2)", "step save write ended=false (1/2)",
		"step save write ended=true completed (2/2)", "done completed (2/2)",
	}
	if diff := cmp.Diff(want, tell(events)); diff != "" {
		t.Error(diff)
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	id := start(t, c, request(t, gated))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for e, err := range c.Follow(ctx, id, 0, runs.AllEvents) {
		if last = err; e.Kind == runs.EventOpened {
			cancel()
		}
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", last)
	}
}

func TestFollowSurvivesARestartOfTemporal(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Temporal server")
	}
	t.Parallel()
	o := devserver.Options{Dir: t.TempDir(), SearchAttributes: runs.SearchAttributes(), Logger: slog.New(slog.DiscardHandler)}
	server := perduretest.Must(devserver.Start(t.Context(), o))(t)
	o.Listen = server.Address()
	tc := perduretest.Must(dial(server))(t)
	defer tc.Close()
	perduretest.NoError(t, startWorker(tc))
	c := runs.New(runs.Config{Keys: testKeys, Client: tc})
	id := start(t, c, request(t, gated))

	var told []runs.Event
	var answered sync.WaitGroup
	for e, err := range c.Follow(t.Context(), id, 0, runs.AllEvents) {
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, e)
		if e.Kind != runs.EventOpened {
			continue
		}
		server.Stop()
		if server, err = devserver.Start(context.Background(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Stop)
		answered.Go(func() { answerOnceReachable(t, c, id) })
	}
	answered.Wait()
	if diff := cmp.Diff(rest(t, c, id, 0), told); diff != "" {
		t.Errorf("what was told over the restart differs from what is told after it:\n%s", diff)
	}
	if len(told) != 6 {
		t.Errorf("got %q", tell(told))
	}
}

// answerOnceReachable answers when the connection to Temporal is back.
func answerOnceReachable(t *testing.T, c *runs.Client, id runs.RunID) {
	a := runs.Answer{ElicitationID: "ask#1", Action: "accept", Content: json.RawMessage(`{"count":1}`)}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := c.Answer(t.Context(), id, a)
		if !errors.Is(err, runs.ErrUnavailable) {
			if err != nil {
				t.Error(err)
			}
			return
		}
		<-tick.C
	}
}

// relay is a run that continues in a new execution after its first step and carries an
// open elicitation over.
func relay(ctx workflow.Context, in workflows.RunInput) (*workflows.RunResult, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute, Summary: workflows.Summary("look", "read")})
	gate := workflows.Elicitation{ID: "ask#1", StepID: "ask", StepPath: "ask", Message: "Shall I?", State: workflows.ElicitationOpen}
	tell := func() error {
		if gate.Opened.IsZero() {
			gate.Opened = workflow.Now(ctx)
		}
		return workflow.UpsertMemo(ctx, map[string]any{workflows.MemoState: workflows.State{Elicitations: []workflows.Elicitation{gate}}})
	}
	if in.Depth == 0 {
		if err := workflow.ExecuteActivity(ctx, workflows.CallToolName, workflows.ToolCall{Arguments: json.RawMessage(`{}`)}).Get(ctx, nil); err != nil {
			return nil, err
		}
		if err := tell(); err != nil {
			return nil, err
		}
		in.Depth++
		return nil, workflow.NewContinueAsNewError(ctx, in.WorkflowType(), in)
	}
	if err := tell(); err != nil {
		return nil, err
	}
	var s workflows.Signal
	workflow.GetSignalChannel(ctx, workflows.AnswerSignal).Receive(ctx, &s)
	a, _ := s.Answer()
	gate.State, gate.Action, gate.AnswerID = workflows.ElicitationAnswered, a.Action, a.AnswerID
	if err := tell(); err != nil {
		return nil, err
	}
	return &workflows.RunResult{Output: json.RawMessage(`"relayed"`), Skipped: []workflows.SkippedStep{{ID: "save", Why: "no need"}}}, nil
}

func TestFollowThroughContinueAsNew(t *testing.T) {
	t.Parallel()
	c, tc := connect(t)
	const queue = "relay"
	w := worker.New(tc, queue, worker.Options{})
	d := definition(t, gated)
	w.RegisterWorkflowWithOptions(relay, workflow.RegisterOptions{Name: d.Name})
	registerActivities(w, tc)
	perduretest.NoError(t, w.Start())
	defer w.Stop()
	id := runs.NewID("relay")
	input := workflows.RunInput{Definition: workflows.Pinned{Name: d.Name, Source: d.Source()}}
	options := client.StartWorkflowOptions{
		ID: string(id), TaskQueue: queue,
		TypedSearchAttributes: temporal.NewSearchAttributes(temporal.NewSearchAttributeKeyKeyword(workflows.AttrTool).ValueSet(d.Name)),
	}
	if _, err := tc.ExecuteWorkflow(t.Context(), options, input.WorkflowType(), input); err != nil {
		t.Fatal(err)
	}
	var live []runs.Event
	for e, err := range c.Follow(t.Context(), id, 0, runs.AllEvents) {
		if err != nil {
			t.Fatal(err)
		}
		if live = append(live, e); e.Kind == runs.EventOpened {
			go c.Answer(context.WithoutCancel(t.Context()), id, runs.Answer{ElicitationID: "ask#1", Action: "decline"})
		}
	}
	want := []string{
		"step look read ended=false (0/3)",
		"step look read ended=true completed (1/3)",
		"opened ask#1 open (1/3)",
		"closed ask#1 answered decline (2/3)",
		"step save  ended=true skipped (3/3)",
		"done completed (3/3)",
	}
	if diff := cmp.Diff(want, tell(live)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	for i, e := range live {
		if diff := cmp.Diff(live[i+1:], rest(t, c, id, e.Seq)); diff != "" {
			t.Errorf("after event %d (-want +got):\n%s", i, diff)
		}
	}
	detail := perduretest.Must(c.Show(t.Context(), id))(t)
	if len(detail.Steps) != 2 || detail.Steps[0].Path != "look" || detail.Outcome == nil {
		t.Errorf("got %+v", detail)
	}
}

func TestFollowARunThatWasReset(t *testing.T) {
	t.Parallel()
	c, tc := connect(t)
	yaml := strings.Replace(plain, "tool: read", "tool: write", 1)
	req := request(t, strings.Replace(yaml, "text: world", "as: reset-test", 1))
	broken.Store("reset-test", true)
	id := start(t, c, req)
	before := followTo(t, c, id, 0, runs.EventDone)
	if got := before[len(before)-1].Outcome.Status; got != workflows.Failed {
		t.Fatalf("got %s, want a failed run", got)
	}
	broken.Delete("reset-test")
	reset(t, tc, id)

	after := followTo(t, c, id, 0, runs.EventDone)
	want := []string{
		"step look write ended=false (0/2)",
		"step look write ended=true completed (1/2)",
		"step save write ended=false (1/2)",
		"step save write ended=true failed (2/2)",
		"step save write ended=false (2/2)",
		"step save write ended=true completed (2/2)",
		"done completed (2/2)",
	}
	if diff := cmp.Diff(want, tell(after)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before[:4], after[:4]); diff != "" {
		t.Errorf("events of the first execution have changed:\n%s", diff)
	}
	if diff := cmp.Diff(after[4:], rest(t, c, id, before[4].Seq)); diff != "" {
		t.Errorf("after the first end (-want +got):\n%s", diff)
	}
}

// A gate that was answered before the reset is announced anew: the answer is
// gone with what came after it.
func TestFollowAGateThatIsOpenAgain(t *testing.T) {
	t.Parallel()
	c, tc := connect(t)
	id := start(t, c, request(t, gated))
	opened := followTo(t, c, id, 0, runs.EventOpened)
	answer(t, c, id, runs.Answer{ElicitationID: "ask#1", Action: "decline", By: "bob"})
	ended := followTo(t, c, id, 0, runs.EventDone)
	var answered, to int64 // the answer, and the end of the task that took it
	history := tc.GetWorkflowHistory(t.Context(), string(id), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		e := perduretest.Must(history.Next())(t)
		switch {
		case e.EventType == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
			answered = e.EventId
		case e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED && answered > 0 && to == 0:
			to = e.EventId
		}
	}
	_, err := tc.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace:                 "default",
		WorkflowExecution:         &commonpb.WorkflowExecution{WorkflowId: string(id)},
		Reason:                    "it was the wrong answer",
		RequestId:                 string(id),
		WorkflowTaskFinishEventId: to,
		ResetReapplyExcludeTypes:  []enumspb.ResetReapplyExcludeType{enumspb.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL},
	})
	if err != nil {
		t.Fatal(err)
	}
	again := followTo(t, c, id, ended[len(ended)-1].Seq, runs.EventOpened)
	if e := again[0]; e.Kind != runs.EventOpened || e.Elicitation.ID != "ask#1" || e.Elicitation.Message != opened[len(opened)-1].Elicitation.Message {
		t.Fatalf("after the reset comes %+v", e)
	}
	answer(t, c, id, runs.Answer{ElicitationID: "ask#1", Action: "accept", Content: json.RawMessage(`{"count":1}`), By: "bob"})
	all := followTo(t, c, id, again[0].Seq, runs.EventDone)
	if all[0].Kind != runs.EventClosed || all[len(all)-1].Outcome.Status != workflows.Completed {
		t.Errorf("then comes %v", tell(all))
	}
}

// What a reset has a run ask anew has the ID of before, and another round.
func TestRoundAfterAReset(t *testing.T) {
	t.Parallel()
	c, tc := connect(t)
	id := start(t, c, request(t, gated))
	followTo(t, c, id, 0, runs.EventOpened)
	asked := func() runs.Elicitation {
		run, err := c.Get(t.Context(), id)
		if err != nil || len(run.Open()) != 1 {
			return runs.Elicitation{}
		}
		return run.Open()[0]
	}
	if e := asked(); e.ID != "ask#1" || e.Round != "" {
		t.Fatalf("at first %s is asked, in round %q", e.ID, e.Round)
	}
	_, err := tc.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: string(id)}, Reason: "ask anew", RequestId: string(id),
		WorkflowTaskFinishEventId: 4, // which has asked
	})
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); asked().Round == ""; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("asked is %+v", asked())
		}
	}
	if e := asked(); e.ID != "ask#1" {
		t.Errorf("asked is %s", e.ID)
	}
	perduretest.NoError(t, c.Terminate(t.Context(), id, "the test ends"))
}

// reset sets a failed run back to its last workflow task before the failure.
func reset(t *testing.T, c client.Client, id runs.RunID) {
	t.Helper()
	var to int64
	history := c.GetWorkflowHistory(t.Context(), string(id), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		e := perduretest.Must(history.Next())(t)
		if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
			to = a.WorkflowTaskCompletedEventId
		}
	}
	_, err := c.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace:                 "default",
		WorkflowExecution:         &commonpb.WorkflowExecution{WorkflowId: string(id)},
		Reason:                    "it works again",
		RequestId:                 string(id),
		WorkflowTaskFinishEventId: to,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// BenchmarkRun is what one call costs from Start to the event that it is done;
// "bare" is what the same workflow costs without this package.
func BenchmarkRun(b *testing.B) {
	oneStep := func(tool string) string {
		return "name: one\ndescription: One step.\nsteps:\n  - {id: only, tool: " + tool + ", arguments: {text: hello}}\n"
	}
	for _, tool := range []string{"read", "write"} {
		b.Run(tool, func(b *testing.B) {
			c, _ := connect(b)
			req := request(b, oneStep(tool))
			measure(b, func() {
				id := start(b, c, req)
				for _, err := range c.Follow(b.Context(), id, 0, runs.AllEvents) {
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		})
		b.Run(tool+", bare", func(b *testing.B) {
			_, tc := connect(b)
			req := request(b, oneStep(tool))
			input := workflows.RunInput{
				Definition: workflows.Pinned{Name: "one", Digest: req.Definition.Digest(), Source: req.Definition.Source()},
				Arguments:  req.Arguments, Tools: tools,
			}
			options := client.StartWorkflowOptions{TaskQueue: workflows.TaskQueue, EnableEagerStart: true}
			measure(b, func() {
				run, err := tc.ExecuteWorkflow(b.Context(), options, input.WorkflowType(), input)
				if err == nil {
					err = run.Get(b.Context(), nil)
				}
				if err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

func measure(b *testing.B, call func()) {
	var times []time.Duration
	for b.Loop() {
		began := time.Now()
		call()
		times = append(times, time.Since(began))
	}
	reportPercentiles(b, times)
}

func reportPercentiles(b *testing.B, times []time.Duration) {
	slices.Sort(times)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(times[len(times)*p/100])/1e6, fmt.Sprintf("p%d-ms", p))
	}
}
