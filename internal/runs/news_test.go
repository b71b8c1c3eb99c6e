package runs

import (
	"context"
	"slices"
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

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

func TestNews(t *testing.T) {
	t.Parallel()
	n := NewNews()
	sub, second, other := n.subscribe("a"), n.subscribe("a"), n.subscribe("b")
	defer other.cancel()
	n.publish("a", change{})
	n.publish("a", change{}) // is no more news than once
	n.publish("c", change{}) // nobody has subscribed
	if !sub.await(t.Context(), 0) || sub.await(t.Context(), 0) {
		t.Error("the news did not come once")
	}
	if other.await(t.Context(), time.Millisecond) {
		t.Error("news of another run came")
	}
	sub.cancel()
	n.publish("a", change{})
	if sub.await(t.Context(), 0) {
		t.Error("news came after the end")
	}
	if !second.await(t.Context(), 0) {
		t.Error("one of two was cancelled, and the other has no news")
	}
	second.cancel()
	if len(n.subscriptions) != 1 {
		t.Errorf("%d runs have subscriptions, want 1", len(n.subscriptions))
	}
	var none *News
	sub = none.subscribe("a")
	defer sub.cancel()
	if sub.await(t.Context(), time.Millisecond) || sub.latest().end != nil {
		t.Error("news came of nobody")
	}
}

// TestPressingNews: of calls and timers alone a run is not read at once.
func TestPressingNews(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		at       []time.Duration // when news comes
		pressing int             // of these, from 1; 0 = none
		came     bool
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
				sub := n.subscribe("a")
				defer sub.cancel()
				for i, at := range tc.at {
					time.AfterFunc(at, func() { n.publish("a", change{pressing: i+1 == tc.pressing}) })
				}
				begun := time.Now()
				if came := sub.awaitPressing(t.Context(), 100*time.Millisecond, 500*time.Millisecond); came != tc.came || time.Since(begun) != tc.until {
					t.Errorf("came %t after %s, want %t after %s", came, time.Since(begun), tc.came, tc.until)
				}
				time.Sleep(time.Second)
			})
		})
	}
}

// TestFreshRunsAreForgotten: a run that is not followed keeps no sub for long.
func TestFreshRunsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, f := NewNews(), freshRuns{}
		f.add("a", "1", n.subscribe("a"))
		f.add("b", "2", n.subscribe("b"))
		if r, ok := f.take("a"); !ok || r.execution != "1" {
			t.Errorf("took %+v, %t", r, ok)
		} else {
			r.news.cancel()
		}
		time.Sleep(freshFor)
		f.add("c", "3", n.subscribe("c"))
		if _, ok := f.take("b"); ok || len(n.subscriptions) != 1 {
			t.Errorf("%d runs have subscriptions after %s, want 1", len(n.subscriptions), freshFor)
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
	end := changeOf([]*commandpb.Command{completion(result)}).end
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
				c.fresh.add("a", "1", c.news.subscribe("a"))
			}
			end := changeOf([]*commandpb.Command{completion(result)}).end
			if tc.accepted != nil {
				end = nil
			}
			c.news.publish("a", change{pressing: true, end: end})
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
		if got := changeOf(tc.commands).pressing; got != tc.pressing {
			t.Errorf("%s: pressing %t", name, got)
		}
		sub := n.subscribe("a")
		n.publish("a", changeOf(tc.commands))
		if end := sub.latest().end; (end != nil) != (tc.output != "") {
			t.Errorf("%s: ended with %v", name, end)
		} else if end != nil {
			if o := history.OutcomeOf(converter.GetDefaultDataConverter(), end); o.Status != workflows.Completed || string(o.Output) != tc.output {
				t.Errorf("%s: ended with %+v", name, o)
			}
		}
		sub.cancel()
	}
}

// TestAnswerIsConfirmedByNews: what became of an answer is taken from what the worker of
// this process has published, and not from news of something else.
func TestAnswerIsConfirmedByNews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{News: NewNews()})
		sub := c.news.subscribe("a")
		defer sub.cancel()
		run := &Run{ID: "a", Status: workflows.Waiting, Elicitations: []Elicitation{{ID: "ask#1", State: workflows.ElicitationOpen}}}
		says := func(after time.Duration, e Elicitation) {
			time.AfterFunc(after, func() {
				state, err := converter.GetDefaultDataConverter().ToPayload(workflows.State{Elicitations: []Elicitation{e}})
				if err != nil {
					t.Error(err)
				}
				c.news.publish("a", changeOf([]*commandpb.Command{{Attributes: &commandpb.Command_ModifyWorkflowPropertiesCommandAttributes{
					ModifyWorkflowPropertiesCommandAttributes: &commandpb.ModifyWorkflowPropertiesCommandAttributes{
						UpsertedMemo: &commonpb.Memo{Fields: map[string]*commonpb.Payload{workflows.MemoState: state}}}}}}))
			})
		}
		time.AfterFunc(time.Millisecond, func() { c.news.publish("a", change{pressing: true}) })
		says(2*time.Millisecond, run.Elicitations[0])
		says(3*time.Millisecond, Elicitation{ID: "ask#1", State: workflows.ElicitationAnswered, Action: "accept", By: "bob", AnswerID: "mine"})
		began := time.Now()
		d, now, err := c.confirm(t.Context(), run, workflows.Answer{ElicitationID: "ask#1", AnswerID: "mine"}, sub)
		if err != nil || !d.Won || d.By != "bob" || now.Status != workflows.Running || len(now.Open()) != 0 || time.Since(began) != 3*time.Millisecond {
			t.Errorf("after %s: %+v, %+v, %v", time.Since(began), d, now, err)
		}
		if run.Status != workflows.Waiting || len(run.Open()) != 1 {
			t.Errorf("the run as it was read has changed: %+v", run)
		}
		if came := c.awaitNews(t.Context(), run, c.news.subscribe("a"), "ask#1"); came != nil || time.Since(began) != 3*time.Millisecond+nearby {
			t.Errorf("without news, after %s: %+v", time.Since(began), came)
		}
	})
}

// TestFreshRunIsReplaced: a run that is started here and then answered keeps one sub.
func TestFreshRunIsReplaced(t *testing.T) {
	t.Parallel()
	n, f := NewNews(), freshRuns{}
	f.add("a", "1", n.subscribe("a"))
	f.add("a", "1", n.subscribe("a"))
	if subscribed := len(n.subscriptions["a"]); subscribed != 1 {
		t.Errorf("%d subscriptions, want 1", subscribed)
	}
	if r, ok := f.take("a"); !ok || r.execution != "1" {
		t.Errorf("took %+v, %t", r, ok)
	}
}

// TestClosingIsKnown: the closing of the last elicitation by a client's answer is not pressing
// for the one who follows the run beside that answer.
func TestClosingIsKnown(t *testing.T) {
	t.Parallel()
	state := perduretest.Must(converter.GetDefaultDataConverter().ToPayload(workflows.State{}))(t)
	memo := &commandpb.Command{CommandType: enumspb.COMMAND_TYPE_MODIFY_WORKFLOW_PROPERTIES, Attributes: &commandpb.Command_ModifyWorkflowPropertiesCommandAttributes{
		ModifyWorkflowPropertiesCommandAttributes: &commandpb.ModifyWorkflowPropertiesCommandAttributes{
			UpsertedMemo: &commonpb.Memo{Fields: map[string]*commonpb.Payload{workflows.MemoState: state}}}}}
	closes := []*commandpb.Command{shows(t, ""), memo}
	for name, tc := range map[string]struct {
		commands  []*commandpb.Command
		answers   bool // the client of the one who follows
		followers int
		pressing  bool
	}{
		"closed by its answer":     {closes, true, 1, false},
		"closed elsewhere":         {closes, false, 1, true},
		"closed for another":       {closes, true, 2, true},
		"another one is open":      {[]*commandpb.Command{shows(t, workflows.Waiting), memo}, true, 1, true},
		"another one opens":        {slices.Concat(closes, []*commandpb.Command{shows(t, workflows.Waiting), memo}), true, 1, true},
		"the run ends with that":   {slices.Concat(closes, []*commandpb.Command{completion(nil)}), true, 1, true},
		"only the state has other": {[]*commandpb.Command{memo}, true, 1, true},
	} {
		n := NewNews()
		answer := n.subscribe("a")
		answer.forAnswer(tc.answers)
		var followers []*subscription
		for range tc.followers {
			followers = append(followers, n.subscribe("a"))
		}
		n.publish("a", changeOf(tc.commands))
		for _, f := range followers {
			if got := f.latest(); got.pressing != tc.pressing || got.memo == nil {
				t.Errorf("%s: pressing %t with %v", name, got.pressing, got.memo)
			}
		}
		answer.forAnswer(false)
		n.publish("a", changeOf(closes))
		if !followers[0].latest().pressing {
			t.Errorf("%s: not pressing once the answer is given", name)
		}
	}
}

// shows is the command with which a run shows a status; "" = none.
func shows(t *testing.T, s workflows.Status) *commandpb.Command {
	t.Helper()
	var shown any
	if s != "" {
		shown = s
	}
	value := perduretest.Must(converter.GetDefaultDataConverter().ToPayload(shown))(t)
	return &commandpb.Command{CommandType: enumspb.COMMAND_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES, Attributes: &commandpb.Command_UpsertWorkflowSearchAttributesCommandAttributes{
		UpsertWorkflowSearchAttributesCommandAttributes: &commandpb.UpsertWorkflowSearchAttributesCommandAttributes{
			SearchAttributes: &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{workflows.AttrStatus: value}}}}}
}
