package workflows

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows/record"
)

const (
	// heartbeatTimeout is after how long a worker that was killed in the
	// middle of a call is given up.
	heartbeatTimeout = 10 * time.Second

	// localBudget is how long a read may take inside the workflow task, and localShare
	// which part of its time: a slower one is called again as an activity of its own, so
	// that it does not hold up the rest of the run, and what it took is lost.
	localBudget = 2 * time.Second
	localShare  = 10
)

// MaxResultSize bounds the output of a tool and the result of a run, in bytes
// as PayloadSize counts them. Temporal refuses payloads of more than 2 MiB.
const MaxResultSize = 1900 << 10

// MaxLocalResultSize bounds the output of a read inside a workflow task. With
// more, its activity fails there and is to be retried on its own.
const MaxLocalResultSize = 56 << 10

// perform makes the call: inside the workflow task where it is a quick
// read, otherwise as an activity, whose schedule is in history before the
// request leaves.
func (cs *calls) perform(ctx workflow.Context, q request, call ToolCall, result *ToolResult) error {
	if q.tool.Limited {
		return cs.performInTurn(ctx, q, call, result)
	}
	if q.tool.Effect == definitions.Read {
		began := workflow.Now(ctx)
		if call.MaxAttempts == 1 && !call.Waits {
			err := cs.performHere(ctx, q, call, result)
			if err == nil || !worthAnActivity(err) || q.left() <= localBudget {
				return err
			}
			if err := pauseAsAsked(ctx, q, err); err != nil {
				return err
			}
		}
		cs.tasks.makeRoom(ctx, record.PayloadSize(call.Arguments))
		cs.tasks.carries(ctx)
		q.spent += workflow.Now(ctx).Sub(began)
	}
	return cs.schedule(ctx, q, call, result, workflow.ActivityOptions{
		Summary:                callSummary(q.path, q.tool),
		ScheduleToCloseTimeout: q.left(),
		StartToCloseTimeout:    q.left(),
		HeartbeatTimeout:       heartbeatTimeout,
		RetryPolicy:            retryPolicy(q.onError, q.tool.Effect, q.used),
	})
}

// leftHere is the time that a read has inside the workflow task: all that is left where
// none would be for an activity.
func (q *request) leftHere() time.Duration {
	if q.left() <= localBudget {
		return q.left()
	}
	return min(localBudget, q.left()/localShare)
}

// performHere makes a call inside the workflow task.
func (cs *calls) performHere(ctx workflow.Context, q request, call ToolCall, result *ToolResult) error {
	ended := cs.tasks.makeLocalRoom(ctx)
	if err := ctx.Err(); err != nil {
		ended(0)
		return err
	}
	lctx := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: q.leftHere(), Summary: callSummary(q.path, q.tool),
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	})
	err := executeHere(lctx, result, CallToolName, call)
	ended(record.PayloadSize(result.Output))
	return err
}

// schedule has a call executed as an activity, and waits for it. What can be undone is waited for also
// when it was cancelled, since it may complete nevertheless. What was stopped before is not scheduled:
// the SDK would schedule and then cancel it, and history would have a call that nobody made.
func (cs *calls) schedule(ctx workflow.Context, q request, call ToolCall, result *ToolResult, options workflow.ActivityOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	options.WaitForCancellation = q.undoable
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), CallToolName, call).Get(ctx, result)
	if options.WaitForCancellation && err != nil && ctx.Err() != nil {
		return ctx.Err() // whatever the failure, it was stopped
	}
	return err
}

// performInTurn makes the call where the limits of its backend are kept. The wait there
// does not count for the step's time limit, and a call that no process has taken was
// not sent.
func (cs *calls) performInTurn(ctx workflow.Context, q request, call ToolCall, result *ToolResult) error {
	if q.tool.Effect == definitions.Read {
		cs.tasks.makeRoom(ctx, record.PayloadSize(call.Arguments))
		cs.tasks.carries(ctx)
	}
	call.Limit = q.left()
	untaken := max(q.left(), hostPatience)
	return cs.schedule(ctx, q, call, result, workflow.ActivityOptions{
		Summary:                callSummary(q.path, q.tool),
		TaskQueue:              BackendQueue(q.tool.Backend),
		ScheduleToStartTimeout: untaken,
		StartToCloseTimeout:    q.left() + shortWait,
		ScheduleToCloseTimeout: untaken + q.left() + shortWait,
		HeartbeatTimeout:       heartbeatTimeout,
		RetryPolicy:            retryPolicy(q.onError, q.tool.Effect, q.used),
	})
}

// failure reports why a call gave no output.
func (q request) failure(err error) *Error {
	e, _ := q.failureOf(err)
	return e
}

// failureOf is failure, and whether the call ended with an attempt that has reported
// nothing: what a timeout wraps is the failure of the attempt before the one that it
// ended.
func (q request) failureOf(err error) (e *Error, lost bool) {
	var (
		te     *temporal.TimeoutError
		app    *temporal.ApplicationError
		report Error
	)
	if !errors.As(err, &app) || !app.HasDetails() || app.Details(&report) != nil {
		return q.lostFailure(err, nil), true
	}
	if errors.As(err, &te) {
		return q.lostFailure(err, &report), true
	}
	return &report, false
}

// lostFailure is the failure of a call whose last attempt has reported nothing; before is
// what the attempt before has reported, nil = nothing.
func (q request) lostFailure(err error, before *Error) *Error {
	var te *temporal.TimeoutError
	errors.As(err, &te)
	e := &Error{Tool: q.tool.Name, Attempt: 1}
	if before != nil {
		e.Attempt += before.Attempt
	}
	switch {
	case temporal.IsCanceledError(err):
		e.Code, e.Category, e.Message = codes.Cancelled, codes.CategoryCancelled, fmt.Sprintf("step %s was cancelled", q.path)
		return e
	case te != nil && te.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START && (Repeatable(q.tool.Effect) || nothingSent(te)):
		e.Code, e.Category, e.Retryable = codes.BackendUnavailable, codes.CategoryTool, true
		e.Message = fmt.Sprintf("step %s: %s%s%s%s", q.path, q.tool.Name, unavailableWords, q.tool.Backend+unreachableWords, "no process keeps its limits")
		e.EarlierUnknown = te.Unwrap() != nil && (before == nil || before.MayHaveHappened())
		return e
	case te != nil && te.TimeoutType() == enums.TIMEOUT_TYPE_HEARTBEAT:
		e.Code, e.Category = codes.WorkerLost, codes.CategoryTool
		e.Message = workerLost(q.path, q.tool.Name)
	case te != nil:
		e.Code, e.Category = codes.StepTimeout, codes.CategoryTimeout
		e.Message = fmt.Sprintf("step %s timed out after %s", q.path, q.limit)
	default:
		e.Code, e.Category, e.Message = codes.Internal, codes.CategoryInternal, fmt.Sprintf("step %s: calling %s: %s", q.path, q.tool.Name, err)
	}
	if before != nil {
		e.Message += "; the attempt before failed: " + before.Message
	}
	if Repeatable(q.tool.Effect) {
		e.Retryable = true
		return e
	}
	e.Category = codes.CategoryOutcomeUnknown
	e.Message += fmt.Sprintf("; whether %s was executed is not known, so it is not called again", q.tool.Name)
	return e
}

// UnknownOutcomes is the metric that counts attempts whose outcome is unknown, with its
// attributes as OpenTelemetry has them.
const UnknownOutcomes = "perdure.step.unknown_outcomes"

// countLost counts a call with an unknown outcome that no worker has reported, and so not
// counted.
func (cs *calls) countLost(ctx workflow.Context, q request) {
	workflow.GetMetricsHandler(ctx).WithTags(map[string]string{
		"perdure.tool": cs.in.Definition.Name, "gen_ai.tool.name": q.tool.Name, "perdure.backend": q.tool.Backend, "perdure.effect": string(q.tool.Effect),
	}).Counter(UnknownOutcomes).Inc(1)
}

// nothingSent reports whether a call that no process has taken is not under way from an
// earlier attempt, whose process may have died without a report.
func nothingSent(untaken *temporal.TimeoutError) bool {
	before := untaken.Unwrap()
	var app *temporal.ApplicationError
	return before == nil || errors.As(before, &app) && KnownOutcome(codes.Category(app.Type()))
}

// idempotencyKey is the same for every attempt of a call in a lineage.
func idempotencyKey(lineage, path, argumentsDigest string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q", lineage, path, argumentsDigest)
	return hex.EncodeToString(h.Sum(nil)[:16])
}
