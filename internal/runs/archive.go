package runs

import (
	"context"
	"log/slog"
	"strings"
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
// pages.go, follow.go). It changes nothing.
type archive struct {
	temporal  client.Client
	namespace string
	converter converter.DataConverter
	keys      *secrets.Keys
	log       *slog.Logger
	room      func(ctx context.Context, bytes int64) error // nil = there is always some
	fresh     freshRuns
	news      *News // nil = there is none in this process
}

// hold waits for room for the outcome of a run, if an event has one.
func (a *archive) hold(ctx context.Context, e *historypb.HistoryEvent) error {
	if a.room == nil {
		return nil
	}
	if bytes := history.OutcomeSize(e); bytes > 0 {
		return a.room(ctx, bytes)
	}
	return nil
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
