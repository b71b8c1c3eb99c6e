package runs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/internal/secrets"
	"github.com/perdure/perdure/workflows"
)

// An archive is what Temporal keeps of runs: descriptions, and histories (chain.go,
// pages.go, follow.go). All parts of a Client read it; it changes nothing but to signal.
type archive struct {
	temporal  client.Client
	namespace string
	converter converter.DataConverter
	keys      *secrets.Keys
	log       *slog.Logger
	reserve   func(ctx context.Context, bytes int64) error // nil = there is no bound
	now       func() time.Time                             // by the clock that processes share
	fresh     freshRuns
	news      *News // nil = there is none in this process
}

// hold reserves memory for the outcome of a run, if an event has one.
func (a *archive) hold(ctx context.Context, e *historypb.HistoryEvent) error {
	if a.reserve == nil {
		return nil
	}
	if bytes := history.OutcomeSize(e); bytes > 0 {
		return a.reserve(ctx, bytes)
	}
	return nil
}

// unreadPatience is how long an outcome is waited for that cannot be read.
const unreadPatience = 10 * time.Second

// readable is an outcome once it can be read, by again if it could not. The error is
// ErrUnread, or that of ctx.
func (a *archive) readable(ctx context.Context, outcome *Outcome, again func() *Outcome) (*Outcome, error) {
	for pause, end := newBackoff(), time.Now().Add(unreadPatience); outcome.Unread != nil; outcome = again() {
		if time.Now().After(end) || !pause.wait(ctx) {
			return nil, errors.Join(fmt.Errorf("%w: %w", ErrUnread, outcome.Unread), ctx.Err())
		}
	}
	return outcome, nil
}

// describe gets a run from Temporal. Another program's workflow in the same namespace
// is not found, and neither is an ID that does not fit into gRPC's header, which would
// look as if Temporal was unavailable.
func (a *archive) describe(ctx context.Context, id RunID) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	if id == "" || strings.ContainsFunc(string(id), func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, serviceerror.NewNotFound("no run has such an ID")
	}
	d, err := a.temporal.WorkflowService().DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: a.namespace,
		Execution: &commonpb.WorkflowExecution{WorkflowId: string(id)},
	})
	if err == nil && !isRun(d.GetWorkflowExecutionInfo().GetSearchAttributes()) {
		return nil, serviceerror.NewNotFound(string(id) + " is no run")
	}
	return d, err
}

// isRun reports whether a workflow is a run, by its search attributes: its type, the
// name of a composite tool, is no evidence.
func isRun(a *commonpb.SearchAttributes) bool { return a.GetIndexedFields()[workflows.AttrTool] != nil }

// lastEvents are those with which an execution has ended.
func (a *archive) lastEvents(ctx context.Context, x *commonpb.WorkflowExecution) ([]*historypb.HistoryEvent, error) {
	page, err := a.temporal.WorkflowService().GetWorkflowExecutionHistory(ctx, &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace:              a.namespace,
		Execution:              x,
		HistoryEventFilterType: enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT,
		SkipArchival:           true,
	})
	return page.GetHistory().GetEvents(), err
}

// firstStart is when the first execution of a run began. Temporal does not show it in
// lists, nor for a resumed run; the run carries it from the process that has started
// it, whose clock may be ahead.
func (a *archive) firstStart(info *workflowpb.WorkflowExecutionInfo) time.Time {
	started := info.StartTime.AsTime()
	var first time.Time
	p := info.GetMemo().GetFields()[workflows.MemoStarted]
	if p == nil || a.converter.FromPayload(p, &first) != nil || first.After(started) {
		return started
	}
	return first
}

// attribute is the value of a keyword search attribute; "" if it has none.
func (a *archive) attribute(info *workflowpb.WorkflowExecutionInfo, name string) string {
	var value string
	if p := info.GetSearchAttributes().GetIndexedFields()[name]; p != nil {
		_ = converter.GetDefaultDataConverter().FromPayload(p, &value) // never encoded otherwise
	}
	return fromKeyword(value)
}

func (a *archive) described(d *workflowservice.DescribeWorkflowExecutionResponse) *Run {
	run := a.run(d.WorkflowExecutionInfo)
	if t := d.WorkflowExtendedInfo.GetOriginalStartTime(); t != nil && t.AsTime().Before(run.Started) {
		run.Started = t.AsTime()
	}
	run.Cancelling = d.WorkflowExtendedInfo.GetCancelRequested()
	info := d.WorkflowExecutionInfo
	run.Events = info.HistoryLength
	if run.Parent == nil && isFirst(info) {
		run.execution = info.Execution.RunId
	}
	return &run
}

// run makes a Run from Temporal's description of an execution.
func (a *archive) run(info *workflowpb.WorkflowExecutionInfo) Run {
	run := Run{
		ID:      RunID(info.Execution.WorkflowId),
		Tool:    a.attribute(info, workflows.AttrTool),
		Version: a.attribute(info, workflows.AttrVersion),
		Caller:  a.attribute(info, workflows.AttrCaller),
		Request: a.attribute(info, workflows.AttrRequest),
		Started: a.firstStart(info),
		Began:   info.StartTime.AsTime(),

		WaitingFor: a.attribute(info, workflows.AttrWaiting),
	}
	if info.CloseTime != nil && info.Status != enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
		closed := info.CloseTime.AsTime()
		run.Closed = &closed
	}
	state, err := history.State(a.converter, info.Memo)
	if err != nil {
		run.Unreadable = err.Error()
	}
	run.Elicitations, run.Unchecked = state.Elicitations, state.Unchecked
	run.Parent = decodeParent(a.converter, info.Memo)
	run.Status = status(info.Status, Status(a.attribute(info, workflows.AttrStatus)))
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
func status(s enumspb.WorkflowExecutionStatus, own Status) Status {
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
		if own == workflows.TimedOut {
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

// addEnd adds to a run why it was terminated and, with withError, the error with which it
// ended. Only its history has them.
func (a *archive) addEnd(ctx context.Context, run *Run, info *workflowpb.WorkflowExecutionInfo, withError bool) error {
	if run.Status != workflows.Terminated && !(withError && run.EndedEarly()) {
		return nil
	}
	return a.readEnd(ctx, run, info)
}

func (a *archive) readEnd(ctx context.Context, run *Run, info *workflowpb.WorkflowExecutionInfo) error {
	last, err := a.lastEvents(ctx, info.Execution)
	for _, e := range last {
		run.Cause = e.GetWorkflowExecutionTerminatedEventAttributes().GetReason()
		if o := history.OutcomeOf(a.converter, e); o != nil && o.Failure != nil {
			run.Error = &o.Failure.Error
		}
	}
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) { // a moment ago
		return nil
	}
	return err
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

// signal sends a signal to a run, with proof.
func (a *archive) signal(ctx context.Context, id RunID, name string, body any) error {
	if a.keys == nil {
		return ErrNoKey
	}
	s, err := workflows.NewSignal(a.keys, name, string(id), body)
	if err != nil {
		return fmt.Errorf("encoding a signal to run %s: %w", id, err)
	}
	return a.temporal.SignalWorkflow(ctx, string(id), "", name, s)
}

// freshRuns remembers for a short while which executions this process has just started,
// or answered, so that following one needs no look-up and misses no news.
type freshRuns struct {
	mu   sync.Mutex
	byID map[RunID]freshRun
	old  []RunID // the oldest first; some may have been taken
}

type freshRun struct {
	execution string        // Temporal's run ID
	news      *subscription // from before the start, or the answer, on
	since     time.Time
}

const (
	maxFresh = 10_000
	freshFor = 5 * time.Second
)

func (f *freshRuns) add(id RunID, execution string, news *subscription) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byID == nil {
		f.byID = map[RunID]freshRun{}
	}
	now := time.Now()
	for len(f.old) > 0 { // what is forgotten is looked up
		r, there := f.byID[f.old[0]]
		if there && len(f.old) < maxFresh && now.Sub(r.since) < freshFor {
			break
		}
		r.news.cancel()
		delete(f.byID, f.old[0])
		f.old = f.old[1:]
	}
	f.byID[id].news.cancel()
	f.byID[id], f.old = freshRun{execution, news, now}, append(f.old, id)
}

func (f *freshRuns) take(id RunID) (r freshRun, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, ok = f.byID[id]
	delete(f.byID, id)
	return r, ok
}
