package history

import (
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/perdure/perdure/workflows"
)

// A Wait is one for a time, or for a limit of a backend. In an execution that
// continues the run it is the same one.
type Wait struct {
	Path    workflows.StepPath
	What    string // for people: "waits until …"
	Started time.Time
}

// UntilTime reports whether it is a wait for a time that somebody has written.
func (w *Wait) UntilTime() bool { return strings.HasPrefix(w.What, workflows.WaitsUntil) }

// waits are those that are under way.
type waits struct {
	pending[Wait]
	last map[workflows.StepPath]*Wait // that have not ended
}

func newWaits() waits {
	return waits{newPending[Wait](), map[workflows.StepPath]*Wait{}}
}

func (w *waits) add(c codec, e *historypb.HistoryEvent) []Fact {
	if e.EventType == enumspb.EVENT_TYPE_TIMER_STARTED {
		return w.started(c, e)
	}
	began, status := timerEnd(e)
	wait := w.end(began)
	if wait == nil {
		return nil
	}
	delete(w.last, wait.Path)
	return []Fact{WaitEnded{wait, status}}
}

func (w *waits) started(c codec, e *historypb.HistoryEvent) []Fact {
	path, what, ok := c.summary(e)
	if !ok || !strings.HasPrefix(what, "waits ") || what == workflows.WaitsForAnswer {
		return nil
	}
	wait := w.last[path]
	if wait == nil || wait.What != what {
		wait = &Wait{Path: path, What: what, Started: e.EventTime.AsTime()}
		w.last[path] = wait
	}
	w.begin(e.EventId, wait)
	return []Fact{WaitStarted{wait}}
}

// timerEnd says which timer has ended, and how.
func timerEnd(e *historypb.HistoryEvent) (began int64, status string) {
	switch e.EventType {
	case enumspb.EVENT_TYPE_TIMER_FIRED:
		return e.GetTimerFiredEventAttributes().GetStartedEventId(), StepCompleted
	case enumspb.EVENT_TYPE_TIMER_CANCELED:
		return e.GetTimerCanceledEventAttributes().GetStartedEventId(), StepCancelled
	}
	return 0, ""
}

func (w *waits) again(e *historypb.HistoryEvent) {
	if e.EventType == enumspb.EVENT_TYPE_TIMER_STARTED {
		w.pending.again(e.EventId)
	} else if began, _ := timerEnd(e); began != 0 {
		w.end(began)
	}
}

// ended notes that no wait outlives the execution.
func (w *waits) ended() { clear(w.last) }
