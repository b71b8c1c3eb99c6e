package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// Errors of resumptions that callers branch on.
var (
	ErrNotResumable   = errors.New("there is nothing to resume")
	ErrOutcomeUnknown = history.ErrOutcomeUnknown
	ErrChanged        = errors.New("the run has changed in the meantime")
)

// Resumptions resume runs that have ended without completing. Their methods may be called
// at the same time.
type Resumptions struct {
	c     reader
	large converter.DataConverter // Config.LargeInputs
}

// Resumptions returns the resumptions of the runs of c.
func (c *Client) Resumptions() Resumptions { return Resumptions{c.reader, c.large} }

// Plan reports how a run would be resumed. It changes nothing, but needs a worker,
// which reads the record of the run. A run that is under way or has completed is
// ErrNotResumable.
func (r Resumptions) Plan(ctx context.Context, id RunID, req history.ResumeRequest) (*history.ResumePlan, error) {
	c := r.c
	d, err := c.describe(ctx, id)
	if err != nil {
		return nil, failure(ctx, "reading", id, err)
	}
	switch d.WorkflowExecutionInfo.Status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED,
		enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
	default:
		return nil, fmt.Errorf("run %s is %s: %w; only runs that failed, timed out, or were cancelled or terminated can be resumed", id, c.described(d).Status, ErrNotResumable)
	}
	execution := d.WorkflowExecutionInfo.Execution.RunId
	was, err := r.record(ctx, id, execution, workflows.RecordRequest{Steps: req.From, Paths: slices.Sorted(maps.Keys(req.Results))})
	if err != nil {
		return nil, err
	}
	_, below := req.Split(was)
	called, err := r.planCalled(ctx, was, below)
	if err != nil {
		return nil, err
	}
	plan, err := history.PlanResume(id, execution, was, req, called)
	if err != nil {
		return nil, err
	}
	plan.Token = randomName(26)
	return plan, nil
}

// record reads the record of an execution, by a query.
func (r Resumptions) record(ctx context.Context, id RunID, execution string, req workflows.RecordRequest) (*workflows.RunRecord, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := r.c.temporal.QueryWorkflow(ctx, string(id), execution, workflows.RecordQuery, req)
	var (
		noWorker *serviceerror.FailedPrecondition
		refused  *serviceerror.QueryFailed
		unbegun  *serviceerror.WorkflowNotReady
	)
	switch {
	case errors.As(err, &unbegun):
		return r.recordOfInput(ctx, id, execution)
	case errors.As(err, &noWorker), err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("reading the record of run %s: no worker answers; start perdure dev, or perdure worker: %w: %w", id, ErrUnavailable, err)
	case errors.As(err, &refused):
		return nil, fmt.Errorf("reading the record of run %s: %w", id, err)
	case err != nil:
		return nil, failure(ctx, "reading", id, err)
	}
	var record workflows.RunRecord
	if err := answer.Get(&record); err != nil {
		return nil, fmt.Errorf("reading the record of run %s: %w", id, err)
	}
	if record.Sizes != nil {
		return nil, tooLarge(id, record.Sizes, cmp.Or(record.Input.MaxValue, maxInput))
	}
	return &record, nil
}

// recordOfInput is the record of an execution that ended before a worker had taken it up.
func (r Resumptions) recordOfInput(ctx context.Context, id RunID, execution string) (*workflows.RunRecord, error) {
	var in workflows.RunInput
	for e, err := range r.c.history(ctx, id, execution, false) {
		if err != nil {
			return nil, failure(ctx, "reading", id, err)
		}
		if e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED { // of before a reset
			return nil, fmt.Errorf("run %s was reset, and ended before a worker had taken it up, so that its record cannot be read; reset it again", id)
		}
		started := e.GetWorkflowExecutionStartedEventAttributes()
		if started == nil {
			continue
		}
		if err := r.c.converter.FromPayloads(started.GetInput(), &in); err != nil {
			return nil, fmt.Errorf("reading the input of run %s: %w", id, err)
		}
		in.WasReset = in.WasReset || started.OriginalExecutionRunId != execution
	}
	return workflows.RecordOf(in), nil
}

// Execute resumes a run as planned: in a new execution of the same run, with the same
// ID for those who follow it. It is ErrOutcomeUnknown while the plan has calls with an unknown outcome,
// and ErrChanged if the run was resumed since it was planned.
func (r Resumptions) Execute(ctx context.Context, plan *history.ResumePlan) error {
	c := r.c
	if len(plan.OutcomeUnknown) > 0 {
		return fmt.Errorf("run %s: %w; record it with --unknown for %s", plan.ID, ErrOutcomeUnknown, strings.Join(plan.UnknownPaths(), ", "))
	}
	size, err := json.Marshal(plan.Input)
	if err != nil {
		return fmt.Errorf("resuming run %s: %w", plan.ID, err)
	}
	if most := r.maxInput(plan.Input); len(size) > most {
		sizes := map[workflows.StepPath]int{}
		for path, e := range plan.Input.Journal {
			sizes[path] = e.ResultBytes()
		}
		return tooLarge(plan.ID, sizes, most)
	}
	d, err := c.describe(ctx, plan.ID)
	if err != nil {
		return failure(ctx, "resuming", plan.ID, err)
	}
	if d.WorkflowExecutionInfo.Execution.RunId != plan.Execution {
		return fmt.Errorf("run %s: %w", plan.ID, ErrChanged)
	}
	request, err := r.request(plan, d.WorkflowExecutionInfo)
	if err != nil {
		return fmt.Errorf("resuming run %s: %w", plan.ID, err)
	}
	if request.Header, err = c.headerOf(ctx, plan.ID, plan.Execution); err != nil {
		return failure(ctx, "resuming", plan.ID, err)
	}
	started, err := c.temporal.WorkflowService().StartWorkflowExecution(ctx, request)
	var exists *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &exists) {
		return fmt.Errorf("run %s: %w", plan.ID, ErrChanged)
	}
	if err != nil {
		return failure(ctx, "resuming", plan.ID, err)
	}
	return r.confirm(ctx, plan, started.RunId)
}

// maxInput bounds what an execution that resumes a run starts with: what is over
// Temporal's own limit is kept elsewhere, which both the run and this client must
// know to do.
func (r Resumptions) maxInput(in workflows.RunInput) int {
	if r.large == nil {
		return maxInput
	}
	return cmp.Or(in.MaxValue, maxInput)
}

// converter is that of what a resumption writes.
func (r Resumptions) converter(in workflows.RunInput) converter.DataConverter {
	if r.large == nil || in.MaxValue == 0 {
		return r.c.converter
	}
	return r.large
}

// request starts the execution that resumes a run. Temporal takes all
// resumptions of one execution for the same request: so of two that are planned at
// once, the second starts nothing, also when the first has ended meanwhile. The
// client of the SDK has no name for that.
func (r Resumptions) request(plan *history.ResumePlan, info *workflowpb.WorkflowExecutionInfo) (*workflowservice.StartWorkflowExecutionRequest, error) {
	c, in := r.c, plan.Input
	like := StartRequest{Definition: &definitions.Definition{Name: in.Definition.Name, Version: in.Definition.Version}, Arguments: in.Arguments, Caller: in.Caller, Request: c.attribute(info, workflows.AttrRequest)}
	encode := converter.WithDataConverterSerializationContext(r.converter(in), converter.WorkflowSerializationContext{Namespace: c.namespace, WorkflowID: string(plan.ID)})
	input, err := encode.ToPayloads(in)
	if err != nil {
		return nil, err
	}
	note, err := encode.ToPayload(workflows.Resumption{Of: plan.Execution, By: plan.By, Number: plan.Number, Token: plan.Token})
	if err != nil {
		return nil, err
	}
	began, err := encode.ToPayload(c.firstStart(info))
	if err != nil {
		return nil, err
	}
	line, err := encode.ToPayload(clip(summary(like)+fmt.Sprintf(", resumed by %s", cmp.Or(plan.By, "nobody")), maxSummary))
	if err != nil {
		return nil, err
	}
	about, err := encode.ToPayload(details(like, in.Definition))
	if err != nil {
		return nil, err
	}
	var taskTimeout *durationpb.Duration // nil = Temporal's
	if limit := taskLimit(in.MaxValue); limit > 0 {
		taskTimeout = durationpb.New(limit)
	}
	return &workflowservice.StartWorkflowExecutionRequest{
		RequestId:                "resumption-of-" + plan.Execution,
		Namespace:                c.namespace,
		WorkflowId:               string(plan.ID),
		WorkflowType:             &commonpb.WorkflowType{Name: in.WorkflowType()},
		TaskQueue:                &taskqueuepb.TaskQueue{Name: workflows.TaskQueue, Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
		Input:                    input,
		Identity:                 "perdure",
		WorkflowIdReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
		WorkflowIdConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowTaskTimeout:      taskTimeout,
		UserMetadata:             &sdkpb.UserMetadata{Summary: line, Details: about},
		SearchAttributes:         indexed(searchAttributes(like)),
		Memo:                     &commonpb.Memo{Fields: map[string]*commonpb.Payload{workflows.MemoResumption: note, workflows.MemoStarted: began}},
	}, nil
}

// headerOf is the header of an execution's start. It has the trace of the call, which the
// resumption joins.
func (a *archive) headerOf(ctx context.Context, id RunID, execution string) (*commonpb.Header, error) {
	page, err := a.temporal.WorkflowService().GetWorkflowExecutionHistory(ctx, &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace: a.namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: string(id), RunId: execution}, MaximumPageSize: 1,
	})
	if err != nil || len(page.GetHistory().GetEvents()) == 0 {
		return nil, err
	}
	return page.History.Events[0].GetWorkflowExecutionStartedEventAttributes().GetHeader(), nil
}

// indexed converts search attributes, all of them keywords.
func indexed(attributes temporal.SearchAttributes) *commonpb.SearchAttributes {
	fields := map[string]*commonpb.Payload{}
	for _, key := range []temporal.SearchAttributeKeyKeyword{toolKey, versionKey, callerKey, requestKey} {
		if value, ok := attributes.GetKeyword(key); ok {
			fields[key.GetName()], _ = converter.GetDefaultDataConverter().ToPayload(value) // a text is always encoded
			fields[key.GetName()].Metadata["type"] = []byte("Keyword")
		}
	}
	return &commonpb.SearchAttributes{IndexedFields: fields}
}

// confirm looks whether an execution that was started is that of a plan.
func (r Resumptions) confirm(ctx context.Context, plan *history.ResumePlan, execution string) error {
	c := r.c
	d, err := c.temporal.WorkflowService().DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: c.namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: string(plan.ID), RunId: execution},
	})
	if err != nil {
		return failure(ctx, "resuming", plan.ID, err)
	}
	var of workflows.Resumption
	note := d.WorkflowExecutionInfo.GetMemo().GetFields()[workflows.MemoResumption]
	if err := c.converter.FromPayload(note, &of); err != nil || of.Token != plan.Token {
		return fmt.Errorf("run %s: %w", plan.ID, ErrChanged)
	}
	return nil
}

// tooLarge is the error of a run whose results do not fit into the input of an
// execution. Sizes are in bytes, by step path.
func tooLarge(id RunID, sizes map[workflows.StepPath]int, most int) error {
	paths := slices.SortedFunc(maps.Keys(sizes), func(a, b workflows.StepPath) int {
		return cmp.Or(sizes[b]-sizes[a], cmp.Compare(a, b))
	})
	var largest []string
	for _, path := range paths[:min(len(paths), 3)] {
		largest = append(largest, fmt.Sprintf("%s (%d bytes)", path, sizes[path]))
	}
	return fmt.Errorf("resuming run %s: its record does not fit into the %d bytes of the input of an execution. "+
		"The largest results are those of %s: let such a step be executed again, if that is harmless, with --from STEP, "+
		"or say with --step-result PATH=JSON that a shorter result will do; "+
		"or reset the run in the Web UI, or with: temporal workflow reset --workflow-id %s --type LastWorkflowTask --reason resume",
		id, most, strings.Join(largest, ", "), id)
}

// planCalled plans the called runs that have not completed.
func (r Resumptions) planCalled(ctx context.Context, was *workflows.RunRecord, requests map[workflows.StepPath]history.ResumeRequest) (map[workflows.StepPath]*history.CalledRun, error) {
	c := r.c
	plans := map[workflows.StepPath]*history.CalledRun{}
	for _, path := range slices.Sorted(maps.Keys(requests)) {
		id := history.CalledAt(was, path)
		d, err := c.describe(ctx, id)
		var gone *serviceerror.NotFound
		if errors.As(err, &gone) {
			plan, err := history.Deleted(history.ChildAt(was, path), requests[path])
			if err != nil {
				return nil, fmt.Errorf("reading with what run %s is started: %w", id, err)
			}
			if plan != nil {
				plans[path] = plan
			}
			continue
		}
		if err != nil {
			return nil, failure(ctx, "reading", id, err)
		}
		plan := &history.CalledRun{}
		switch d.WorkflowExecutionInfo.Status {
		case enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED:
			plan.UnderWay = true
		case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
			outcome, err := c.Result(ctx, id)
			if err != nil {
				return nil, err
			}
			plan.Output, plan.Effects = orNull(outcome.Output), outcome.Effects
		default:
			if plan.Again, err = r.Plan(ctx, id, requests[path]); err != nil {
				return nil, err
			}
		}
		plans[path] = plan
	}
	return plans, nil
}

// orNull is the output of a run, as it is recorded.
func orNull(output json.RawMessage) json.RawMessage {
	if output == nil {
		return json.RawMessage("null")
	}
	return output
}
