package runs

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc"

	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

func TestNews(t *testing.T) {
	t.Parallel()
	n := NewNews()
	ear, second, other := n.about("a"), n.about("a"), n.about("b")
	defer other.leave()
	n.tell("a", false, nil, nil)
	n.tell("a", false, nil, nil) // is no more news than once
	n.tell("c", false, nil, nil) // nobody listens
	if !ear.hear(t.Context(), 0) || ear.hear(t.Context(), 0) {
		t.Error("the news did not come once")
	}
	if other.hear(t.Context(), time.Millisecond) {
		t.Error("news of another run came")
	}
	ear.leave()
	n.tell("a", false, nil, nil)
	if ear.hear(t.Context(), 0) {
		t.Error("news came after done")
	}
	if !second.hear(t.Context(), 0) {
		t.Error("one of two listens no more, and the other was not told")
	}
	second.leave()
	if len(n.listening) != 1 {
		t.Errorf("%d runs are listened to, want 1", len(n.listening))
	}
	var none *News
	ear = none.about("a")
	defer ear.leave()
	if ear.hear(t.Context(), time.Millisecond) || ear.ended() != nil {
		t.Error("news came of nobody")
	}
}

// TestPressingNews: of calls and timers alone a run is not read at once.
func TestPressingNews(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		at       []time.Duration // when news comes
		pressing int             // of these, from 1; 0 = none
		heard    bool
		until    time.Duration
	}{
		"none":           {nil, 0, false, 100 * time.Millisecond},
		"pressing":       {[]time.Duration{30 * time.Millisecond}, 1, true, 30 * time.Millisecond},
		"not pressing":   {[]time.Duration{30 * time.Millisecond, 400 * time.Millisecond}, 0, true, 500 * time.Millisecond},
		"pressing later": {[]time.Duration{30 * time.Millisecond, 400 * time.Millisecond}, 2, true, 400 * time.Millisecond},
		"too late":       {[]time.Duration{130 * time.Millisecond}, 1, false, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := NewNews()
				ear := n.about("a")
				defer ear.leave()
				for i, at := range tc.at {
					time.AfterFunc(at, func() { n.tell("a", i+1 == tc.pressing, nil, nil) })
				}
				begun := time.Now()
				if heard := ear.hearPressing(t.Context(), 100*time.Millisecond, 500*time.Millisecond); heard != tc.heard || time.Since(begun) != tc.until {
					t.Errorf("heard %t after %s, want %t after %s", heard, time.Since(begun), tc.heard, tc.until)
				}
				time.Sleep(time.Second)
			})
		})
	}
}

// TestFreshRunsAreForgotten: a run that is not followed keeps no ear for long.
func TestFreshRunsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, f := NewNews(), freshRuns{}
		f.add("a", "1", n.about("a"))
		f.add("b", "2", n.about("b"))
		if r, ok := f.take("a"); !ok || r.execution != "1" {
			t.Errorf("took %+v, %t", r, ok)
		} else {
			r.news.leave()
		}
		time.Sleep(freshFor)
		f.add("c", "3", n.about("c"))
		if _, ok := f.take("b"); ok || len(n.listening) != 1 {
			t.Errorf("%d runs are listened to after %s, want 1", len(n.listening), freshFor)
		}
	})
}

// A finisher is a Temporal that accepts the completion of a run, and has no history.
type finisher struct {
	workflowservice.WorkflowServiceClient
	t     *testing.T
	reads int
}

func (f *finisher) GetWorkflowExecutionHistory(context.Context, *workflowservice.GetWorkflowExecutionHistoryRequest, ...grpc.CallOption) (*workflowservice.GetWorkflowExecutionHistoryResponse, error) {
	f.reads++
	result, err := converter.GetDefaultDataConverter().ToPayloads(workflows.RunResult{Output: []byte(`"read"`)})
	if err != nil {
		f.t.Error(err)
	}
	end := completes([]*commandpb.Command{completion(result)})
	end.EventId = 7
	return &workflowservice.GetWorkflowExecutionHistoryResponse{History: &historypb.History{Events: []*historypb.HistoryEvent{end}}}, nil
}

func completion(result *commonpb.Payloads) *commandpb.Command {
	return &commandpb.Command{CommandType: enumspb.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION, Attributes: &commandpb.Command_CompleteWorkflowExecutionCommandAttributes{
		CompleteWorkflowExecutionCommandAttributes: &commandpb.CompleteWorkflowExecutionCommandAttributes{Result: result}}}
}

// TestEndIsHandedOver: who wants no more than essentials gets the end of a run that this
// process has started and executed without a request to Temporal, once Temporal has
// accepted it, also where it came before the run was followed.
func TestEndIsHandedOver(t *testing.T) {
	t.Parallel()
	result, err := converter.GetDefaultDataConverter().ToPayloads(workflows.RunResult{Output: []byte(`"told"`)})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		only     Interest
		started  bool  // by this process
		accepted error // of the completion
		want     string
	}{
		"handed over":       {Essentials, true, nil, `"told"`},
		"all events wanted": {AllEvents, true, nil, `"read"`},
		"attached":          {Essentials, false, nil, `"read"`},
		"not accepted":      {Essentials, true, context.DeadlineExceeded, `"read"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &finisher{t: t}
			c := New(Config{News: NewNews()})
			c.temporal = server{service: described{f}}
			if tc.started {
				c.fresh.add("a", "1", c.news.about("a"))
			}
			end := completes([]*commandpb.Command{completion(result)})
			if tc.accepted != nil {
				end = nil
			}
			c.news.tell("a", true, nil, end)
			var got []Event
			for e, err := range c.Follow(t.Context(), "a", 0, tc.only) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, e)
			}
			if len(got) != 1 || got[0].Kind != EventDone || string(got[0].Outcome.Output) != tc.want || got[0].Seq <= 0 {
				t.Errorf("got %+v, want the end with %s", got, tc.want)
			}
			if (f.reads == 0) != (tc.want == `"told"`) {
				t.Errorf("the history was read %d times", f.reads)
			}
		})
	}
}

// described is a Temporal that has one execution of each run.
type described struct{ *finisher }

func (described) DescribeWorkflowExecution(context.Context, *workflowservice.DescribeWorkflowExecutionRequest, ...grpc.CallOption) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: "a", RunId: "1"}, FirstRunId: "1",
		SearchAttributes: &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{workflows.AttrTool: {}}},
	}}, nil
}

// TestEndInNews: the end in the news says what Temporal's own event says.
func TestEndInNews(t *testing.T) {
	t.Parallel()
	n := NewNews()
	result, err := converter.GetDefaultDataConverter().ToPayloads(workflows.RunResult{Output: []byte(`{"n":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	upsert := &commandpb.Command{CommandType: enumspb.COMMAND_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES}
	memo := &commandpb.Command{CommandType: enumspb.COMMAND_TYPE_MODIFY_WORKFLOW_PROPERTIES}
	for name, tc := range map[string]struct {
		commands []*commandpb.Command
		pressing bool
		output   string
	}{
		"completes":   {[]*commandpb.Command{upsert, completion(result)}, true, `{"n":1}`},
		"asks":        {[]*commandpb.Command{upsert, memo}, true, ""},
		"only upsert": {[]*commandpb.Command{upsert}, false, ""},
		"nothing":     {nil, false, ""},
	} {
		if got := pressing(tc.commands); got != tc.pressing {
			t.Errorf("%s: pressing %t", name, got)
		}
		ear := n.about("a")
		n.tell("a", pressing(tc.commands), nil, completes(tc.commands))
		if end := ear.ended(); (end != nil) != (tc.output != "") {
			t.Errorf("%s: ended with %v", name, end)
		} else if end != nil {
			if o := history.OutcomeOf(converter.GetDefaultDataConverter(), end); o.Status != workflows.Completed || string(o.Output) != tc.output {
				t.Errorf("%s: ended with %+v", name, o)
			}
		}
		ear.leave()
	}
}

// TestAnswerIsConfirmedByNews: what became of an answer is taken from what the worker of
// this process has published, and not from news of something else.
func TestAnswerIsConfirmedByNews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{News: NewNews()})
		ear := c.news.about("a")
		defer ear.leave()
		run := &Run{ID: "a", Status: workflows.Waiting, Elicitations: []Elicitation{{ID: "ask#1", State: workflows.ElicitationOpen}}}
		says := func(after time.Duration, e Elicitation) {
			time.AfterFunc(after, func() {
				state, err := converter.GetDefaultDataConverter().ToPayload(workflows.State{Elicitations: []Elicitation{e}})
				if err != nil {
					t.Error(err)
				}
				c.news.tell("a", true, published([]*commandpb.Command{{Attributes: &commandpb.Command_ModifyWorkflowPropertiesCommandAttributes{
					ModifyWorkflowPropertiesCommandAttributes: &commandpb.ModifyWorkflowPropertiesCommandAttributes{
						UpsertedMemo: &commonpb.Memo{Fields: map[string]*commonpb.Payload{workflows.MemoState: state}}}}}}), nil)
			})
		}
		time.AfterFunc(time.Millisecond, func() { c.news.tell("a", true, nil, nil) })
		says(2*time.Millisecond, run.Elicitations[0])
		says(3*time.Millisecond, Elicitation{ID: "ask#1", State: workflows.ElicitationAnswered, Action: "accept", By: "bob", AnswerID: "mine"})
		began := time.Now()
		d, now, err := c.confirm(t.Context(), run, workflows.Answer{ElicitationID: "ask#1", AnswerID: "mine"}, ear)
		if err != nil || !d.Won || d.By != "bob" || now.Status != workflows.Running || len(now.Open()) != 0 || time.Since(began) != 3*time.Millisecond {
			t.Errorf("after %s: %+v, %+v, %v", time.Since(began), d, now, err)
		}
		if run.Status != workflows.Waiting || len(run.Open()) != 1 {
			t.Errorf("the run as it was read has changed: %+v", run)
		}
		if heard := c.hear(t.Context(), run, c.news.about("a"), "ask#1"); heard != nil || time.Since(began) != 3*time.Millisecond+nearby {
			t.Errorf("without news, after %s: %+v", time.Since(began), heard)
		}
	})
}

// TestFreshRunIsReplaced: a run that is started here and then answered keeps one ear.
func TestFreshRunIsReplaced(t *testing.T) {
	t.Parallel()
	n, f := NewNews(), freshRuns{}
	f.add("a", "1", n.about("a"))
	f.add("a", "1", n.about("a"))
	if listening := len(n.listening["a"]); listening != 1 {
		t.Errorf("%d ears listen, want 1", listening)
	}
	if r, ok := f.take("a"); !ok || r.execution != "1" {
		t.Errorf("took %+v, %t", r, ok)
	}
}
