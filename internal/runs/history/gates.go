package history

import (
	"encoding/json"
	"maps"
	"slices"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/perdure/perdure/workflows"
)

// gates are the elicitations of a run, as it has said in its memo how they stand.
type gates struct {
	known  map[string]*workflows.Elicitation // by ID
	before map[string]*workflows.Elicitation // of the execution that was reset
	given  map[string]json.RawMessage        // contents of answers by their IDs, for those that the memo leaves out
}

func newGates() gates {
	return gates{known: map[string]*workflows.Elicitation{}, given: map[string]json.RawMessage{}}
}

// next goes on with the next execution. After a reset, only the events that were
// copied say how the elicitations stand.
func (g *gates) next(reset bool) {
	g.before = nil
	if reset {
		g.before, g.known = g.known, map[string]*workflows.Elicitation{}
	}
}

// stated compares how the elicitations stand with how they stood.
func (g *gates) stated(c codec, m *commonpb.Memo) (facts []Fact) {
	state, err := State(c, m)
	if err != nil {
		return nil
	}
	for _, e := range state.Elicitations {
		questions := g.newQuestions(e)
		if change := g.set(&e); change != "" {
			facts = append(facts, ElicitationChanged{Change: change, Elicitation: e, Beside: state.Elicitations})
		}
		for _, a := range questions {
			facts = append(facts, ElicitationChanged{Change: Asked, Elicitation: e, Question: a})
		}
	}
	return facts
}

// newQuestions are those that are new.
func (g *gates) newQuestions(e workflows.Elicitation) []workflows.Question {
	if was := g.known[e.ID]; was != nil {
		return e.Questions[min(len(was.Questions), len(e.Questions)):]
	}
	return e.Questions
}

// set notes how an elicitation stands; "" = as it stood.
func (g *gates) set(e *workflows.Elicitation) Change {
	was := g.known[e.ID]
	if was != nil && was.State == e.State {
		was.Questions = e.Questions
		return ""
	}
	if e.State == workflows.ElicitationAnswered && e.Content == nil {
		e.Content = g.given[e.AnswerID]
		delete(g.given, e.AnswerID)
	}
	now := *e
	g.known[e.ID] = &now
	if e.State == workflows.ElicitationOpen {
		return Opened
	}
	return Closed
}

// answered keeps what an answer says whose content may turn out to be too long for
// the memo. The first one with an ID is that of who has made it up.
func (g *gates) answered(a workflows.Answer) {
	if _, known := g.given[a.AnswerID]; !known {
		g.given[a.AnswerID] = a.Content
	}
}

// path is that of the step which an elicitation belongs to.
func (g *gates) path(id string) workflows.StepPath {
	if e := g.known[id]; e != nil {
		return e.StepPath
	}
	return workflows.StepPath(id)
}

// dropped closes the elicitations that were open when the run ended without a
// word; the execution that resumes it asks anew.
func (g *gates) dropped() (facts []Fact) {
	for _, id := range slices.Sorted(maps.Keys(g.known)) {
		if e := g.known[id]; e.State == workflows.ElicitationOpen {
			drop(e)
			facts = append(facts, ElicitationChanged{Change: Closed, Elicitation: *e})
		}
	}
	return facts
}

func drop(e *workflows.Elicitation) { e.State, e.Schema = workflows.ElicitationDropped, nil }

// copy reads an event that was read before the reset.
func (g *gates) copy(c codec, e *historypb.HistoryEvent) {
	switch e.EventType {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
		g.stated(c, e.GetWorkflowExecutionStartedEventAttributes().GetMemo())
	case enumspb.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED:
		g.stated(c, e.GetWorkflowPropertiesModifiedEventAttributes().GetUpsertedMemo())
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
		if a, ok := answerOf(c, e.GetWorkflowExecutionSignaledEventAttributes()); ok {
			g.answered(a)
		}
	}
}

// regained says what a reset has undone, once the copied events were read:
// elicitations that are open again, and open ones that are not asked any more.
func (g *gates) regained() (facts []Fact) {
	open := func(e *workflows.Elicitation) bool { return e != nil && e.State == workflows.ElicitationOpen }
	for _, id := range slices.Sorted(maps.Keys(g.before)) {
		if open(g.before[id]) && !open(g.known[id]) {
			e := *g.before[id]
			drop(&e)
			facts = append(facts, ElicitationChanged{Change: Closed, Elicitation: e})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(g.known)) {
		if open(g.known[id]) && !open(g.before[id]) {
			facts = append(facts, ElicitationChanged{Change: Opened, Elicitation: *g.known[id]})
		}
	}
	g.before = nil
	return facts
}
