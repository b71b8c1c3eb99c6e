package main

import (
	"encoding/json"
	"slices"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/workflows"
)

// A history reads the events of a run, in order. It shares no code with what
// reads them in perdure, so that the two can be wrong in different ways.
type history struct {
	run     Run
	calls   map[int64]int // steps by the event that scheduled them
	answers map[string]answered
}

// An answered is an answer as it arrived.
type answered struct {
	event  int
	answer workflows.Answer
}

func newHistory(run Run) *history {
	return &history{run: run, calls: map[int64]int{}, answers: map[string]answered{}}
}

func (h *history) add(e *historypb.HistoryEvent) {
	switch e.EventType {
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		a := e.GetActivityTaskScheduledEventAttributes()
		var call workflows.ToolCall
		if a.GetActivityType().GetName() != workflows.CallToolName || !decode(a.GetInput(), &call) {
			return
		}
		h.calls[e.EventId] = len(h.run.Steps)
		h.run.Steps = append(h.run.Steps, Step{
			Path: string(call.StepPath), Tool: call.Tool, Class: string(call.Effect), Key: call.IdempotencyKey,
			Scheduled: int(e.EventId), At: e.EventTime.AsTime().UnixNano(),
		})
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED:
		a := e.GetActivityTaskStartedEventAttributes()
		if i, ok := h.calls[a.GetScheduledEventId()]; ok {
			h.run.Steps[i].Attempts = int(a.GetAttempt())
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		h.ended(e, e.GetActivityTaskCompletedEventAttributes().GetScheduledEventId(), stepDone)
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED:
		a := e.GetActivityTaskFailedEventAttributes()
		h.ended(e, a.GetScheduledEventId(), failed(a.GetFailure()))
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
		h.ended(e, e.GetActivityTaskTimedOutEventAttributes().GetScheduledEventId(), stepUnknown)
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
		h.ended(e, e.GetActivityTaskCanceledEventAttributes().GetScheduledEventId(), stepCancelled)
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
		if h.run.Cancelled == 0 {
			h.run.Cancelled = int(e.EventId)
		}
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
		a := e.GetWorkflowExecutionSignaledEventAttributes()
		var s workflows.Signal
		if a.GetSignalName() != workflows.AnswerSignal || !decode(a.GetInput(), &s) {
			return
		}
		answer, _ := s.Answer()
		if _, known := h.answers[answer.AnswerID]; !known {
			h.answers[answer.AnswerID] = answered{int(e.EventId), answer}
		}
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
		var result workflows.RunResult
		if decode(e.GetWorkflowExecutionCompletedEventAttributes().GetResult(), &result) {
			h.run.Output = string(result.Output)
		}
	}
}

func (h *history) ended(e *historypb.HistoryEvent, scheduled int64, how string) {
	if i, ok := h.calls[scheduled]; ok {
		h.run.Steps[i].End, h.run.Steps[i].Ended = how, int(e.EventId)
	}
}

// failed tells a known failure from an unknown outcome.
func failed(f *failurepb.Failure) string {
	var e workflows.Error
	known := decode(f.GetApplicationFailureInfo().GetDetails(), &e)
	switch {
	case !known || e.Category == codes.CategoryOutcomeUnknown:
		return stepUnknown
	case e.Category == codes.CategoryCancelled:
		return stepCancelled
	}
	return stepFailed
}

// gate notes an elicitation as the run tells of it in the end.
func (h *history) gate(e runs.Elicitation) {
	g := Gate{ID: e.ID, Path: string(e.StepPath), Kind: string(e.Kind), State: string(e.State), Action: e.Action}
	if won, ok := h.answers[e.AnswerID]; ok {
		g.Event = won.event
		var content struct{ Verdict, Outcome string }
		if json.Unmarshal(won.answer.Content, &content) == nil && content.Verdict != "" {
			g.Content = digest(content.Verdict)
		}
		g.Outcome = content.Outcome
	}
	h.run.Gates = append(h.run.Gates, g)
	slices.SortStableFunc(h.run.Gates, func(a, b Gate) int { return a.Event - b.Event })
}

func decode(payloads *commonpb.Payloads, into any) bool {
	return payloads != nil && converter.GetDefaultDataConverter().FromPayloads(payloads, into) == nil
}
