package runs

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows"
)

// scheduled tells that an activity was put on its way. Its summary says which
// step it belongs to; one without is none of a step's.
func (t *timeline) scheduled(e *historypb.HistoryEvent, at time.Time) []Event {
	path, what, ok := t.summary(e)
	if !ok {
		return nil
	}
	// A read that was given up inside the workflow task goes on as an activity, and
	// by one is asked for the outcome of a run that was called before.
	record := t.lastOf(path)
	isOutcome := e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == workflows.OutcomeName
	if record == nil || !isOutcome && (!record.quick || record.Status == stepCompleted) {
		record = &StepRecord{Path: path, What: what, Started: at}
		t.records = append(t.records, record)
	}
	record.Status, record.Ended, record.Error, record.quick = stepRunning, nil, "", false
	if t.full {
		var call workflows.ToolCall
		if t.converter.FromPayloads(e.GetActivityTaskScheduledEventAttributes().GetInput(), &call) == nil {
			record.Arguments = call.Arguments
		}
	}
	record.activityID = e.GetActivityTaskScheduledEventAttributes().GetActivityId()
	t.calls[e.EventId] = record
	t.under[path.Top()]++
	t.begun(path.Top())
	return []Event{t.step(record, false)}
}

// waiting notes that a step, or a line of a script, waits for a time. In an
// execution that continues the run it is the same wait.
func (t *timeline) waiting(e *historypb.HistoryEvent, at time.Time) {
	path, what, ok := t.summary(e)
	if !ok || !strings.HasPrefix(what, workflows.WaitsUntil) {
		return
	}
	record := t.lastOf(path)
	if record == nil || record.What != what || record.Status != stepRunning {
		record = &StepRecord{Path: path, What: what, Status: stepRunning, Started: at}
		t.records = append(t.records, record)
	}
	t.waits[e.EventId] = record
}

func (t *timeline) waited(began int64, at time.Time, status string) {
	if record := t.waits[began]; record != nil {
		record.Status, record.Ended = status, &at
	}
}

// calledRun tells that a step has called another run.
func (t *timeline) calledRun(e *historypb.HistoryEvent, at time.Time) []Event {
	a := e.GetStartChildWorkflowExecutionInitiatedEventAttributes()
	var in workflows.RunInput
	if t.converter.FromPayloads(a.GetInput(), &in) != nil || in.Parent == nil {
		return nil
	}
	record := &StepRecord{Path: in.Parent.StepPath, What: in.Definition.Name, Status: stepRunning, Started: at, Attempts: 1,
		Run: RunID(a.GetWorkflowId()), Version: in.Definition.Version}
	if t.full {
		record.Arguments = in.Arguments
	}
	t.records = append(t.records, record)
	t.calls[e.EventId] = record
	t.under[record.Path.Top()]++
	t.begun(record.Path.Top())
	return []Event{t.step(record, false)}
}

// outcomeOf is how a run has ended that was called before, and of which an
// activity has asked.
func (t *timeline) outcomeOf(result *commonpb.Payloads) (status, message string, output json.RawMessage) {
	var outcome workflows.ChildOutcome
	if t.converter.FromPayloads(result, &outcome) != nil || outcome.Failure == nil {
		if outcome.Result != nil {
			output = outcome.Result.Output
		}
		return stepCompleted, "", output
	}
	return stepFailed, outcome.Failure.Error.Message, nil
}

// ended tells that an activity, or a run that was called, came to its end.
func (t *timeline) ended(scheduled int64, at time.Time, status string, result *commonpb.Payloads, f *failurepb.Failure) []Event {
	record := t.calls[scheduled]
	if record == nil {
		return nil
	}
	delete(t.calls, scheduled)
	t.under[record.Path.Top()]--
	t.end(record, at, status, result, f)
	return []Event{t.step(record, true)}
}

func statusOf(f *failurepb.Failure) string {
	switch {
	case lostWorker(f):
		return stepFailed
	case f.GetTimeoutFailureInfo() != nil:
		return stepTimedOut
	case f.GetCanceledFailureInfo() != nil:
		return stepCancelled
	}
	return stepFailed
}

const lostWords = "the worker that made the call is gone"

// lostWorker says whether a call ended with the worker that made it.
func lostWorker(f *failurepb.Failure) bool {
	return f.GetTimeoutFailureInfo().GetTimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT
}

func (t *timeline) end(r *StepRecord, at time.Time, status string, result *commonpb.Payloads, f *failurepb.Failure) {
	r.Status, r.Ended = status, &at
	if f != nil {
		r.Error = t.message(f)
	}
	switch t.category(f) {
	case codes.CategoryCredentials:
		r.Status = stepNeedsCredentials
		return
	case codes.CategoryHeld:
		r.Status = StepHeld
		return
	}
	if r.Run != "" && r.activityID != "" && result != nil {
		r.Status, r.Error, r.Output = t.outcomeOf(result)
	} else if t.full && result != nil {
		var output workflows.ToolResult
		if t.converter.FromPayloads(result, &output) == nil {
			r.Output = output.Output
		}
	}
	if !t.mayGoOn(r, f) {
		t.finished(r.Path.Top())
	}
}

// mayGoOn says whether more may come of a step after a call: it was that of a
// probe, or its outcome is unknown and the run finds out.
func (t *timeline) mayGoOn(r *StepRecord, f *failurepb.Failure) bool {
	if r.Path.IsProbe() {
		return true
	}
	known := f == nil || f.GetApplicationFailureInfo() != nil && t.detail(f).Category != codes.CategoryOutcomeUnknown
	step, tool := t.plan[r.Path.Top()], t.input.Tools[r.What]
	asks := cmp.Or(step.OnUnknown, tool.OnUnknown) == definitions.Ask
	return !known && !workflows.Repeatable(tool.Effect) && (asks || step.Probe != nil || tool.Probe != nil)
}

// lastOf is the last record of a step path; nil if there is none.
func (t *timeline) lastOf(path workflows.StepPath) *StepRecord {
	for i := len(t.records) - 1; i >= 0; i-- {
		if t.records[i].Path == path {
			return t.records[i]
		}
	}
	return nil
}

// begun notes that a step has started, so that those before it are done. It
// counts those that left no trace of their own, because they were skipped, and
// those of which history does not say that nothing more will come (forEach, and
// calls of unknown outcome).
func (t *timeline) begun(id string) {
	for _, before := range t.plan[id].DependsOn {
		if _, known := t.plan[before]; known && !t.done[before] {
			t.done[before] = true
			t.begun(before)
		}
	}
}

// finished notes that work of a step has ended.
func (t *timeline) finished(id string) {
	s, known := t.plan[id]
	if known && !s.Type.Traits().Composed && t.under[id] <= 0 {
		t.done[id] = true
	}
}

func (t *timeline) step(r *StepRecord, ended bool) Event {
	e := t.event(EventStep)
	e.StepID, e.StepPath, e.What, e.StepEnded = r.Path.Top(), r.Path, r.What, ended
	if ended {
		e.StepStatus = r.Status
	}
	return e
}

// A far is how far a script says it is. One that begins to count anew goes on
// after what it has counted.
type far struct {
	before, done, total float64 // total 0 = unknown
}

func (f *far) tell(line workflows.Told) {
	if line.Done <= 0 && line.Total <= 0 { // a line of its log
		return
	}
	if line.Done < f.done {
		f.before += f.done
	}
	f.done, f.total = line.Done, line.Total
}

// all is what there is to do; 0 = unknown.
func (f *far) all() float64 {
	if f.total < f.done {
		return 0
	}
	return f.before + f.total
}
