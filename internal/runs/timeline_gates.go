package runs

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/perdure/perdure/workflows"
)

// memo tells which elicitations opened and closed since the run's last state,
// and what came of asking.
func (t *timeline) memo(m *commonpb.Memo, at time.Time) []Event {
	state, ok := decodeState(t.converter, m)
	if !ok {
		return nil
	}
	var events []Event
	for _, e := range state.Elicitations {
		askings := t.newAskings(e)
		if kind := t.gate(&e, at); kind != "" {
			event := t.event(kind)
			event.Elicitation = &e
			events = append(events, event)
		}
		for _, a := range askings {
			event := t.event(EventAsked)
			event.Elicitation, event.Asking = &e, &a
			events = append(events, event)
		}
	}
	return events
}

// newAskings are the askings of an elicitation that were not told yet.
func (t *timeline) newAskings(e Elicitation) []Asking {
	if g := t.gates[e.ID]; g != nil {
		return e.Askings[min(len(g.Askings), len(e.Askings)):]
	}
	return e.Askings
}

// gate notes where an elicitation stands and says what has happened to it.
func (t *timeline) gate(e *Elicitation, at time.Time) EventKind {
	g := t.gates[e.ID]
	if g != nil && g.State == e.State {
		g.Askings = e.Askings
		return ""
	}
	if g == nil {
		record := &StepRecord{Path: e.StepPath, What: e.Message, Status: stepRunning, Started: e.Opened}
		t.records = append(t.records, record)
		t.begun(e.StepPath.Top())
		g = &gateRecord{record: record}
		t.gates[e.ID] = g
		t.asked = append(t.asked, e.ID)
	}
	if e.State == workflows.ElicitationAnswered && e.Content == nil {
		e.Content = t.given[e.AnswerID]
	}
	g.Elicitation = *e
	if e.State == workflows.ElicitationOpen {
		return EventOpened
	}
	g.record.Ended, g.record.Status = &at, gateStatus(e.State)
	g.record.Decided = Decided(*e)
	if t.full && e.Action != "" {
		g.record.Output, _ = json.Marshal(given{e.Action, e.Content, e.By})
	}
	if e.Kind == workflows.Question && e.Run == "" { // otherwise more is to come of the step
		t.finished(e.StepPath.Top())
	}
	return EventClosed
}

// A given is what an elicitation came to, as the output of its step.
type given struct {
	Action  string          `json:"action"`
	Content json.RawMessage `json:"content,omitempty"`
	By      string          `json:"by,omitempty"`
}

// elicitations are all of which the run has told, in the order of opening.
func (t *timeline) elicitations() []Elicitation {
	var all []Elicitation
	for _, id := range t.asked {
		if g := t.gates[id]; g != nil {
			all = append(all, g.Elicitation)
		}
	}
	return all
}

// signalled tells how a request stands to the run, and keeps what an answer says
// whose decision may turn out to be long. The first signal with an ID is that of
// who has made it up.
func (t *timeline) signalled(a *historypb.WorkflowExecutionSignaledEventAttributes, at time.Time) []Event {
	if a.GetSignalName() == workflows.AttachSignal {
		return t.attended(a, at)
	}
	answer, ok := t.answer(a)
	if _, known := t.given[answer.AnswerID]; ok && t.answers && !known {
		t.given[answer.AnswerID] = answer.Content
	}
	return nil
}

func (t *timeline) attended(a *historypb.WorkflowExecutionSignaledEventAttributes, at time.Time) []Event {
	var s workflows.Signal
	var said Attended
	if t.converter.FromPayloads(a.GetInput(), &s) != nil || json.Unmarshal(s.Body, &said) != nil || !t.proven(s) {
		return nil
	}
	event := t.event(EventAttended)
	event.Attended, event.At = &said, at
	return []Event{event}
}

func (t *timeline) answer(a *historypb.WorkflowExecutionSignaledEventAttributes) (workflows.Answer, bool) {
	var s workflows.Signal
	if a.GetSignalName() != workflows.AnswerSignal || t.converter.FromPayloads(a.GetInput(), &s) != nil {
		return workflows.Answer{}, false
	}
	return s.Answer()
}

// maxRefused bounds the signals that were not believed and are told of a run.
const maxRefused = 100

// ruled notes what the run has made of a signal.
func (t *timeline) ruled(data *commonpb.Payloads, at time.Time) {
	made, ok := t.ruling(data)
	if ok && made.Verdict == workflows.VerdictRefused && len(t.refused) < maxRefused {
		t.refused = append(t.refused, RefusedSignal{At: at, Signal: made.Signal, Reason: made.Reason,
			ElicitationID: made.ElicitationID, Action: made.Action, By: made.By})
	}
}

func (t *timeline) ruling(data *commonpb.Payloads) (made workflows.Ruling, ok bool) {
	ok = t.converter.FromPayloads(data, &made) == nil && made.Signal != "" && made.Verdict != ""
	return made, ok
}

// forgetGates begins an execution that was reset to a place before the end of
// the last one: only what it has copied of that tells where its elicitations
// stand. It returns what they were told to be.
func (t *timeline) forgetGates() (told map[string]*gateRecord) {
	told, t.gates = t.gates, map[string]*gateRecord{}
	return told
}

// regained tells what the reset has undone, once the copied events were read:
// elicitations that are open again, and open ones that were not asked any more.
func (t *timeline) regained(told map[string]*gateRecord) []Event {
	var events []Event
	tell := func(kind EventKind, e Elicitation) {
		event := t.event(kind)
		event.Elicitation = &e
		events = append(events, event)
	}
	for _, id := range slices.Sorted(maps.Keys(told)) {
		if e := told[id].Elicitation; e.State == workflows.ElicitationOpen && (t.gates[id] == nil || t.gates[id].State != e.State) {
			e.State, e.Schema = workflows.ElicitationDropped, nil
			tell(EventClosed, e)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(t.gates)) {
		if e := t.gates[id].Elicitation; e.State == workflows.ElicitationOpen && (told[id] == nil || told[id].State != e.State) {
			tell(EventOpened, e)
		}
	}
	return events
}

func gateStatus(s ElicitationState) string {
	switch s {
	case workflows.ElicitationAnswered:
		return stepCompleted
	case workflows.ElicitationExpired:
		return stepTimedOut
	}
	return stepCancelled
}
