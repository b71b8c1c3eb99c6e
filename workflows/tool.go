package workflows

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows/record"
)

const (
	// heartbeatTimeout is after how long a worker that was killed in the
	// middle of a call is given up.
	heartbeatTimeout = 10 * time.Second

	// localBudget is how long a read may take inside the workflow task. A
	// slower one is called again as an activity of its own, so that it does
	// not hold up the rest of the run.
	localBudget = 2 * time.Second
)

// MaxResultSize bounds the output of a tool and the result of a run, in bytes
// as PayloadSize counts them. Temporal refuses payloads of more than 2 MiB.
const MaxResultSize = 1900 << 10

// maxValue bounds the values of this run in the same way.
func (r *run) maxValue() int { return cmp.Or(r.in.MaxValue, MaxResultSize) }

// maxJournal bounds what the next execution starts with.
func (r *run) maxJournal() int { return cmp.Or(r.in.MaxJournal, MaxResultSize) }

// MaxLocalResultSize bounds the output of a read inside a workflow task. With
// more, its activity fails there and is to be retried on its own.
const MaxLocalResultSize = 56 << 10

// Calls are those of tools that a run has under way.
type calls struct {
	slots    workflow.Semaphore // of which each takes one
	underWay int                // what was started and has not ended, signals and called runs included
	awaited  map[string]int     // calls whose results are to come into history, by tool
	largest  map[string]int     // result that has come, in bytes, by tool
	ended    int                // calls that have
}

// callTool executes a tool step.
func (r *run) callTool(ctx workflow.Context, n *definitions.Node, at place) Outcome {
	tool, ok := r.in.Tools[n.Step.Tool]
	if !ok {
		return Outcome{status: stepFailed, err: &Error{
			Code: codes.UnknownTool, Category: codes.CategoryTool, Retryable: true,
			Message: fmt.Sprintf("step %s: no backend offered the tool %s when the run started", at.path, n.Step.Tool),
		}}
	}
	args, err := n.Arguments(r.scopeAt(ctx, at), tool.InputSchema)
	if err != nil {
		return Outcome{status: stepFailed, err: r.templateError(n, at, err)}
	}
	if n := record.PayloadSize(args); n > r.maxValue() {
		return Outcome{status: stepFailed, err: &Error{Code: codes.ArgumentsTooLarge, Category: codes.CategoryLimit,
			Message: fmt.Sprintf("step %s: the arguments have %d bytes; the limit is %d", at.path, n, r.maxValue())}}
	}
	q := request{tool: tool, path: at.path, keyPath: r.keyPath(at.path, at.path), args: args, limit: timeout(n.Step), onError: n.Step.OnError,
		onUnknown: cmp.Or(n.Step.OnUnknown, tool.OnUnknown), undoable: n.Step.Compensate != nil}
	q.probe = func() (*probe, error) { return r.probeOf(ctx, n, at, tool) }
	result, failure := r.call(ctx, q)
	if failure != nil {
		return Outcome{status: stepFailed, err: failure}
	}
	output, err := template.DecodeValue(result.Output)
	if err != nil {
		return Outcome{status: stepFailed, err: &Error{Code: codes.InvalidOutput, Category: codes.CategoryInternal,
			Message: fmt.Sprintf("step %s: reading the output of %s: %s", at.path, tool.Name, err)}}
	}
	return Outcome{status: stepCompleted, output: output}
}

// A request is what a run wants of a tool.
type request struct {
	tool      definitions.Tool
	path      StepPath        // of the step
	keyPath   StepPath        // for which the key is made; "" = path
	args      json.RawMessage // canonical
	limit     time.Duration   // all attempts together
	onError   *definitions.OnError
	onUnknown definitions.OnUnknown
	probe     func() (*probe, error) // that tells whether the call was executed; nil = none
	undoable  bool                   // what it does can be undone
	undoes    bool                   // it undoes another call
	used      int                    // attempts of which the outcome is known, before the run waited for a credential or for its turn
	inDoubt   bool                   // an attempt may have been executed, of a call that may be repeated nevertheless
	anew      bool                   // what was sent before is known not to have been executed, so it is not looked for
}

// actsAs is the composite tool, if it or the one that has called it calls tools
// in its own right.
func (r *run) actsAs() string {
	if d := r.program.Definition; d.RunAs == definitions.AsComposite {
		return d.Name
	}
	return r.in.As
}

// call is the one way from a run to a backend tool. What an earlier execution
// has recorded is not called again, and what was sent without anybody knowing
// what came of it is not called before that is settled.
func (r *run) call(ctx workflow.Context, q request) (ToolResult, *Error) {
	digest := digestOf(q.args)
	if output, ok := r.calledBefore(q.path, digest); ok {
		r.noteCall(q, digest, output)
		return ToolResult{Output: output}, nil
	}
	var result ToolResult
	u := r.unsettledBefore(&q)
	digest = digestOf(q.args)
	for {
		if u == nil || u.NotHappened {
			times := 1
			if u != nil {
				q.anew, times = true, u.Times+1
				r.noteUnsettled(q, u)
			}
			sent, failure := r.sendAuthorized(ctx, q, digest, &result)
			if failure == nil {
				break
			}
			if failure.Category != codes.CategoryOutcomeUnknown {
				return ToolResult{}, failure
			}
			lost := q.unsettled(sent, *failure, times)
			u = &lost
		}
		known, again, failure := r.reconcile(ctx, q, u)
		if failure != nil {
			return ToolResult{}, failure
		}
		if !again {
			result = known
			break
		}
		u.NotHappened = true
	}
	delete(r.sent.unsettled, q.path)
	r.noteCall(q, digest, result.Output)
	return result, nil
}

// send makes a call as soon as there is room for it. One that the limits of its
// backend hold back was not made.
func (r *run) send(ctx workflow.Context, q request, digest string, result *ToolResult) (ParkedCall, *Hold, *Error) {
	if err := r.waitWhileDraining(ctx); err != nil {
		return ParkedCall{}, nil, q.failure(err)
	}
	if err := r.awaitHistoryRoom(ctx, q); err != nil {
		return ParkedCall{}, nil, err
	}
	if err := r.calls.slots.Acquire(ctx, 1); err != nil {
		return ParkedCall{}, nil, q.failure(err)
	}
	defer r.calls.slots.Release(1)
	if q.tool.Effect != definitions.Read {
		if err := r.tasks.readyToSend(ctx, record.PayloadSize(q.args)); err != nil {
			return ParkedCall{}, nil, q.failure(err)
		}
	}
	key := idempotencyKey(r.in.Lineage, r.in.Within+string(cmp.Or(q.keyPath, q.path)), digest)
	sent := newParkedCall(ctx, q, key)
	r.sent.leaves(q, sent)
	r.calls.underWay++
	r.calls.awaited[q.tool.Name]++
	scheduled := r.tasks.current(ctx).number
	err := r.perform(ctx, q, ToolCall{
		RunID: r.id, StepID: q.path.Top(), StepPath: q.path,
		Tool: q.tool.Name, Backend: q.tool.Backend, Original: q.tool.Original,
		Arguments: q.args, Effect: q.tool.Effect, KeyArgument: q.tool.KeyArgument,
		IdempotencyKey: key, MaxAttempts: max(attempts(q.onError)-q.used, 1), Caller: r.in.Caller, Ruled: r.in.Ruled, As: r.actsAs(),
		MaxExpansion: r.in.MaxValue, Decided: workflow.Now(ctx), LookBack: r.in.WasReset && !q.anew && !Repeatable(q.tool.Effect), Unread: r.holds.unread[q.path],
		Beside: r.program.Beside(q.path),
	}, result)
	r.calls.underWay--
	r.calls.came(q.tool.Name, result)
	if err != nil && ctx.Err() != nil && r.tasks.stillIn(ctx, scheduled) {
		r.sent.notSent(q)
		return sent, nil, q.failure(ctx.Err())
	}
	if err != nil {
		failure, hold := q.failure(err), q.holdOf(err)
		if hold != nil && failure.Category != codes.CategoryHeld { // its process died before the call was sent
			failure, _ = Attempt{Number: failure.Attempt}.Held(hold.Why)
		}
		r.sent.cameBack(q, failure)
		return sent, hold, failure
	}
	r.sent.cameBack(q, nil)
	return sent, nil, nil
}

// perform makes the call: inside the workflow task where it is a quick
// read, otherwise as an activity, whose schedule is in history before the
// request leaves.
func (r *run) perform(ctx workflow.Context, q request, call ToolCall, result *ToolResult) error {
	if q.tool.Limited {
		return r.performInTurn(ctx, q, call, result)
	}
	if q.tool.Effect == definitions.Read {
		began := workflow.Now(ctx)
		if call.MaxAttempts == 1 {
			err := r.performHere(ctx, q, call, result)
			if err == nil || !worthAnActivity(err) || q.limit <= localBudget {
				return err
			}
			if err := r.pauseAsAsked(ctx, q, err); err != nil {
				return err
			}
		}
		r.tasks.makeRoom(ctx, record.PayloadSize(call.Arguments))
		r.tasks.carries(ctx)
		q.limit = max(q.limit-workflow.Now(ctx).Sub(began), time.Millisecond)
	}
	return r.schedule(ctx, q, call, result, workflow.ActivityOptions{
		Summary:                callSummary(q.path, q.tool),
		ScheduleToCloseTimeout: q.limit,
		StartToCloseTimeout:    q.limit,
		HeartbeatTimeout:       heartbeatTimeout,
		RetryPolicy:            retryPolicy(q.onError, q.tool.Effect, q.used),
	})
}

// performHere makes a call inside the workflow task.
func (r *run) performHere(ctx workflow.Context, q request, call ToolCall, result *ToolResult) error {
	ended := r.tasks.makeLocalRoom(ctx)
	lctx := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: min(localBudget, q.limit), Summary: callSummary(q.path, q.tool),
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	})
	err := workflow.ExecuteLocalActivity(lctx, CallToolName, call).Get(ctx, result)
	ended(record.PayloadSize(result.Output))
	return err
}

// schedule has a call executed as an activity, and waits for it. What can be undone is waited for also
// when it was cancelled, since it may complete nevertheless.
func (r *run) schedule(ctx workflow.Context, q request, call ToolCall, result *ToolResult, options workflow.ActivityOptions) error {
	options.WaitForCancellation = q.undoable
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), CallToolName, call).Get(ctx, result)
	if options.WaitForCancellation && err != nil && ctx.Err() != nil {
		return ctx.Err() // whatever it failed with, it was stopped
	}
	return err
}

// performInTurn makes the call where the limits of its backend are kept. How
// long it takes there until it is sent is no time of the step's, and a call that
// nobody has taken was not sent.
func (r *run) performInTurn(ctx workflow.Context, q request, call ToolCall, result *ToolResult) error {
	if q.tool.Effect == definitions.Read {
		r.tasks.makeRoom(ctx, record.PayloadSize(call.Arguments))
		r.tasks.carries(ctx)
	}
	call.Limit = q.limit
	untaken := max(q.limit, hostPatience)
	return r.schedule(ctx, q, call, result, workflow.ActivityOptions{
		Summary:                callSummary(q.path, q.tool),
		TaskQueue:              BackendQueue(q.tool.Backend),
		ScheduleToStartTimeout: untaken,
		StartToCloseTimeout:    q.limit + shortWait,
		ScheduleToCloseTimeout: untaken + q.limit + shortWait,
		HeartbeatTimeout:       heartbeatTimeout,
		RetryPolicy:            retryPolicy(q.onError, q.tool.Effect, q.used),
	})
}

// failure says why a call gave no output.
func (q request) failure(err error) *Error {
	tool, path := q.tool, q.path
	var detail Error // of the last attempt that reported
	var app *temporal.ApplicationError
	reported := errors.As(err, &app) && app.HasDetails() && app.Details(&detail) == nil
	// Behind a timeout stands the attempt before the one that it ended.
	var te *temporal.TimeoutError
	if timedOut := errors.As(err, &te); reported && !timedOut {
		return &detail
	}
	e := &Error{Tool: tool.Name, Attempt: detail.Attempt + 1}
	switch {
	case temporal.IsCanceledError(err):
		e.Code, e.Category, e.Message = codes.Cancelled, codes.CategoryCancelled, fmt.Sprintf("step %s was cancelled", path)
		return e
	case te != nil && te.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START && (Repeatable(tool.Effect) || nothingSent(te)):
		e.Code, e.Category, e.Retryable = codes.BackendUnavailable, codes.CategoryTool, true
		e.Message = fmt.Sprintf("step %s: %s%s%s%s", path, tool.Name, unavailableWords, tool.Backend+unreachableWords, "no process keeps its limits")
		e.InDoubt = te.Unwrap() != nil && (!reported || detail.MayHaveHappened())
		return e
	case te != nil && te.TimeoutType() == enums.TIMEOUT_TYPE_HEARTBEAT:
		e.Code, e.Category = codes.WorkerLost, codes.CategoryTool
		e.Message = fmt.Sprintf("step %s: the worker that called %s is gone", path, tool.Name)
	case te != nil:
		e.Code, e.Category = codes.StepTimeout, codes.CategoryTimeout
		e.Message = fmt.Sprintf("step %s timed out after %s", path, q.limit)
	default:
		e.Code, e.Category, e.Message = codes.Internal, codes.CategoryInternal, fmt.Sprintf("step %s: calling %s: %s", path, tool.Name, err)
	}
	if reported {
		e.Message += "; the attempt before failed: " + detail.Message
	}
	if Repeatable(tool.Effect) {
		e.Retryable = true
		return e
	}
	e.Category = codes.CategoryOutcomeUnknown
	e.Message += fmt.Sprintf("; whether %s was executed is not known, so it is not called again", tool.Name)
	return e
}

// nothingSent says of a call that no process has taken that it is not under way
// from an attempt before, which may have stopped with its process without a word.
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

// digestOf is the digest of a call's canonical arguments.
func digestOf(data json.RawMessage) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
