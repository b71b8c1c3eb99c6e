package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/quarantine"
)

// pauseAttribute is the search attribute in which Temporal says why a workflow is
// paused.
const pauseAttribute = "TemporalPauseInfo"

// quarantinedQuery selects the runs that are quarantined.
var quarantinedQuery = "ExecutionStatus = 'Paused' AND " + pauseAttribute + " = " + quote("Reason:"+quarantine.Reason)

// isQuarantined reports whether Temporal has paused an execution as it takes its
// workers down, and not because somebody wants it.
func isQuarantined(info *workflowpb.WorkflowExecutionInfo) bool {
	if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED {
		return false
	}
	var why []string
	if p := info.GetSearchAttributes().GetIndexedFields()[pauseAttribute]; p != nil {
		_ = converter.GetDefaultDataConverter().FromPayload(p, &why) // never encoded otherwise
	}
	return slices.Contains(why, "Reason:"+quarantine.Reason)
}

// isOpen reports whether an execution has not ended.
func isOpen(s enumspb.WorkflowExecutionStatus) bool {
	return s == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING || s == enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED
}

// operated is what an operator says who releases a run.
type operated struct {
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Release has a quarantined run executed again, alone. By and reason are for the
// record.
func (c *Client) Release(ctx context.Context, id RunID, by, reason string) error {
	d, err := c.quarantined(ctx, id, "releasing")
	if err != nil {
		return err
	}
	if err := c.operate(ctx, d, quarantine.ReleaseSignal, operated{by, reason}); err != nil {
		return failure(ctx, "releasing", id, err)
	}
	return nil
}

// FailQuarantined has a quarantined run end as failed, without executing it, by a
// worker. What it has completed is not undone. It returns when the run has ended.
func (c *Client) FailQuarantined(ctx context.Context, id RunID, by, reason string) error {
	d, err := c.quarantined(ctx, id, "failing")
	if err != nil {
		return err
	}
	message := "the run was quarantined, as it took its worker down, and " + by + " has ended it"
	if reason != "" {
		message += ": " + reason
	}
	details := Failure{Error: Error{Code: codes.Quarantined, Category: codes.CategoryInternal, Message: message}}
	if err := c.operate(ctx, d, quarantine.FailSignal, details); err != nil {
		return failure(ctx, "failing", id, err)
	}
	for pause := newBackoff(); ; {
		run, err := c.Get(ctx, id)
		switch {
		case err == nil && run.Closed != nil:
			return nil
		case err != nil && !errors.Is(err, ErrUnavailable):
			return err
		case !pause.wait(ctx):
			return fmt.Errorf("failing run %s: no worker has taken that up yet, and the first one will: %w", id, ctx.Err())
		}
	}
}

// quarantined finds a run, if it is quarantined.
func (c *Client) quarantined(ctx context.Context, id RunID, doing string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	d, err := c.describe(ctx, id)
	if err != nil {
		return nil, failure(ctx, doing, id, err)
	}
	if isQuarantined(d.WorkflowExecutionInfo) {
		return d, nil
	}
	if isOpen(d.WorkflowExecutionInfo.Status) { // a Temporal that cannot pause a run
		t, err := c.readTimeline(ctx, id)
		if err != nil {
			return nil, failure(ctx, doing, id, err)
		}
		if t.quarantine() != nil {
			return d, nil
		}
	}
	return nil, fmt.Errorf("%s run %s: %w", doing, id, ErrNotQuarantined)
}

// operate tells the workers what becomes of a quarantined run, and has Temporal
// hand it out to them.
func (c *Client) operate(ctx context.Context, d *workflowservice.DescribeWorkflowExecutionResponse, signal string, content any) error {
	run := d.WorkflowExecutionInfo.Execution
	if c.keys == nil {
		return ErrNoKey
	}
	said, err := converter.WithDataConverterSerializationContext(c.converter,
		converter.WorkflowSerializationContext{Namespace: c.namespace, WorkflowID: run.WorkflowId}).ToPayload(content)
	if err != nil {
		return fmt.Errorf("encoding a signal to run %s: %w", run.WorkflowId, err)
	}
	if _, err := c.temporal.WorkflowService().SignalWorkflowExecution(ctx, &workflowservice.SignalWorkflowExecutionRequest{
		Namespace: c.namespace, WorkflowExecution: run, SignalName: signal, Input: quarantine.Prove(c.keys, signal, run, said),
		Identity: "perdure", RequestId: randomName(26),
	}); err != nil {
		return err
	}
	if d.WorkflowExecutionInfo.Status != enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED {
		return nil
	}
	_, err = c.temporal.WorkflowService().UnpauseWorkflowExecution(ctx, &workflowservice.UnpauseWorkflowExecutionRequest{
		Namespace: c.namespace, WorkflowId: run.WorkflowId, RunId: run.RunId, Identity: "perdure", RequestId: randomName(26),
	})
	var already *serviceerror.FailedPrecondition
	if errors.As(err, &already) { // somebody else was faster
		return nil
	}
	return err
}

// quarantined reads what an event says of the quarantine of the run, and returns
// what that is to whoever follows the run.
func (t *timeline) quarantined(e *historypb.HistoryEvent) []Event {
	if r, ok := t.refusedDecision(e); ok && len(t.refused) < maxRefused {
		t.refused = append(t.refused, r)
	}
	t.record.Add(e)
	held := !t.record.Since.IsZero()
	if held == t.held {
		return nil
	}
	if t.held = held; held {
		event := t.event(EventQuarantined)
		event.What = t.record.Why()
		return []Event{event}
	}
	event := t.event(EventReleased)
	var o operated
	if t.converter.FromPayloads(e.GetWorkflowExecutionSignaledEventAttributes().GetInput(), &o) == nil && o.By != "" {
		event.What = withReason("by "+o.By, o.Reason)
	}
	return []Event{event}
}

// refusedDecision is what an event says that no operator has decided.
func (t *timeline) refusedDecision(e *historypb.HistoryEvent) (RefusedSignal, bool) {
	a := e.GetWorkflowExecutionSignaledEventAttributes()
	if t.decided == nil || !quarantine.IsDecision(a.GetSignalName()) || t.decided(a.GetSignalName(), a.GetInput()) {
		return RefusedSignal{}, false
	}
	return RefusedSignal{At: e.GetEventTime().AsTime(), Signal: a.GetSignalName(), Reason: "it has no proof that perdure has sent it"}, true
}

// quarantine says why the run is not executed; nil if it is.
func (t *timeline) quarantine() *Quarantine {
	if t.record.Since.IsZero() {
		return nil
	}
	return &Quarantine{Since: t.record.Since, Reason: t.record.Why(), Losses: t.record.Losses}
}

// lost tells of what comes before a quarantine, or after it.
func (b *logbook) lost(e *historypb.HistoryEvent) (LogEntry, bool) {
	refused, isRefused := b.timeline.refusedDecision(e)
	switch a := e.GetWorkflowExecutionSignaledEventAttributes(); {
	case isRefused:
		return LogEntry{Kind: LogRefused, Text: fmt.Sprintf("refused: signal %s: %s", refused.Signal, refused.Reason)}, true
	case e.GetWorkflowTaskTimedOutEventAttributes().GetTimeoutType() == enumspb.TIMEOUT_TYPE_START_TO_CLOSE:
		return LogEntry{Kind: LogLost, Text: "the worker that executed the run was lost, or took too long"}, true
	case a.GetSignalName() == quarantine.BegunSignal:
		return LogEntry{Kind: LogAlone, By: a.GetIdentity(), Text: "worker " + a.GetIdentity() + " executes the run and nothing else, as a worker may have been lost with it"}, true
	}
	return LogEntry{}, false
}
