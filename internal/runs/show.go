package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/internal/visible"
	"github.com/perdure/perdure/workflows"
)

// Get returns the state of a run.
func (c *Client) Get(ctx context.Context, id RunID) (*Run, error) {
	d, err := c.describe(ctx, id)
	if err != nil {
		return nil, failure(ctx, "reading", id, err)
	}
	run := c.described(d)
	if err := c.addEnd(ctx, run, d.WorkflowExecutionInfo, false); err != nil {
		return nil, failure(ctx, "reading", id, err)
	}
	return run, nil
}

// addEnd adds to a run why it was terminated and, with errors, the error with which it
// ended. Its history has that alone.
func (c *Client) addEnd(ctx context.Context, run *Run, info *workflowpb.WorkflowExecutionInfo, errors bool) error {
	if run.Status != workflows.Terminated && !(errors && run.EndedEarly()) {
		return nil
	}
	return c.readEnd(ctx, run, info)
}

func (c *Client) readEnd(ctx context.Context, run *Run, info *workflowpb.WorkflowExecutionInfo) error {
	last, err := c.lastEvents(ctx, info.Execution)
	for _, e := range last {
		run.Cause = e.GetWorkflowExecutionTerminatedEventAttributes().GetReason()
		if o := history.OutcomeOf(c.converter, e); o != nil && o.Failure != nil {
			run.Error = &o.Failure.Error
		}
	}
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) { // a moment ago
		return nil
	}
	return err
}

// Needed reports whether what a run holds is needed: because Temporal keeps the
// run, or one that it has called, to which it may have passed something on.
// parent is the run that has called it; "" = none has, or it is gone.
func (c *Client) Needed(ctx context.Context, id RunID) (needed bool, parent RunID, err error) {
	run, err := c.Get(ctx, id)
	if errors.Is(err, ErrNotFound) {
		called, err := c.List(ctx, Filter{Called: true, Limit: 1, Query: "ParentWorkflowId = " + quote(string(id))})
		return len(called) > 0, "", err
	}
	if err != nil || run.Parent == nil {
		return err == nil, "", err
	}
	return true, RunID(run.Parent.RunID), nil
}

func (c *Client) described(d *workflowservice.DescribeWorkflowExecutionResponse) *Run {
	run := c.run(d.WorkflowExecutionInfo)
	if t := d.WorkflowExtendedInfo.GetOriginalStartTime(); t != nil && t.AsTime().Before(run.Started) {
		run.Started = t.AsTime()
	}
	run.Cancelling = d.WorkflowExtendedInfo.GetCancelRequested()
	return &run
}

// run makes a Run from Temporal's description of an execution.
func (c *Client) run(info *workflowpb.WorkflowExecutionInfo) Run {
	run := Run{
		ID:      RunID(info.Execution.WorkflowId),
		Tool:    c.attribute(info, workflows.AttrTool),
		Version: c.attribute(info, workflows.AttrVersion),
		Caller:  c.attribute(info, workflows.AttrCaller),
		Request: c.attribute(info, workflows.AttrRequest),
		Started: c.firstStart(info),

		WaitingFor: c.attribute(info, workflows.AttrWaiting),
	}
	if info.CloseTime != nil && info.Status != enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
		closed := info.CloseTime.AsTime()
		run.Closed = &closed
	}
	state, err := history.State(c.converter, info.Memo)
	if err != nil {
		run.Unreadable = err.Error()
	}
	run.Elicitations, run.Unchecked = state.Elicitations, state.Unchecked
	run.Parent = decodeParent(c.converter, info.Memo)
	run.Status = status(info.Status, Status(c.attribute(info, workflows.AttrStatus)))
	if isQuarantined(info) {
		run.Status = workflows.Quarantined
		return run
	}
	if run.Closed != nil {
		dropOpen(run.Elicitations)
		run.WaitingFor = ""
	} else if len(run.Open()) > 0 {
		run.Status = workflows.Waiting
	}
	if run.Closed == nil && info.GetSearchAttributes().GetIndexedFields()[problemsAttribute] != nil {
		run.WaitingFor = NoWorker
	}
	return run
}

// NoWorker is what a run waits for whose task has failed five times in a row with the
// workers that took it up. The run cannot say so by itself.
const NoWorker = "worker"

// problemsAttribute is the search attribute in which Temporal reports that.
const problemsAttribute = "TemporalReportedProblems"

const noWorkerQuery = "ExecutionStatus = 'Running' AND " + problemsAttribute + " IS NOT NULL"

// status takes the end of a run from Temporal, and from the run what Temporal does not
// distinguish.
func status(s enumspb.WorkflowExecutionStatus, told Status) Status {
	switch s {
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return workflows.Completed
	case enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return workflows.Cancelled
	case enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED:
		return workflows.Terminated
	case enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return workflows.TimedOut
	case enumspb.WORKFLOW_EXECUTION_STATUS_FAILED:
		if told == workflows.TimedOut {
			return workflows.TimedOut
		}
		return workflows.Failed
	}
	return workflows.Running
}

// dropOpen closes the elicitations of a run that ended without a word, because
// it was terminated.
func dropOpen(list []Elicitation) {
	for i := range list {
		if list[i].State == workflows.ElicitationOpen {
			list[i].State, list[i].Schema = workflows.ElicitationDropped, nil
		}
	}
}

// Result returns how a run ended, or ErrNotFinished.
func (c *Client) Result(ctx context.Context, id RunID) (*Outcome, error) {
	d, err := c.describe(ctx, id)
	if err != nil {
		return nil, failure(ctx, "reading", id, err)
	}
	if isOpen(d.WorkflowExecutionInfo.Status) {
		return nil, fmt.Errorf("run %s: %w", id, ErrNotFinished) // the call below would wait for its end
	}
	last, err := c.lastEvents(ctx, d.WorkflowExecutionInfo.Execution)
	if err != nil {
		return nil, failure(ctx, "reading", id, err)
	}
	for _, e := range last {
		if err := c.hold(ctx, e); err != nil {
			return nil, failure(ctx, "reading", id, err)
		}
		if outcome := history.OutcomeOf(c.converter, e); outcome != nil {
			return c.complete(ctx, d.WorkflowExecutionInfo.Execution, outcome)
		}
	}
	return nil, fmt.Errorf("run %s: %w", id, ErrNotFinished) // it continues in another execution
}

// complete reads what a run has kept of its outcome: with the event before the last.
func (c *Client) complete(ctx context.Context, x *commonpb.WorkflowExecution, outcome *Outcome) (*Outcome, error) {
	if !outcome.Kept {
		return outcome, nil
	}
	page, err := c.temporal.WorkflowService().GetWorkflowExecutionHistoryReverse(ctx, &workflowservice.GetWorkflowExecutionHistoryReverseRequest{
		Namespace: c.namespace, Execution: x, MaximumPageSize: 2,
	})
	if err != nil {
		return nil, failure(ctx, "reading", RunID(x.WorkflowId), err)
	}
	for _, e := range page.GetHistory().GetEvents() {
		if whole := outcome.Complete(c.converter, e); !whole.Kept {
			return whole, nil
		}
	}
	return nil, fmt.Errorf("run %s: its history lacks the outcome that it has kept", x.WorkflowId)
}

// A CalledWith is what a run began with.
type CalledWith struct {
	Arguments json.RawMessage
	Script    string // of a definition that is a script; "" = it has steps
}

// CalledWith returns what a run began with. Of the history, it reads the
// beginning only.
func (c *Client) CalledWith(ctx context.Context, id RunID) (CalledWith, error) {
	page, err := c.temporal.WorkflowService().GetWorkflowExecutionHistory(ctx, &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace:       c.namespace,
		Execution:       &commonpb.WorkflowExecution{WorkflowId: string(id)},
		MaximumPageSize: 1,
		SkipArchival:    true,
	})
	if err != nil {
		return CalledWith{}, failure(ctx, "reading", id, err)
	}
	for _, e := range page.History.GetEvents() {
		if started := e.GetWorkflowExecutionStartedEventAttributes(); started != nil && isRun(started.GetSearchAttributes()) {
			var in workflows.RunInput
			if err := c.converter.FromPayloads(started.GetInput(), &in); err != nil {
				return CalledWith{}, fmt.Errorf("reading the input of run %s: %w", id, err)
			}
			return CalledWith{in.Arguments, scriptOf(in.Definition)}, nil
		}
	}
	return CalledWith{}, fmt.Errorf("run %s: the beginning of its history is missing", id)
}

// scriptOf is the script of a definition that is one.
func scriptOf(d workflows.Pinned) string {
	var source struct {
		Script string `json:"script"`
	}
	_ = json.Unmarshal(d.Source, &source) // what cannot be read is not shown
	return source.Script
}

// NumberedLines is a script for reading, with the numbers of its lines. Nothing of
// it hides from who reads it: each line that runs is one, and there are marks for
// what cannot be seen.
func NumberedLines(script string) string {
	script = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(script)
	lines := strings.Split(strings.TrimRight(script, "\n"), "\n")
	for i, line := range lines {
		lines[i] = fmt.Sprintf("%3d  %s", i+1, visible.Text(line))
	}
	return strings.Join(lines, "\n")
}

// decodeParent reads which run has called another; nil = none.
func decodeParent(c converter.DataConverter, m *commonpb.Memo) *Parent {
	var parent Parent
	field, ok := m.GetFields()[workflows.MemoParent]
	if !ok || c.FromPayload(field, &parent) != nil {
		return nil
	}
	return &parent
}
