package runs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// A script writes a history: one event per call, with IDs from 1 in each execution.
type script struct {
	events     []*historypb.HistoryEvent // of the execution that is written
	executions []written                 // before it
	copied     int64                     // of events
}

type written struct {
	events []*historypb.HistoryEvent
	copied int64
}

// reset continues in an execution that has copied the events of the last one up to the
// given one; the next one records the reset.
func (s *script) reset(last int64) {
	s.executions = append(s.executions, written{s.events, s.copied})
	s.events, s.copied = slices.Clone(s.events[:last]), last+1
	s.add(enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED, "", func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_WorkflowTaskFailedEventAttributes{WorkflowTaskFailedEventAttributes: &historypb.WorkflowTaskFailedEventAttributes{Cause: enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW}}
	})
}

// read is what the history says.
func (s *script) read(c converter.DataConverter) (moments []history.Moment) {
	fold := history.New(c, nil)
	for i, x := range append(slices.Clone(s.executions), written{s.events, s.copied}) {
		fold.Begin(fmt.Sprint("execution ", i), x.copied)
		for _, e := range x.events {
			moments = append(moments, fold.Add(e))
		}
	}
	return moments
}

func (s *script) add(kind enumspb.EventType, summary string, fill func(*historypb.HistoryEvent)) int64 {
	id := int64(len(s.events) + 1)
	e := &historypb.HistoryEvent{EventId: id, EventType: kind, EventTime: timestamppb.New(time.Unix(1000+id, 0))}
	if summary != "" {
		e.UserMetadata = &sdkpb.UserMetadata{Summary: payload(summary)}
	}
	fill(e)
	s.events = append(s.events, e)
	return id
}

func payload(v any) *commonpb.Payload {
	p, err := converter.GetDefaultDataConverter().ToPayload(v)
	if err != nil {
		panic(err)
	}
	return p
}

func payloads(v any) *commonpb.Payloads {
	return &commonpb.Payloads{Payloads: []*commonpb.Payload{payload(v)}}
}

func (s *script) start(steps string) {
	in := workflows.RunInput{Definition: workflows.Pinned{Source: json.RawMessage(`{"steps":` + steps + `}`)}}
	s.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, "", func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes{WorkflowExecutionStartedEventAttributes: &historypb.WorkflowExecutionStartedEventAttributes{Input: payloads(in)}}
	})
}

func (s *script) schedule(summary string) int64 {
	return s.add(enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, summary, func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_ActivityTaskScheduledEventAttributes{ActivityTaskScheduledEventAttributes: &historypb.ActivityTaskScheduledEventAttributes{Input: payloads(workflows.ToolCall{Arguments: json.RawMessage(`{"a":1}`)})}}
	})
}

func (s *script) startActivity(scheduled int64, attempt int32) {
	s.add(enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED, "", func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_ActivityTaskStartedEventAttributes{ActivityTaskStartedEventAttributes: &historypb.ActivityTaskStartedEventAttributes{ScheduledEventId: scheduled, Attempt: attempt}}
	})
}

func (s *script) complete(scheduled int64, output string) {
	s.add(enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED, "", func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_ActivityTaskCompletedEventAttributes{ActivityTaskCompletedEventAttributes: &historypb.ActivityTaskCompletedEventAttributes{ScheduledEventId: scheduled, Result: payloads(workflows.ToolResult{Output: json.RawMessage(output)})}}
	})
}

func (s *script) fail(scheduled int64, e Error) {
	s.add(enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED, "", func(ev *historypb.HistoryEvent) {
		ev.Attributes = &historypb.HistoryEvent_ActivityTaskFailedEventAttributes{ActivityTaskFailedEventAttributes: &historypb.ActivityTaskFailedEventAttributes{ScheduledEventId: scheduled, Failure: applicationFailure(e.Message, e)}}
	})
}

func (s *script) timeOut(scheduled int64) { s.timeOutOf(scheduled, timeoutFailure()) }

func (s *script) timeOutOf(scheduled int64, f *failurepb.Failure) {
	s.add(enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT, "", func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_ActivityTaskTimedOutEventAttributes{ActivityTaskTimedOutEventAttributes: &historypb.ActivityTaskTimedOutEventAttributes{ScheduledEventId: scheduled, Failure: f}}
	})
}

func (s *script) cancel(scheduled int64) {
	s.add(enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCELED, "", func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_ActivityTaskCanceledEventAttributes{ActivityTaskCanceledEventAttributes: &historypb.ActivityTaskCanceledEventAttributes{ScheduledEventId: scheduled}}
	})
}

func (s *script) local(summary string, f *failurepb.Failure) {
	s.add(enumspb.EVENT_TYPE_MARKER_RECORDED, summary, func(e *historypb.HistoryEvent) {
		a := &historypb.MarkerRecordedEventAttributes{MarkerName: "LocalActivity", Failure: f}
		if f == nil {
			a.Details = map[string]*commonpb.Payloads{"result": payloads(workflows.ToolResult{Output: json.RawMessage(`{"x":1}`)})}
		}
		e.Attributes = &historypb.HistoryEvent_MarkerRecordedEventAttributes{MarkerRecordedEventAttributes: a}
	})
}

func (s *script) state(gates ...Elicitation) {
	s.add(enumspb.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED, "", func(e *historypb.HistoryEvent) {
		for i := range gates {
			gates[i].Opened = e.EventTime.AsTime() // readers keep the first
		}
		e.Attributes = &historypb.HistoryEvent_WorkflowPropertiesModifiedEventAttributes{WorkflowPropertiesModifiedEventAttributes: &historypb.WorkflowPropertiesModifiedEventAttributes{UpsertedMemo: &commonpb.Memo{
			Fields: map[string]*commonpb.Payload{workflows.MemoState: payload(workflows.State{Elicitations: gates})},
		}}}
	})
}

func (s *script) succeed() {
	s.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, "", func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_WorkflowExecutionCompletedEventAttributes{WorkflowExecutionCompletedEventAttributes: &historypb.WorkflowExecutionCompletedEventAttributes{Result: payloads(workflows.RunResult{Output: json.RawMessage(`12345678901234567890`)})}}
	})
}

func (s *script) failRun(f *failurepb.Failure) {
	s.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED, "", func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_WorkflowExecutionFailedEventAttributes{WorkflowExecutionFailedEventAttributes: &historypb.WorkflowExecutionFailedEventAttributes{Failure: f}}
	})
}

func (s *script) terminate(reason string) {
	s.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, "", func(e *historypb.HistoryEvent) {
		e.Attributes = &historypb.HistoryEvent_WorkflowExecutionTerminatedEventAttributes{WorkflowExecutionTerminatedEventAttributes: &historypb.WorkflowExecutionTerminatedEventAttributes{Reason: reason}}
	})
}

func applicationFailure(message string, detail any) *failurepb.Failure {
	return &failurepb.Failure{Message: message, FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Details: payloads(detail)}}}
}

func timeoutFailure() *failurepb.Failure {
	return &failurepb.Failure{Message: "too slow", FailureInfo: &failurepb.Failure_TimeoutFailureInfo{TimeoutFailureInfo: &failurepb.TimeoutFailureInfo{}}}
}

// goneFailure is that of a call whose worker sent no more heartbeats.
func goneFailure() *failurepb.Failure {
	f := timeoutFailure()
	f.GetTimeoutFailureInfo().TimeoutType = enumspb.TIMEOUT_TYPE_HEARTBEAT
	return f
}

func gateOf(id string, state ElicitationState) Elicitation {
	e := Elicitation{ID: id, StepPath: workflows.StepPath(strings.TrimSuffix(id, "#1")), Message: "Ok?", State: state}
	if state == workflows.ElicitationAnswered {
		e.Action = "accept"
	}
	return e
}

func TestReaders(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		write func(*script)
		want  []string // events
		steps []string // records
	}{
		{
			name: "regular and local calls",
			write: func(s *script) {
				s.start(`[{"id":"a"},{"id":"b","dependsOn":["a"]}]`)
				s.local("a: look", nil)
				n := s.schedule("b: save: it")
				s.startActivity(n, 3)
				s.complete(n, `{"n":9007199254740993}`)
				s.succeed()
			},
			want: []string{
				"2 step a ended completed 1/2", "3 step b started 1/2", "5 step b ended completed 2/2", "6 done completed 2/2",
			},
			steps: []string{`a look completed 1  {"x":1}`, `b save: it completed 3 {"a":1} {"n":9007199254740993}`},
		},
		{
			name: "a quick read that was too slow goes on as an activity",
			write: func(s *script) {
				s.start(`[{"id":"a"}]`)
				s.local("a: look", timeoutFailure())
				n := s.schedule("a: look")
				s.startActivity(n, 1)
				s.complete(n, `{}`)
			},
			want:  []string{"3 step a started 0/1", "5 step a ended completed 1/1"},
			steps: []string{`a look completed 2 {"a":1} {}`},
		},
		{
			name: "a quick read that was too slow for its step, too, has ended",
			write: func(s *script) {
				s.start(`[{"id":"a","onError":{"action":"continue"}},{"id":"b"}]`)
				s.local("a: look", timeoutFailure())
				s.complete(s.schedule("b: save"), `{}`)
			},
			want:  []string{"3 step b started 0/2", "4 step a ended timed_out 1/2", "4.1 step b ended completed 2/2"},
			steps: []string{`a look timed_out 1   too slow`, `b save completed 0 {"a":1} {}`},
		},
		{
			name: "a forEach is done when a step after it starts, a skipped step too",
			write: func(s *script) {
				s.start(`[{"id":"each","type":"forEach"},{"id":"skipped","dependsOn":["each"]},{"id":"last","dependsOn":["skipped"]}]`)
				s.local("each[0]: look", nil)
				s.local("each[1]: look", nil)
				s.schedule("last: save")
			},
			want: []string{"2 step each[0] ended completed 0/3", "3 step each[1] ended completed 0/3", "4 step last started 2/3"},
			steps: []string{
				`each[0] look completed 1  {"x":1}`, `each[1] look completed 1  {"x":1}`, `last save running 0 {"a":1} `,
			},
		},
		{
			name: "a step is not done while it is found out whether its call was executed, and is to be made again",
			write: func(s *script) {
				s.start(`[{"id":"a","onUnknown":"ask"},{"id":"b","dependsOn":["a"]},{"id":"c"}]`)
				s.fail(s.schedule("a: pay"), Error{Code: "connection_lost", Category: codes.CategoryOutcomeUnknown, Message: "lost"})
				s.complete(s.schedule("a/probe#1: look"), `{}`)
				asked := workflows.Elicitation{Kind: workflows.Reconciliation, ID: "a/reconciliation#1", StepID: "a", StepPath: "a/reconciliation", State: workflows.ElicitationOpen}
				s.state(asked)
				asked.State, asked.Action = workflows.ElicitationAnswered, "accept"
				s.state(asked)
				s.timeOut(s.schedule("a: pay"))
				s.schedule("b: save")
			},
			want: []string{
				"2 step a started 0/3", "3 step a ended failed 0/3", "4 step a/probe#1 started 0/3", "5 step a/probe#1 ended completed 0/3",
				"6 opened a/reconciliation#1 0/3", "7 closed a/reconciliation#1 0/3",
				"8 step a started 0/3", "9 step a ended timed_out 0/3", "10 step b started 1/3",
			},
			steps: []string{
				`a pay failed 0 {"a":1}  lost`, `a/probe#1 look completed 0 {"a":1} {}`, `a/reconciliation  completed 0  {"action":"accept"}`,
				`a pay timed_out 0 {"a":1}  too slow`, `b save running 0 {"a":1} `,
			},
		},
		{
			name: "failed, timed out and cancelled calls",
			write: func(s *script) {
				s.start(`[{"id":"a"},{"id":"b"},{"id":"c"}]`)
				a, b, c := s.schedule("a: x"), s.schedule("b: x"), s.schedule("c: x")
				s.fail(a, Error{Code: "tool_error", Message: "no such file"})
				s.timeOut(b)
				s.cancel(c)
			},
			want: []string{
				"2 step a started 0/3", "3 step b started 0/3", "4 step c started 0/3",
				"5 step a ended failed 1/3", "6 step b ended timed_out 2/3", "7 step c ended cancelled 3/3",
			},
			steps: []string{`a x failed 0 {"a":1}  no such file`, `b x timed_out 0 {"a":1}  too slow`, `c x cancelled 0 {"a":1} `},
		},
		{
			name: "a call whose worker is gone",
			write: func(s *script) {
				s.start(`[{"id":"a"}]`)
				s.timeOutOf(s.schedule("a: x"), goneFailure())
			},
			want:  []string{"2 step a started 0/1", "3 step a ended failed 1/1"},
			steps: []string{`a x failed 0 {"a":1}  the worker that made the call ended, or was cut off from Temporal`},
		},
		{
			name: "a timeout is not told in words of retries",
			write: func(s *script) {
				s.start(`[{"id":"a"},{"id":"b"}]`)
				f := timeoutFailure()
				f.Message = "Not enough time to schedule next retry before activity ScheduleToClose timeout, giving up retrying"
				f.GetTimeoutFailureInfo().TimeoutType = enumspb.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE
				s.timeOutOf(s.schedule("a: x"), f)
				f = proto.Clone(f).(*failurepb.Failure)
				f.Cause = applicationFailure("no", Error{Code: "tool_error", Category: codes.CategoryTool, Message: "no"})
				s.timeOutOf(s.schedule("b: x"), f)
			},
			want: []string{"2 step a started 0/2", "3 step a ended timed_out 1/2", "4 step b started 1/2", "5 step b ended timed_out 2/2"},
			steps: []string{
				`a x timed_out 0 {"a":1}  the call took longer than it may`,
				`b x timed_out 0 {"a":1}  the call took longer than it may; the attempt before failed: no`,
			},
		},
		{
			name: "parallel calls of one step count once, when all have ended",
			write: func(s *script) {
				s.start(`[{"id":"a"}]`)
				one, two := s.schedule("a/x: y"), s.schedule("a/z: y")
				s.complete(one, `{}`)
				s.complete(two, `{}`)
			},
			want:  []string{"2 step a/x started 0/1", "3 step a/z started 0/1", "4 step a/x ended completed 0/1", "5 step a/z ended completed 1/1"},
			steps: []string{`a/x y completed 0 {"a":1} {}`, `a/z y completed 0 {"a":1} {}`},
		},
		{
			name: "gates open and close, several in one event",
			write: func(s *script) {
				s.start(`[{"id":"a"},{"id":"b"}]`)
				s.state(gateOf("a#1", workflows.ElicitationOpen))
				s.state(gateOf("a#1", workflows.ElicitationOpen)) // nothing new
				s.state(gateOf("a#1", workflows.ElicitationAnswered), gateOf("b#1", workflows.ElicitationOpen))
				s.state(gateOf("a#1", workflows.ElicitationAnswered), gateOf("b#1", workflows.ElicitationExpired))
			},
			want: []string{"2 opened a#1 0/2", "4 closed a#1 1/2", "4.1 opened b#1 1/2", "5 closed b#1 2/2"},
			steps: []string{
				`a Ok? completed 0  {"action":"accept"}`, `b Ok? timed_out 0  `,
			},
		},
		{
			name: "a call that lacks a credential is not done, nor is it when the credential is there",
			write: func(s *script) {
				s.start(`[{"id":"a"},{"id":"b"}]`)
				n := s.schedule("a: x")
				s.startActivity(n, 1)
				s.fail(n, Error{Code: "credentials_needed", Category: codes.CategoryCredentials, Message: "it has expired"})
				gate := Elicitation{ID: "a/credentials#1", Kind: workflows.Credentials, StepPath: "a/credentials", Message: "it has expired", State: workflows.ElicitationOpen}
				s.state(gate)
				gate.State, gate.Action = workflows.ElicitationAnswered, "accept"
				s.state(gate)
				s.complete(s.schedule("a: x"), `{}`)
			},
			want: []string{
				"2 step a started 0/2", "4 step a ended needs_credentials 0/2", "5 opened a/credentials#1 0/2", "6 closed a/credentials#1 0/2",
				"7 step a started 0/2", "8 step a ended completed 1/2",
			},
			steps: []string{
				`a x needs_credentials 1 {"a":1}  it has expired`, `a/credentials it has expired completed 0  {"action":"accept"}`, `a x completed 0 {"a":1} {}`,
			},
		},
		{
			name: "a run that was terminated leaves nothing running",
			write: func(s *script) {
				s.start(`[{"id":"a"},{"id":"b"}]`)
				s.schedule("a: x")
				s.state(gateOf("b#1", workflows.ElicitationOpen))
				s.terminate("enough")
			},
			want:  []string{"2 step a started 0/2", "3 opened b#1 0/2", "4 done terminated 0/2"},
			steps: []string{`a x terminated 0 {"a":1} `, `b Ok? terminated 0  `},
		},
		{
			name: "a call that was under way when the run was reset ends afterwards, and one that had ended is not told again",
			write: func(s *script) {
				s.start(`[{"id":"a"},{"id":"b"},{"id":"c"}]`)
				a, b := s.schedule("a: x"), s.schedule("b: x")
				s.complete(a, `{}`)
				s.schedule("c: x")
				s.terminate("reset")
				s.reset(4)
				s.complete(b, `{"n":1}`)
				s.complete(s.schedule("c: x"), `{}`)
				s.succeed()
			},
			want: []string{
				"2 step a started 0/3", "3 step b started 0/3", "4 step a ended completed 1/3", "5 step c started 1/3", "6 done terminated 1/3",
				"6 step b ended completed 2/3", "7 step c started 2/3", "8 step c ended completed 3/3", "9 done completed 3/3",
			},
			steps: []string{
				`a x completed 0 {"a":1} {}`, `b x completed 0 {"a":1} {"n":1}`, `c x terminated 0 {"a":1} `, `c x completed 0 {"a":1} {}`,
			},
		},
		{
			name: "a reset opens what was answered after it, and drops what was asked",
			write: func(s *script) {
				s.start(`[{"id":"a"},{"id":"b"}]`)
				s.state(gateOf("a#1", workflows.ElicitationOpen))
				s.state(gateOf("a#1", workflows.ElicitationAnswered), gateOf("b#1", workflows.ElicitationOpen))
				s.reset(2)
				s.state(gateOf("a#1", workflows.ElicitationExpired))
			},
			want: []string{
				"2 opened a#1 0/2", "3 closed a#1 1/2", "3.1 opened b#1 1/2",
				"3 closed b#1 2/2", "3.1 opened a#1 2/2", "4 closed a#1 2/2",
			},
			steps: []string{`a Ok? timed_out 0  `, `b Ok? cancelled 0  `},
		},
		{
			name: "activities and markers of nobody",
			write: func(s *script) {
				s.start(`[{"id":"a"}]`)
				n := s.schedule("")
				s.startActivity(n, 1)
				s.complete(n, `{}`)
				s.complete(99, `{}`)
				s.schedule("no path")
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &script{}
			tt.write(s)
			followed, shown := newStream(nil, ""), newDetailed()
			var got []string
			for _, m := range s.read(converter.GetDefaultDataConverter()) {
				shown.add(m)
				for _, event := range followed.add(m) {
					got = append(got, line(event))
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			var steps []string
			for _, r := range shown.steps.all() {
				steps = append(steps, strings.TrimSuffix(fmt.Sprintf("%s %s %s %d %s %s %s", r.Path, r.What, r.Status, r.Attempts, r.Arguments, r.Output, r.Error), " "))
			}
			if diff := cmp.Diff(tt.steps, steps); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReadEndsWhenItDid: a read that failed has ended when it did, and not when the next
// event showed that it does not go on.
func TestReadEndsWhenItDid(t *testing.T) {
	t.Parallel()
	s := &script{}
	s.start(`[{"id":"a"},{"id":"b"}]`)
	s.local("a: look", timeoutFailure())
	s.complete(s.schedule("b: save"), `{}`)
	var ended []time.Time
	followed := newStream(nil, "")
	for _, m := range s.read(converter.GetDefaultDataConverter()) {
		for _, event := range followed.add(m) {
			if event.StepEnded {
				ended = append(ended, event.At)
			}
		}
	}
	if len(ended) != 2 || !ended[1].After(ended[0]) {
		t.Errorf("they ended at %v", ended)
	}
}

func line(e Event) string {
	id := fmt.Sprint(e.Seq & (1<<seqChainBits - 1) >> seqEventBits)
	if n := e.Seq & (1<<seqEventBits - 1); n > 0 {
		id += fmt.Sprint(".", n)
	}
	what := ""
	switch {
	case e.Kind == EventStep && e.StepEnded:
		what = string(e.StepPath) + " ended " + e.StepStatus
	case e.Kind == EventStep:
		what = string(e.StepPath) + " started"
	case e.Kind == EventDone:
		what = string(e.Outcome.Status)
	default:
		what = e.Elicitation.ID
	}
	return fmt.Sprintf("%s %s %s %g/%g", id, e.Kind, what, e.Done, e.Total)
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	failure := func(e Error) *failurepb.Failure { return applicationFailure(e.Message, Failure{Error: e}) }
	tests := []struct {
		name  string
		write func(*script)
		want  string
	}{
		{"completed, exact numbers", func(s *script) { s.succeed() }, "completed 12345678901234567890"},
		{"failed", func(s *script) { s.failRun(failure(Error{Code: "tool_error", Category: "tool", Message: "no"})) }, "failed tool_error tool no"},
		{"run timeout", func(s *script) { s.failRun(failure(Error{Code: "run_timeout", Category: "timeout", Message: "late"})) }, "timed_out run_timeout timeout late"},
		{"step timeout", func(s *script) {
			s.failRun(failure(Error{Code: "step_timeout", Category: "timeout", StepID: "a", Message: "late"}))
		}, "failed step_timeout timeout late"},
		{"a result that cannot be read", func(s *script) {
			s.succeed()
			s.events[0].GetWorkflowExecutionCompletedEventAttributes().Result = &commonpb.Payloads{Payloads: []*commonpb.Payload{{Data: []byte("{")}}}
		}, "failed invalid_result internal reading the result of the run: "},
		{"failed without details", func(s *script) { s.failRun(&failurepb.Failure{Message: "boom"}) }, "failed internal internal boom"},
		{"terminated", func(s *script) { s.terminate("by ops") }, "terminated terminated terminated the run was terminated: by ops"},
	}
	for _, tt := range tests {
		s := &script{}
		tt.write(s)
		o := history.OutcomeOf(converter.GetDefaultDataConverter(), s.events[0])
		got := string(o.Status) + " " + string(o.Output)
		if o.Failure != nil {
			got += fmt.Sprintf("%s %s %s", o.Failure.Error.Code, o.Failure.Error.Category, o.Failure.Error.Message)
		}
		if got != tt.want && !(strings.HasSuffix(tt.want, ": ") && strings.HasPrefix(got, tt.want)) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestKeyword(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"alice", "", "o'brien", `a\b"c`, "100%", "tab\there", "日本", "a%27b"} {
		k := keyword(s)
		if got := fromKeyword(k); got != s {
			t.Errorf("%q became %q and then %q", s, k, got)
		}
		if strings.ContainsAny(k, "'\"\\\t") {
			t.Errorf("%q became %q, which Temporal cannot find", s, k)
		}
	}
	long := strings.Repeat("x", 300)
	if a, b := keyword(long+"a"), keyword(long+"b"); a == b || len(a) > maxKeyword {
		t.Errorf("long values become %q (%d bytes) and %q", a, len(a), b)
	}
}

func TestSummaryAndDetails(t *testing.T) {
	t.Parallel()
	req := StartRequest{Caller: Caller{Subject: "al\nice"}, Arguments: json.RawMessage("{\"a\":\"```\",\"b\":\"" + strings.Repeat("ü", maxShown) + "\"}")}
	req.Definition = sample(t)
	if got, want := summary(req), "sample called by al ice"; got != want {
		t.Errorf("got summary %q, want %q", got, want)
	}
	text := details(req, newInput("sample/1", req).Definition)
	if len(text) > maxShown+400 || !strings.Contains(text, "````json") || !strings.Contains(text, "…") {
		t.Errorf("got details of %d bytes: %.300s", len(text), text)
	}
}

func sample(t *testing.T) *definitions.Definition {
	t.Helper()
	d := perduretest.Must(definitions.FromSource([]byte(`{"description":"","name":"sample","steps":[]}`)))(t)
	return d
}

// FuzzReaders reads histories that no run would write.
func FuzzReaders(f *testing.F) {
	s := &script{}
	s.start(`[{"id":"a","dependsOn":["b"]},{"id":"b","dependsOn":["a"]}]`)
	n := s.schedule("a[0]: x")
	s.startActivity(n, 1)
	s.complete(n, `{}`)
	s.local("b: y", timeoutFailure())
	s.state(gateOf("a#1", workflows.ElicitationOpen))
	s.terminate("")
	seed := perduretest.Must(proto.Marshal(&historypb.History{Events: s.events}))(f)
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		var h historypb.History
		if proto.Unmarshal(data, &h) != nil {
			return
		}
		fold, followed, shown := history.New(converter.GetDefaultDataConverter(), nil), newStream(nil, ""), newDetailed()
		fold.Begin("", 0)
		done := 0.0
		for _, e := range h.Events {
			m := fold.Add(e)
			shown.add(m)
			for _, event := range followed.add(m) {
				if event.Done < done || event.Done > event.Total && event.Total > 0 {
					t.Fatalf("done %g of %g after %g", event.Done, event.Total, done)
				}
				done = event.Done
			}
		}
	})
}

// BenchmarkReaders is what reading the history of 5,000 calls costs, when it is there.
func BenchmarkReaders(b *testing.B) {
	s := &script{}
	s.long(5000)
	readers := map[string]func() func(history.Moment){
		"follow": func() func(history.Moment) {
			r := newStream(nil, "")
			return func(m history.Moment) { r.add(m) }
		},
		"show": func() func(history.Moment) { return newDetailed().add },
		"log": func() func(history.Moment) {
			r := &logbook{}
			return func(m history.Moment) { r.entries(m) }
		},
	}
	for _, name := range slices.Sorted(maps.Keys(readers)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				fold, read := history.New(converter.GetDefaultDataConverter(), nil), readers[name]()
				fold.Begin("", 0)
				for _, e := range s.events {
					read(fold.Add(e))
				}
			}
		})
	}
}

// long writes a run of many calls, each tried twice.
func (s *script) long(calls int) {
	s.start(`[{"id":"each","type":"forEach"},{"id":"last","dependsOn":["each"]}]`)
	for i := range calls {
		n := s.schedule(fmt.Sprintf("each[%d]: pay", i))
		s.startActivity(n, 2)
		s.complete(n, `{"paid":true}`)
	}
	s.succeed()
}

// What a resumption repeats is known also where its record is of another build.
func TestResumptionsOfAnotherBuild(t *testing.T) {
	t.Parallel()
	c := converter.GetDefaultDataConverter()
	input, err := c.ToPayloads(json.RawMessage(`{"journal":{"s":{"kind":"of tomorrow"}},"resumption":{"of":"before"}}`))
	if err != nil {
		t.Fatal(err)
	}
	a := &archive{converter: c}
	if got := a.resumes(&historypb.WorkflowExecutionStartedEventAttributes{Input: input}); got != "before" {
		t.Errorf("it repeats %q", got)
	}
}
