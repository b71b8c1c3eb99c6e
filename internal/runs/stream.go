package runs

import (
	"encoding/json"

	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/internal/secrets"
	"github.com/perdure/perdure/workflows"
)

// A Seq is made of the number of the execution in its chain, the ID of the history
// event, and the number of the event among those made from it.
const (
	seqEventBits = 12
	seqChainBits = 36

	// unnumbered is the ID of an event whose own is not known: it comes after all others.
	unnumbered = 1<<(seqChainBits-seqEventBits) - 1
)

// A stream turns the history of a run into events for its followers.
type stream struct {
	advance advance
	// proven reports whether a process of the installation has sent a signal of
	// attendance to the run.
	proven func(workflows.Signal) bool

	moment history.Moment
	events []Event // of the moment
}

// EventsUntil is how many events of history there were in an execution with the event
// that has a Seq.
func EventsUntil(seq int64) int64 { return seq >> seqEventBits & unnumbered }

func newStream(keys *secrets.Keys, id RunID) *stream {
	return &stream{
		advance: newAdvance(),
		proven:  func(s workflows.Signal) bool { return s.Proven(keys, workflows.AttachSignal, string(id)) },
	}
}

// add returns the events of a moment, in order.
func (s *stream) add(m history.Moment) []Event {
	if m.Execution != s.moment.Execution {
		s.advance.executed()
	}
	s.moment, s.events = m, nil
	for _, fact := range m.Facts {
		s.fact(fact)
	}
	return s.events
}

func (s *stream) fact(fact history.Fact) {
	switch f := fact.(type) {
	case history.Began:
		if s.moment.Execution == 0 {
			s.advance.began(&f.Input)
		}
	case history.CallStarted:
		if f.Call.Path != "" {
			s.advance.callStarted(f.Call)
			s.step(f.Call, Event{})
		}
	case history.CallEnded:
		if f.Call.Path != "" {
			s.advance.callEnded(f)
			s.step(f.Call, Event{StepEnded: true, StepStatus: f.Status, StepError: f.Message, At: f.At(s.moment.At)})
		}
	case history.WaitStarted:
		s.wait(f.Wait, Event{})
	case history.WaitEnded:
		if f.Wait.UntilTime() { // otherwise the call follows for which it waited
			s.wait(f.Wait, Event{StepEnded: true, StepStatus: f.Status})
		}
	case history.Said:
		s.advance.far.tell(f.ScriptLine)
		s.tell(Event{Kind: EventSaid, StepID: f.StepPath.Top(), StepPath: f.StepPath, What: said(f, s.moment.At).String()})
	case history.ElicitationChanged:
		s.elicitation(f)
	case history.Attended:
		s.attended(f)
	case history.Quarantined:
		s.tell(Event{Kind: EventQuarantined, What: f.Reason})
	case history.Released:
		s.tell(Event{Kind: EventReleased, What: byWhom(f)})
	case history.Ended:
		s.advance.ended(f.Outcome)
		s.skipped(f.Outcome)
		s.tell(Event{Kind: EventDone, Outcome: f.Outcome})
	}
}

// tell adds an event with its number, and how far the run is.
func (s *stream) tell(e Event) {
	e.Seq = s.moment.Execution<<seqChainBits | s.moment.EventID<<seqEventBits | int64(len(s.events))
	e.Done, e.Total = s.advance.now()
	e.ByScript = s.advance.script
	if e.At.IsZero() {
		e.At = s.moment.At
	}
	s.events = append(s.events, e)
}

func (s *stream) step(c *history.Call, e Event) {
	e.Kind, e.StepID, e.StepPath, e.What = EventStep, c.Path.Top(), c.Path, c.What
	e.StepStarted, e.Activity = c.Started, c.Activity
	s.tell(e)
}

func (s *stream) wait(w *history.Wait, e Event) {
	e.Kind, e.StepID, e.StepPath, e.What, e.StepStarted = EventStep, w.Path.Top(), w.Path, w.What, w.Started
	s.tell(e)
}

// skipped tells which steps the run has skipped, which is known when it has ended.
func (s *stream) skipped(o *Outcome) {
	steps := o.Skipped
	if o.Failure != nil {
		steps = o.Failure.Skipped
	}
	for _, step := range steps {
		s.tell(Event{Kind: EventStep, StepID: step.ID, StepPath: workflows.StepPath(step.ID), StepEnded: true, StepStatus: StepSkipped, StepError: step.Why})
	}
}

func (s *stream) elicitation(f history.ElicitationChanged) {
	s.advance.elicitation(f)
	e := Event{Kind: EventOpened, Elicitation: &f.Elicitation, Beside: f.Beside}
	switch f.Change {
	case history.Asked:
		e.Kind, e.Question = EventQuestion, &f.Question
	case history.Closed:
		e.Kind = EventClosed
	}
	s.tell(e)
}

func (s *stream) attended(f history.Attended) {
	var says Attended
	if json.Unmarshal(f.Signal.Body, &says) == nil && s.proven(f.Signal) {
		s.tell(Event{Kind: EventAttended, Attended: &says})
	}
}

// byWhom reports who has released a run; "" = it is not known.
func byWhom(r history.Released) string {
	if r.By == "" {
		return ""
	}
	return withReason("by "+r.By, r.Reason)
}
