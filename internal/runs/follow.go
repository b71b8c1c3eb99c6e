package runs

import (
	"cmp"
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

	"github.com/perdure/perdure/workflows"
)

// callTimeout is after how long a call that does not return is given up.
const callTimeout = time.Minute

// Follow tells what has happened to a run after the event with the given Seq
// (0 = from the beginning), and then what happens, until the run has ended.
//
// The iteration ends after EventDone, or after an error: ErrNotFound, or the
// end of ctx. A Temporal that cannot be reached is waited for.
func (c *Client) Follow(ctx context.Context, id RunID, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f := &follower{client: c, id: id, timeline: c.timelineOf(id)}
		f.timeline.proven = func(s workflows.Signal) bool { return s.Proven(c.keys, workflows.AttachSignal, string(id)) }
		f.each = func(_ *historypb.HistoryEvent, events []Event, last bool) bool {
			for _, event := range events {
				if event.Seq > after && (event.Kind != EventDone || last) && !yield(event, nil) {
					return false
				}
			}
			return true
		}
		if err := f.run(ctx); err != nil && !f.stopped {
			yield(Event{}, failure(ctx, "following", id, err))
		}
	}
}

// A follower is one iteration over what happens to a run.
type follower struct {
	client   *Client
	id       RunID
	timeline *timeline
	once     bool // end where history does, and do not wait for more
	// each is given every event of history, and what the timeline makes of it;
	// last says that the run has not gone on in another execution. False: the
	// caller wants no more.
	each    func(e *historypb.HistoryEvent, events []Event, last bool) bool
	stopped bool
}

func (f *follower) run(ctx context.Context) error {
	chain, err := f.chain(ctx)
	if err != nil {
		return err
	}
	for {
		for i, x := range chain {
			if err := f.execution(ctx, x, i == len(chain)-1); err != nil || f.stopped {
				return err
			}
			if i == len(chain)-1 && (f.timeline.outcome != nil || f.once) {
				return nil
			}
			f.timeline.nextExecution()
		}
		if chain, err = f.following(ctx, chain[len(chain)-1]); err != nil {
			return err
		}
	}
}

// chain finds the executions of the run, the first one first. A run that this
// process has just started has one.
func (f *follower) chain(ctx context.Context) ([]execution, error) {
	if runID, ok := f.client.fresh.take(f.id); ok {
		return []execution{{runID: runID}}, nil
	}
	var chain []execution
	err := f.client.patiently(ctx, func() (err error) {
		chain, err = f.client.chain(ctx, f.id)
		return err
	})
	return chain, err
}

// following is the execution after last.
func (f *follower) following(ctx context.Context, last execution) ([]execution, error) {
	var all []execution
	err := f.client.patiently(ctx, func() (err error) {
		all, err = f.client.chain(ctx, f.id)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, x := range all {
		if x.runID == last.runID && i+1 < len(all) {
			return all[i+1:], nil
		}
	}
	return nil, serviceerror.NewNotFound("the execution that continues the run")
}

// execution tells the events of one execution; the last one is waited for.
func (f *follower) execution(ctx context.Context, x execution, last bool) error {
	var told map[string]*gateRecord
	f.timeline.reads(x.runID)
	if x.copied > 0 {
		told = f.timeline.forgetGates()
	}
	for e, err := range f.client.history(ctx, f.id, x.runID, last && !f.once) {
		if err != nil {
			return err
		}
		superseded := last && ended(e) && f.superseded(ctx, x)
		events := f.timeline.add(e)
		switch {
		case e.EventId == x.copied:
			events = f.timeline.regained(told)
		case e.EventId < x.copied:
			continue // told by the execution that this one was reset from
		}
		if !f.each(e, events, last && !superseded) {
			f.stopped = true
			return nil
		}
		if superseded {
			f.timeline.outcome = nil
			return nil
		}
	}
	return nil
}

// ended says whether an execution ended in a way from which a run may go on in
// another: because it is reset, or because it is repaired.
func ended(e *historypb.HistoryEvent) bool {
	switch e.EventType {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
		enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
		return true
	}
	return false
}

// superseded says whether the run has gone on in another execution.
func (f *follower) superseded(ctx context.Context, x execution) bool {
	_, err := f.following(ctx, x)
	return err == nil
}

// An execution is one of the chain that makes up a run.
type execution struct {
	runID  string // Temporal's
	copied int64  // events up to this one are copies of its predecessor's
}

// chain finds the executions of a run that have not been deleted, the first
// one first.
func (c *Client) chain(ctx context.Context, id RunID) ([]execution, error) {
	d, err := c.describe(ctx, id)
	if err != nil {
		return nil, err
	}
	info := d.WorkflowExecutionInfo
	runID := info.Execution.RunId
	if _, repaired := info.GetMemo().GetFields()[workflows.MemoRepair]; runID == info.FirstRunId && !repaired {
		return []execution{{runID: runID}}, nil
	}
	var chain []execution
	for runID != "" {
		x, before, err := c.predecessor(ctx, id, runID)
		var gone *serviceerror.NotFound
		if errors.As(err, &gone) && len(chain) > 0 {
			break
		}
		if err != nil {
			return nil, err
		}
		chain = append([]execution{x}, chain...)
		runID = before
	}
	return chain, nil
}

// predecessor reads from an execution's history which one it continues; "" is
// none.
func (c *Client) predecessor(ctx context.Context, id RunID, runID string) (x execution, before string, err error) {
	x.runID = runID
	for e, err := range c.history(ctx, id, runID, false) {
		if err != nil {
			return x, "", err
		}
		if a := e.GetWorkflowExecutionStartedEventAttributes(); a != nil {
			before = cmp.Or(a.ContinuedExecutionRunId, c.repairs(a))
		}
		a := e.GetWorkflowTaskFailedEventAttributes()
		if a.GetCause() == enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW && a.NewRunId == runID {
			before, x.copied = a.BaseRunId, e.EventId
		}
	}
	return x, before, nil
}

// repairs is the execution that another one repeats; "" if it repeats none.
func (c *Client) repairs(a *historypb.WorkflowExecutionStartedEventAttributes) string {
	var in workflows.RunInput
	if c.converter.FromPayloads(a.GetInput(), &in) != nil || in.Repair == nil {
		return ""
	}
	return in.Repair.Of
}

// history reads the events of an execution. With wait it goes on until the
// execution has ended and survives a Temporal that is away.
func (c *Client) history(ctx context.Context, id RunID, runID string, wait bool) iter.Seq2[*historypb.HistoryEvent, error] {
	return func(yield func(*historypb.HistoryEvent, error) bool) {
		h := &historyReader{client: c, id: id, runID: runID, wait: wait}
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
	client *Client
	id     RunID
	runID  string // Temporal's; "" = of the execution that is current
	wait   bool

	token   []byte
	last    int64 // event that was handed out
	closed  bool  // the last event has come
	ended   bool
	paused  bool          // Temporal gave all there is, though the execution goes on
	trouble *backoff      // nil = none
	limit   time.Duration // of the next poll
}

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
	page, err := h.page(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, errNoNews):
		h.limit = min(2*h.limit, lastPoll)
		return nil, nil
	case err != nil && h.wait && (away(err) || h.stale(err)):
		return nil, h.recover(ctx, err)
	case err != nil:
		return nil, err
	}
	h.trouble = nil
	h.token = page.NextPageToken
	h.closed = h.closed || slices.ContainsFunc(page.History.GetEvents(), closes)
	h.ended = len(h.token) == 0 && (h.closed || !h.wait)
	h.paused = len(h.token) == 0 && !h.ended
	events := slices.DeleteFunc(page.History.GetEvents(), func(e *historypb.HistoryEvent) bool {
		return e.EventId <= h.last || provisional(e)
	})
	if len(events) > 0 {
		h.last = events[len(events)-1].EventId
		h.limit = firstPoll
	}
	return events, nil
}

// resumed waits until the execution is paused no more. One that is takes no polls:
// Temporal ends its history as if it was over.
func (h *historyReader) resumed(ctx context.Context) error {
	for pause := newBackoff(); pause.wait(ctx); {
		d, err := h.client.describe(ctx, h.id)
		info := d.GetWorkflowExecutionInfo()
		switch {
		case err != nil && !away(err):
			return err
		case err == nil && (info.Status != enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED || h.runID != "" && info.Execution.RunId != h.runID):
			return nil
		}
	}
	return ctx.Err()
}

// closes says whether no event follows one in its execution.
func closes(e *historypb.HistoryEvent) bool {
	return ended(e) || e.EventType == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED || e.EventType == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW
}

// stale says whether an error means the place that was reached, which Temporal
// forgets when its own state of the run moved on in the meantime.
func (h *historyReader) stale(err error) bool {
	var invalid *serviceerror.InvalidArgument
	return h.token != nil && errors.As(err, &invalid)
}

// recover waits a moment before the history is read again.
func (h *historyReader) recover(ctx context.Context, err error) error {
	if h.trouble == nil {
		h.trouble = newBackoff()
	}
	h.client.log.Debug("reading the history of a run", "run", h.id, "error", err)
	h.token = nil // what it stands for may have gone with the server
	if !h.trouble.wait(ctx) {
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
	page, err := h.client.temporal.WorkflowService().GetWorkflowExecutionHistory(call, &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace:              h.client.namespace,
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

// patiently calls f until Temporal answers or ctx ends.
func (c *Client) patiently(ctx context.Context, f func() error) error {
	for pause := newBackoff(); ; {
		err := f()
		if err == nil || !away(err) || ctx.Err() != nil || !pause.wait(ctx) {
			return err
		}
	}
}
