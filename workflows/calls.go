package workflows

import (
	"cmp"
	"encoding/json"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows/record"
)

// Calls are those of tools, by the effect contract: what was sent and has no known outcome
// is settled before anything else.
type calls struct {
	*origin
	tasks        *tasks
	journal      *record.Journal
	budget       *budget
	gates        *gates
	elicitations *elicitations
	sent         *sent
	holds        *holds
	parent       *parent

	results *results
	slots   workflow.Semaphore // each call takes one
}

// room is results.check, for steps that make no call.
func (cs *calls) room(ctx workflow.Context, path StepPath) *Error { return cs.results.check(ctx, path) }

// A request is what a run wants of a tool.
type request struct {
	tool           definitions.Tool
	path           StepPath        // of the step
	keyPath        StepPath        // for which the key is made; "" = path
	args           json.RawMessage // canonical
	limit          time.Duration   // all attempts together
	onError        *definitions.OnError
	onUnknown      definitions.OnUnknown
	probe          func() (*probe, error) // finds out whether the call was executed; nil = none
	undoable       bool                   // what it does can be undone
	undoes         bool                   // it undoes another call
	used           int                    // attempts with a known outcome, before the run waited for a credential or for its turn
	spent          time.Duration          // of limit, by attempts before the run showed that it waits for the backend
	waits          bool                   // the run shows that it waits for the backend
	earlierUnknown bool                   // an attempt may have been executed, of a call that may be repeated nevertheless
	anew           time.Time              // what was decided until then is known not to have been executed, so it is not looked for
}

// left is the rest of limit.
func (q *request) left() time.Duration { return max(q.limit-q.spent, time.Millisecond) }

// fresh has the call begin anew, with all of its time.
func (q *request) fresh() { q.spent, q.waits = 0, false }

// call is the only way from a run to a backend tool. What an earlier execution has
// recorded is not called again, and a call of unknown outcome is not repeated before
// that is settled.
func (cs *calls) call(ctx workflow.Context, q request) (ToolResult, *Error) {
	digest := record.DigestOf(q.args)
	if output, ok := cs.calledBefore(q.path, digest); ok {
		cs.noteCall(q, digest, output)
		return ToolResult{Output: output}, nil
	}
	var result ToolResult
	u := cs.unknownBefore(&q)
	digest = record.DigestOf(q.args)
	for {
		if u == nil || u.NotHappened {
			times := 1
			if u != nil {
				q.anew, times = u.Call.Sent, u.Times+1
				cs.noteUnknown(q, u)
			}
			sent, failure := cs.sendAuthorized(ctx, q, digest, &result)
			if failure == nil {
				break
			}
			if failure.Category != codes.CategoryOutcomeUnknown {
				return ToolResult{}, failure
			}
			lost := q.unknown(sent, *failure, times)
			u = &lost
		}
		known, again, failure := cs.reconcile(ctx, q, u)
		if failure != nil {
			return ToolResult{}, failure
		}
		if !again {
			result = known
			break
		}
		u.NotHappened = true
	}
	cs.sent.settled(q.path)
	cs.noteCall(q, digest, result.Output)
	return result, nil
}

// calledBefore is the output of a call in an execution before, or what a person has given
// instead, if that counts for a digest of arguments.
func (cs *calls) calledBefore(path StepPath, digest string) (json.RawMessage, bool) {
	if given, ok := record.Found[record.Given](cs.journal, path, digest); ok {
		return given.Output, true
	}
	call, ok := record.Found[record.Call](cs.journal, path, digest)
	return call.Output, ok
}

func (cs *calls) noteCall(q request, digest string, output json.RawMessage) {
	cs.journal.Note(q.path, record.Call{Digest: digest, Tool: q.tool.Name, Undoes: q.undoes, Output: output})
}

// send makes a call as soon as there is room for it. One that the limits of its
// backend hold back was not made.
func (cs *calls) send(ctx workflow.Context, q request, digest string, result *ToolResult) (ParkedCall, *Hold, *Error) {
	if failure := cs.awaitSlot(ctx, q); failure != nil {
		return ParkedCall{}, nil, failure
	}
	defer cs.slots.Release(1)
	if failure := cs.awaitTask(ctx, q); failure != nil {
		return ParkedCall{}, nil, failure
	}
	key := idempotencyKey(cs.in.Lineage, cs.in.Within+string(cmp.Or(q.keyPath, q.path)), digest)
	sent := newParkedCall(ctx, q, key)
	cs.sent.leaves(q, sent)
	cs.budget.begins()
	cs.results.begins(q.tool.Name)
	scheduled, began := cs.tasks.current(ctx).number, workflow.Now(ctx)
	err := cs.perform(ctx, q, cs.toolCall(ctx, q, key), result)
	cs.budget.ends()
	cs.results.came(q.tool.Name, result)
	switch {
	case err == nil:
		cs.sent.cameBack(q, nil)
		return sent, nil, nil
	case ctx.Err() != nil && cs.tasks.stillIn(ctx, scheduled):
		cs.sent.notSent(q)
		return sent, nil, q.failure(ctx.Err())
	}
	hold, failure := cs.failed(ctx, q, err, began)
	cs.sent.cameBack(q, failure)
	return sent, hold, failure
}

// awaitSlot waits until the run may make another call, which takes one of its slots.
func (cs *calls) awaitSlot(ctx workflow.Context, q request) *Error {
	if err := cmp.Or(ctx.Err(), cs.budget.waitWhileDraining(ctx)); err != nil {
		return q.failure(err)
	}
	if failure := cs.awaitHistoryRoom(ctx, q); failure != nil {
		return failure
	}
	if err := cs.slots.Acquire(ctx, 1); err != nil {
		return q.failure(err)
	}
	return nil
}

// awaitTask waits for a workflow task in which a write may be sent. A read needs none.
func (cs *calls) awaitTask(ctx workflow.Context, q request) *Error {
	for q.tool.Effect != definitions.Read {
		if err := cs.tasks.readyToSend(ctx, record.PayloadSize(q.args)); err != nil {
			return q.failure(err)
		}
		if cs.hasHistoryRoom(ctx, q) {
			break
		}
		if failure := cs.awaitHistoryRoom(ctx, q); failure != nil { // others were sent meanwhile
			return failure
		}
	}
	return nil
}

// toolCall is the input of the activity that makes a call.
func (cs *calls) toolCall(ctx workflow.Context, q request, key string) ToolCall {
	call := ToolCall{
		RunID: cs.id, StepID: q.path.Top(), StepPath: q.path,
		Tool: q.tool.Name, Backend: q.tool.Backend, Original: q.tool.Original,
		Arguments: q.args, Effect: q.tool.Effect, KeyArgument: q.tool.KeyArgument, IdempotencyKey: key,
		MaxAttempts: max(attempts(q.onError)-q.used, 1), MaxExpansion: cs.in.MaxValue,
		Caller: cs.in.Caller, Ruled: cs.in.Ruled, As: cs.actsAs(),
		Decided: workflow.Now(ctx), Waits: q.waits, Unread: cs.holds.isUnread(q.path),
		Beside: cs.program.Beside(q.path), Parent: cs.wantedBy(q), Ends: cs.ends(ctx, q),
	}
	if !Repeatable(q.tool.Effect) || q.tool.Effect == definitions.Keyed {
		call.SearchHistory, call.Anew = cs.in.WasReset, q.anew
		call.Execution = workflow.GetInfo(ctx).WorkflowExecution.RunID
	}
	return call
}

// failed is the failure of a call that began at a time, and the hold of one that was held
// back; nil = it was not.
func (cs *calls) failed(ctx workflow.Context, q request, err error, began time.Time) (*Hold, *Error) {
	failure, lost := q.failureOf(err)
	hold := q.holdOf(err)
	if hold != nil {
		hold.took = workflow.Now(ctx).Sub(began)
		if failure.Category != codes.CategoryHeld { // its process died before the call was sent
			failure, _ = Attempt{Number: failure.Attempt}.Held(hold.Why)
		}
	}
	if lost && failure.Category == codes.CategoryOutcomeUnknown {
		cs.countLost(ctx, q)
	}
	return hold, failure
}

// ends is when a call must no longer be sent, as the run or one above it is over then.
func (cs *calls) ends(ctx workflow.Context, q request) time.Time {
	if q.undoes {
		return time.Time{}
	}
	return earlier(endOf(ctx), cs.in.AboveEnds)
}

// wantedBy is the run that must want the call as well: the one that has called this
// one, unless the call undoes what was done.
func (cs *calls) wantedBy(q request) string {
	if cs.in.Parent == nil || q.undoes {
		return ""
	}
	return cs.in.Parent.RunID
}
