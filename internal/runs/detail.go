package runs

import (
	"context"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// Show returns a run with everything in its history.
func (r reader) Show(ctx context.Context, id RunID) (*Detail, error) {
	described, err := r.describe(ctx, id)
	if err != nil {
		return nil, failure(ctx, "reading", id, err)
	}
	d := newDetailed()
	for m, err := range r.all(ctx, id) {
		if err != nil {
			return nil, failure(ctx, "reading", id, err)
		}
		d.add(m)
	}
	if d.unread != nil {
		return nil, fmt.Errorf("reading the input of run %s: %w", id, d.unread)
	}
	d.Run = *r.described(described)
	if !d.began.IsZero() && d.began.Before(d.Started) {
		d.Started = d.began
	}
	if err := r.addEnd(ctx, &d.Run, described.WorkflowExecutionInfo, false); err != nil {
		return nil, failure(ctx, "reading", id, err)
	}
	if d.Quarantine != nil && isOpen(described.WorkflowExecutionInfo.Status) {
		d.Status = workflows.Quarantined
	} else {
		d.Quarantine = nil
	}
	if d.WaitingFor != NoWorker {
		d.Problem = ""
	}
	for _, p := range described.PendingActivities {
		d.pending(p, history.NewFailure(r.converter, p.LastFailure))
	}
	d.Elicitations = d.gates.all()
	if d.Closed != nil {
		dropOpen(d.Elicitations)
	}
	d.Steps = d.steps.all()
	return &d.Detail, nil
}

// A detailed makes of what has happened to a run a Detail.
type detailed struct {
	Detail
	execution int64
	unread    error // why the input of the run was not read; nil = it was
	began     time.Time
	steps     stepRecords
	gates     gateRecords
}

func newDetailed() *detailed { return &detailed{steps: newStepRecords(), gates: newGateRecords()} }

func (d *detailed) add(m history.Moment) {
	if m.Execution != d.execution { // nothing of these is true of the next one
		d.execution, d.Quarantine, d.Outcome, d.Unprocessed = m.Execution, nil, nil, nil
	}
	d.gates.add(m.Facts)
	for _, fact := range m.Facts {
		d.steps.add(fact, m.At)
		d.fact(fact, m)
	}
}

// maxRefused bounds the rejected signals that are shown of a run.
const maxRefused = 100

func (d *detailed) fact(fact history.Fact, m history.Moment) {
	switch f := fact.(type) {
	case history.Began:
		if m.Execution == 0 {
			d.began, d.unread = m.At, f.Unread
			facts := factsOf(f.Input.Definition)
			d.Arguments, d.Digest, d.Forwarded = f.Input.Arguments, f.Input.Definition.Digest, f.Input.Caller.Forwarded
			d.Script, d.OnDisconnect = facts.Script, facts.OnDisconnect
		}
	case history.Said:
		d.Said = append(d.Said, said(f, m.At))
	case history.AnswerSent:
		if d.Unprocessed == nil {
			d.Unprocessed = map[string]string{}
		}
		d.Unprocessed[f.Answer.AnswerID] = f.Answer.ElicitationID
	case history.Ruled:
		delete(d.Unprocessed, f.AnswerID)
		if f.Verdict == workflows.VerdictRefused && len(d.Refused) < maxRefused {
			d.Refused = append(d.Refused, RefusedSignal{At: m.At, Signal: f.Signal, Reason: f.Reason,
				ElicitationID: f.ElicitationID, Action: f.Action, By: f.By})
		}
	case history.TaskFailed:
		d.Problem = notExecuted(f)
	case history.Quarantined:
		d.Quarantine = &f
	case history.Released:
		d.Quarantine = nil
	case history.Ended:
		d.Outcome = f.Outcome
	}
}

// pending adds what history does not hold yet: the attempts of a call that is
// under way, and why the last one failed.
func (d *detailed) pending(p *workflowpb.PendingActivityInfo, last history.Failure) {
	for call, r := range d.steps.calls {
		if call.Activity != p.ActivityId || r.Status != history.StepRunning {
			continue
		}
		r.Attempts = int(p.Attempt)
		if last.None() {
			continue
		}
		r.Error = last.Message()
		if next := p.GetScheduledTime(); next != nil && p.State == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED {
			at := next.AsTime()
			r.Next = &at
		}
	}
}

func said(f history.Said, at time.Time) Said {
	return Said{At: at, StepPath: f.StepPath, Message: f.Message, Done: f.Done, Total: f.Total}
}
