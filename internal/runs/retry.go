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
	"github.com/perdure/perdure/workflows"
)

// Errors of repairs that callers branch on.
var (
	ErrNotRetryable = errors.New("there is nothing to retry")
	ErrUnsettled    = errors.New("the outcome of calls is unknown")
	ErrChanged      = errors.New("the run has changed in the meantime")
)

// AskAgain lets a repaired run wait to be told what became of a call; see
// Happened and NotHappened.
const AskAgain = "ask"

// A RetryRequest says how a run that has failed, timed out or was cancelled is
// to go on. The zero value: from where it ended, as it was.
type RetryRequest struct {
	// Unknown says, by step path, what became of calls of unknown outcome:
	// Happened (with its entry in Results), NotHappened or AskAgain. Otherwise
	// is for all others; "" = there must be none.
	Unknown   map[workflows.StepPath]string
	Otherwise string

	Results    map[workflows.StepPath]json.RawMessage // by step path: outputs, objects, that stand for those of tool steps
	From       []string                               // steps that are executed again, and all that depend on them
	Arguments  map[string]json.RawMessage             // of the run that are others than before, by name
	Definition *definitions.Definition                // nil = as it was
	By         string                                 // who repairs it
}

// What becomes of what a run has done when it is repaired.
const (
	FateReused = "reused"         // its result counts
	FateGiven  = "given"          // the request gives its result
	FateSame   = "reused_if_same" // its result counts if its arguments come out the same; otherwise it is executed again
	FateAgain  = "again"          // it is executed again though it was before
	FateFailed = "failed"         // it had failed, or had not ended: it is executed
	FateAsk    = "ask"            // the run waits to be told what became of it
)

// A RetryStep is what becomes of one execution of a step.
type RetryStep struct {
	Path   workflows.StepPath `json:"path"`
	Tool   string             `json:"tool,omitempty"`
	Fate   string             `json:"fate"`
	Effect string             `json:"effect,omitempty"` // class of the tool
	Risk   bool               `json:"risk,omitempty"`   // a call that is not harmless may be executed a second time
}

// A RetryPlan is how a run would be repaired.
type RetryPlan struct {
	ID        RunID       `json:"runId"`
	Execution string      `json:"execution"` // Temporal's run ID of the one that is repeated
	Time      int         `json:"time"`      // 1 = the first repair
	Steps     []RetryStep `json:"steps"`     // that have begun before, by path
	// Unsettled are the calls of which must be said first what became of them.
	Unsettled []UnsettledCall `json:"unsettled,omitempty"`

	by    string
	token string // of this plan and no other
	input workflows.RunInput
}

// An UnsettledCall was sent, and its outcome is unknown.
type UnsettledCall struct {
	Path workflows.StepPath `json:"path"`
	workflows.Unsettled
}

// AtRisk are the steps that may have an effect a second time.
func (p *RetryPlan) AtRisk() []RetryStep {
	return slices.DeleteFunc(slices.Clone(p.Steps), func(s RetryStep) bool { return !s.Risk })
}

// PlanRetry says how a run would be repaired. It changes nothing, but needs a
// worker that reads what the run has done. A run that goes on or has completed
// is ErrNotRetryable.
func (c *Client) PlanRetry(ctx context.Context, id RunID, req RetryRequest) (*RetryPlan, error) {
	d, err := c.describe(ctx, id)
	if err != nil {
		return nil, failure(ctx, "reading", id, err)
	}
	switch d.WorkflowExecutionInfo.Status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED,
		enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
	default:
		return nil, fmt.Errorf("run %s is %s: %w; only runs that failed, timed out, or were cancelled or terminated can be retried", id, c.described(d).Status, ErrNotRetryable)
	}
	execution := d.WorkflowExecutionInfo.Execution.RunId
	was, err := c.journal(ctx, id, execution, workflows.JournalRequest{Steps: req.From, Paths: slices.Sorted(maps.Keys(req.Results))})
	if err != nil {
		return nil, err
	}
	own, below := req.split(was)
	called, err := c.planCalled(ctx, was, below)
	if err != nil {
		return nil, err
	}
	r := newRepairer(id, execution, was, own)
	r.called = called
	return r.plan()
}

// RepairOf plans the repair of an execution that has told what it has done.
func RepairOf(id RunID, execution string, was *workflows.Journal, req RetryRequest) (*RetryPlan, error) {
	return newRepairer(id, execution, was, req).plan()
}

// RepairCalling does so for a run whose steps have called others. Ended tells of
// each that has not completed in the record what it has done, or its output if it
// has completed since; of one that was never started it tells nothing.
func RepairCalling(id RunID, execution string, was *workflows.Journal, req RetryRequest, ended func(RunID) (*workflows.Journal, json.RawMessage, error)) (*RetryPlan, error) {
	own, below := req.split(was)
	r := newRepairer(id, execution, was, own)
	r.called = map[workflows.StepPath]*calledPlan{}
	for _, path := range slices.Sorted(maps.Keys(below)) {
		called := RunID(childAt(was, path).ID)
		done, result, err := ended(called)
		if err != nil {
			return nil, err
		}
		switch {
		case result != nil:
			r.called[path] = &calledPlan{output: result}
		case done != nil:
			again, err := RepairCalling(called, execution, done, below[path], ended)
			if err != nil {
				return nil, err
			}
			r.called[path] = &calledPlan{again: again}
		}
	}
	return r.plan()
}

// Input is what the execution starts with that repairs the run.
func (p *RetryPlan) Input() workflows.RunInput { return p.input }

// journal asks a worker what an execution has done.
func (c *Client) journal(ctx context.Context, id RunID, execution string, req workflows.JournalRequest) (*workflows.Journal, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := c.temporal.QueryWorkflow(ctx, string(id), execution, workflows.JournalQuery, req)
	var (
		noWorker *serviceerror.FailedPrecondition
		refused  *serviceerror.QueryFailed
	)
	switch {
	case errors.As(err, &noWorker), err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("reading the record of run %s: no worker answers; start perdure dev, or perdure worker: %w: %w", id, ErrUnavailable, err)
	case errors.As(err, &refused):
		return nil, fmt.Errorf("reading the record of run %s: %w", id, err)
	case err != nil:
		return nil, failure(ctx, "reading", id, err)
	}
	var journal workflows.Journal
	if err := answer.Get(&journal); err != nil {
		return nil, fmt.Errorf("reading the record of run %s: %w", id, err)
	}
	if journal.Sizes != nil {
		return nil, tooLarge(id, journal.Sizes, cmp.Or(journal.Input.MaxValue, maxInput))
	}
	return &journal, nil
}

// Retry repairs a run as planned: a new execution of the same run, with the same
// ID for whoever follows it. It is ErrUnsettled while the plan has Unsettled
// calls, and ErrChanged if the run has been repaired since it was planned.
func (c *Client) Retry(ctx context.Context, plan *RetryPlan) error {
	if len(plan.Unsettled) > 0 {
		return fmt.Errorf("run %s: %w; record it with --unknown for %s", plan.ID, ErrUnsettled, strings.Join(plan.unsettledPaths(), ", "))
	}
	size, err := json.Marshal(plan.input)
	if err != nil {
		return fmt.Errorf("repairing run %s: %w", plan.ID, err)
	}
	if most := c.maxRepair(plan.input); len(size) > most {
		sizes := map[workflows.StepPath]int{}
		for path, e := range plan.input.Journal {
			sizes[path] = e.ResultBytes()
		}
		return tooLarge(plan.ID, sizes, most)
	}
	d, err := c.describe(ctx, plan.ID)
	if err != nil {
		return failure(ctx, "repairing", plan.ID, err)
	}
	if d.WorkflowExecutionInfo.Execution.RunId != plan.Execution {
		return fmt.Errorf("run %s: %w", plan.ID, ErrChanged)
	}
	request, err := c.repairRequest(plan, d.WorkflowExecutionInfo)
	if err != nil {
		return fmt.Errorf("repairing run %s: %w", plan.ID, err)
	}
	if request.Header, err = c.headerOf(ctx, plan.ID, plan.Execution); err != nil {
		return failure(ctx, "repairing", plan.ID, err)
	}
	started, err := c.temporal.WorkflowService().StartWorkflowExecution(ctx, request)
	var exists *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &exists) {
		return fmt.Errorf("run %s: %w", plan.ID, ErrChanged)
	}
	if err != nil {
		return failure(ctx, "repairing", plan.ID, err)
	}
	return c.confirmRepair(ctx, plan, started.RunId)
}

// maxRepair bounds what an execution that repairs a run starts with: what is over
// Temporal's own limit is kept elsewhere, which both the run and this client must
// know to do.
func (c *Client) maxRepair(in workflows.RunInput) int {
	if c.large == nil {
		return maxInput
	}
	return cmp.Or(in.MaxValue, maxInput)
}

// repairConverter is that of what a repair writes.
func (c *Client) repairConverter(in workflows.RunInput) converter.DataConverter {
	if c.large == nil || in.MaxValue == 0 {
		return c.converter
	}
	return c.large
}

// repairRequest starts the execution that repairs a run. Temporal takes all
// repairs of one execution for the same request: so of two that are planned at
// once, the second starts nothing, also when the first has ended meanwhile. The
// client of the SDK has no name for that.
func (c *Client) repairRequest(plan *RetryPlan, info *workflowpb.WorkflowExecutionInfo) (*workflowservice.StartWorkflowExecutionRequest, error) {
	in := plan.input
	like := StartRequest{Definition: &definitions.Definition{Name: in.Definition.Name, Version: in.Definition.Version}, Arguments: in.Arguments, Caller: in.Caller, Request: c.attribute(info, workflows.AttrRequest)}
	encode := converter.WithDataConverterSerializationContext(c.repairConverter(in), converter.WorkflowSerializationContext{Namespace: c.namespace, WorkflowID: string(plan.ID)})
	input, err := encode.ToPayloads(in)
	if err != nil {
		return nil, err
	}
	note, err := encode.ToPayload(workflows.Repair{Of: plan.Execution, By: plan.by, Time: plan.Time, Token: plan.token})
	if err != nil {
		return nil, err
	}
	began, err := encode.ToPayload(c.firstStart(info))
	if err != nil {
		return nil, err
	}
	line, err := encode.ToPayload(clip(summary(like)+fmt.Sprintf(", repaired by %s", cmp.Or(plan.by, "nobody")), maxSummary))
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
		RequestId:                "repair-of-" + plan.Execution,
		Namespace:                c.namespace,
		WorkflowId:               string(plan.ID),
		WorkflowType:             &commonpb.WorkflowType{Name: workflows.WorkflowType},
		TaskQueue:                &taskqueuepb.TaskQueue{Name: workflows.TaskQueue, Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
		Input:                    input,
		Identity:                 "perdure",
		WorkflowIdReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIdConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowTaskTimeout:      taskTimeout,
		UserMetadata:             &sdkpb.UserMetadata{Summary: line, Details: about},
		SearchAttributes:         c.indexed(searchAttributes(like)),
		Memo:                     &commonpb.Memo{Fields: map[string]*commonpb.Payload{workflows.MemoRepair: note, workflows.MemoStarted: began}},
	}, nil
}

// headerOf is the header that an execution was started with. It names the trace
// of the call, which what repairs the run is a part of, too.
func (c *Client) headerOf(ctx context.Context, id RunID, execution string) (*commonpb.Header, error) {
	page, err := c.temporal.WorkflowService().GetWorkflowExecutionHistory(ctx, &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace: c.namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: string(id), RunId: execution}, MaximumPageSize: 1,
	})
	if err != nil || len(page.GetHistory().GetEvents()) == 0 {
		return nil, err
	}
	return page.History.Events[0].GetWorkflowExecutionStartedEventAttributes().GetHeader(), nil
}

// indexed are search attributes, all keywords, as Temporal takes them.
func (c *Client) indexed(attributes temporal.SearchAttributes) *commonpb.SearchAttributes {
	fields := map[string]*commonpb.Payload{}
	for _, key := range []temporal.SearchAttributeKeyKeyword{toolKey, versionKey, statusKey, callerKey, requestKey} {
		if value, ok := attributes.GetKeyword(key); ok {
			fields[key.GetName()], _ = converter.GetDefaultDataConverter().ToPayload(value) // a text is always encoded
			fields[key.GetName()].Metadata["type"] = []byte("Keyword")
		}
	}
	return &commonpb.SearchAttributes{IndexedFields: fields}
}

// confirmRepair looks whether an execution that was started is that of a plan.
func (c *Client) confirmRepair(ctx context.Context, plan *RetryPlan, execution string) error {
	d, err := c.temporal.WorkflowService().DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: c.namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: string(plan.ID), RunId: execution},
	})
	if err != nil {
		return failure(ctx, "repairing", plan.ID, err)
	}
	var of workflows.Repair
	note := d.WorkflowExecutionInfo.GetMemo().GetFields()[workflows.MemoRepair]
	if err := c.converter.FromPayload(note, &of); err != nil || of.Token != plan.token {
		return fmt.Errorf("run %s: %w", plan.ID, ErrChanged)
	}
	return nil
}

// tooLarge says of a run whose results do not fit into the input of an execution
// what can be done instead. Sizes are in bytes, by step path.
func tooLarge(id RunID, sizes map[workflows.StepPath]int, most int) error {
	paths := slices.SortedFunc(maps.Keys(sizes), func(a, b workflows.StepPath) int {
		return cmp.Or(sizes[b]-sizes[a], cmp.Compare(a, b))
	})
	var largest []string
	for _, path := range paths[:min(len(paths), 3)] {
		largest = append(largest, fmt.Sprintf("%s (%d bytes)", path, sizes[path]))
	}
	return fmt.Errorf("repairing run %s: its record does not fit into the %d bytes of the input of an execution. "+
		"The largest results are those of %s: let such a step be executed again, if that is harmless, with --from STEP, "+
		"or say with --step-result PATH=JSON that a shorter result will do; "+
		"or reset the run in the Web UI, or with: temporal workflow reset --workflow-id %s --type LastWorkflowTask --reason repair",
		id, most, strings.Join(largest, ", "), id)
}

func (p *RetryPlan) unsettledPaths() []string {
	paths := make([]string, len(p.Unsettled))
	for i, u := range p.Unsettled {
		paths[i] = string(u.Path)
	}
	return paths
}
