package runs

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
)

// history reads the events of an execution. With wait it continues until the execution
// has ended and survives a Temporal that is unavailable.
func (a *archive) history(ctx context.Context, id RunID, runID string, wait bool) iter.Seq2[*historypb.HistoryEvent, error] {
	return (&historyReader{archive: a, id: id, runID: runID, wait: wait}).all(ctx)
}

// all reads the history to its end.
func (h *historyReader) all(ctx context.Context) iter.Seq2[*historypb.HistoryEvent, error] {
	return func(yield func(*historypb.HistoryEvent, error) bool) {
		for !h.ended {
			events, err := h.read(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// A historyReader reads the history of one execution, page by page.
type historyReader struct {
	archive *archive
	id      RunID
	runID   string // Temporal's; "" = of the execution that is current
	wait    bool

	token  []byte
	last   int64 // event that was handed out
	closed bool  // the last event has come
	ended  bool
	paused bool          // Temporal gave all there is, though the execution continues
	outage *backoff      // since Temporal does not answer; nil = it does
	limit  time.Duration // of the next poll

	news       *subscription // of the run; nil = there is none in this process
	near       time.Duration // is how long to wait for news; 0 = Temporal is polled
	full       bool          // the page before had so many events that there may be more
	essentials bool          // what is not pressing may wait; see Essentials
	fresh      bool          // the execution is the first of a run that no other calls
}

// How long news of a run is waited for before Temporal is polled: of one that the worker of
// this process may execute, and of one that it has executed. A run that has many calls at a
// busy worker waits long between two tasks, and a poll would return for each call.
const (
	nearby = 100 * time.Millisecond
	near   = time.Second

	// unhurried is how long what is not pressing waits for those who want Essentials.
	unhurried = 500 * time.Millisecond
)

// pageful is how many events a page may have that is not the last: servers give fewer than
// they are asked for.
const pageful = 100

// Temporal may lose the notification for which a poll waits when events follow
// each other closely, and then answers only when the poll expires. So a poll is
// given up early while there is news, and later and later when there is none.
const (
	firstPoll = 40 * time.Millisecond
	lastPoll  = 30 * time.Second // the server answers after 20
)

// read returns the events that are new; none if there was no news for a while.
func (h *historyReader) read(ctx context.Context) ([]*historypb.HistoryEvent, error) {
	if h.paused {
		if err := h.resumed(ctx); err != nil {
			return nil, err
		}
	}
	came := h.near > 0 && !h.full && h.awaitNews(ctx)
	if end := h.news.latest().end; end != nil && h.fresh && h.essentials {
		h.ended = true
		return []*historypb.HistoryEvent{end}, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	page, err := h.page(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, errNoNews):
		h.limit = min(2*h.limit, lastPoll)
		return nil, nil
	case err != nil && h.wait && (unavailable(err) || h.stale(err)):
		return nil, h.recover(ctx, err)
	case err != nil:
		return nil, err
	}
	h.outage = nil
	h.locate(came, page.History.GetEvents())
	return h.take(page.History.GetEvents(), page.NextPageToken), nil
}

// take notes where the reader is after a page, and returns the events that are new.
func (h *historyReader) take(events []*historypb.HistoryEvent, next []byte) []*historypb.HistoryEvent {
	h.token = next
	h.closed = h.closed || slices.ContainsFunc(events, closes)
	h.ended = len(next) == 0 && (h.closed || !h.wait)
	h.paused = len(next) == 0 && !h.ended
	h.full = len(events) >= pageful
	events = slices.DeleteFunc(events, func(e *historypb.HistoryEvent) bool { return e.EventId <= h.last || provisional(e) })
	if len(events) > 0 {
		h.last = events[len(events)-1].EventId
		h.limit = firstPoll
	}
	return events
}

// awaitNews waits for news of the run; false = there is none.
func (h *historyReader) awaitNews(ctx context.Context) bool {
	if h.essentials {
		return h.news.awaitPressing(ctx, h.near, unhurried)
	}
	return h.news.await(ctx, h.near)
}

// locate notes where the run is executed: here if there was news, elsewhere if a task has
// ended without.
func (h *historyReader) locate(came bool, events []*historypb.HistoryEvent) {
	switch {
	case came || h.near == 0 && h.news.await(context.Background(), 0):
		h.near = near
	case !h.full && slices.ContainsFunc(events, func(e *historypb.HistoryEvent) bool {
		return e.EventId > h.last && e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
	}):
		h.near = 0
	}
}

// resumed waits until the execution is paused no more. One that is takes no polls:
// Temporal ends its history as if it was over.
func (h *historyReader) resumed(ctx context.Context) error {
	for pause := newBackoff(); pause.wait(ctx); {
		d, err := h.archive.describe(ctx, h.id)
		info := d.GetWorkflowExecutionInfo()
		switch {
		case err != nil && !unavailable(err):
			return err
		case err == nil && (info.Status != enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED || h.runID != "" && info.Execution.RunId != h.runID):
			return nil
		}
	}
	return ctx.Err()
}

// ended reports whether an execution ended in a way from which a run may continue in
// another: because it is reset, or because it is resumed.
func ended(e *historypb.HistoryEvent) bool {
	switch e.EventType {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
		enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
		return true
	}
	return false
}

// closes reports whether no event follows one in its execution.
func closes(e *historypb.HistoryEvent) bool {
	return ended(e) || e.EventType == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED || e.EventType == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW
}

// stale reports whether an error means the place that was reached, which Temporal
// forgets when its own state of the run moved on in the meantime.
func (h *historyReader) stale(err error) bool {
	var invalid *serviceerror.InvalidArgument
	return h.token != nil && errors.As(err, &invalid)
}

// recover waits a moment before the history is read again.
func (h *historyReader) recover(ctx context.Context, err error) error {
	if h.outage == nil {
		h.outage = newBackoff()
	}
	h.archive.log.Debug("reading the history of a run", "run", h.id, "error", err)
	h.token = nil // what it represents may have gone with the server
	if !h.outage.wait(ctx) {
		return ctx.Err()
	}
	return nil
}

var errNoNews = errors.New("no news")

// page reads one page. A poll that finds nothing within the limit ends with
// errNoNews.
func (h *historyReader) page(ctx context.Context) (*workflowservice.GetWorkflowExecutionHistoryResponse, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var poll *time.Timer
	if h.wait && h.token != nil {
		poll = time.AfterFunc(max(h.limit, firstPoll), cancel)
	}
	page, err := h.archive.temporal.WorkflowService().GetWorkflowExecutionHistory(call, &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace:              h.archive.namespace,
		Execution:              &commonpb.WorkflowExecution{WorkflowId: string(h.id), RunId: h.runID},
		NextPageToken:          h.token,
		WaitNewEvent:           h.wait,
		HistoryEventFilterType: enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT,
		SkipArchival:           true,
	})
	if err != nil && poll != nil && !poll.Stop() && call.Err() == context.Canceled {
		return nil, errNoNews
	}
	return page, err
}

// provisional events may be shown before they are written, and their IDs may
// then be given to others.
func provisional(e *historypb.HistoryEvent) bool {
	return e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED ||
		e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED
}
