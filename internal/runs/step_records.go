package runs

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// stepRecords are the records of what the steps of a run have done.
type stepRecords struct {
	inOrder []*StepRecord // of starting
	calls   map[*history.Call]*StepRecord
	waits   map[*history.Wait]*StepRecord
	gates   map[string]*StepRecord // by the ID of the elicitation
}

func newStepRecords() stepRecords {
	return stepRecords{
		calls: map[*history.Call]*StepRecord{},
		waits: map[*history.Wait]*StepRecord{},
		gates: map[string]*StepRecord{},
	}
}

func (s *stepRecords) all() (records []StepRecord) {
	for _, r := range s.inOrder {
		records = append(records, *r)
	}
	// A read inside a workflow task is in history when it ends.
	slices.SortStableFunc(records, func(a, b StepRecord) int { return a.Started.Compare(b.Started) })
	return records
}

func (s *stepRecords) add(fact history.Fact, at time.Time) {
	switch f := fact.(type) {
	case history.CallStarted:
		if r := s.call(f.Call); r != nil {
			r.runs()
			r.Arguments = f.Arguments()
		}
	case history.CallTried:
		if r := s.call(f.Call); r != nil {
			r.Attempts = f.Call.Attempts
		}
	case history.CallEnded:
		if r := s.call(f.Call); r != nil {
			r.ended(f.Status, f.At(at))
			r.Attempts, r.Error, r.Output = f.Call.Attempts, f.Message, f.Output()
		}
	case history.WaitStarted:
		if f.Wait.UntilTime() {
			s.wait(f.Wait).runs()
		}
	case history.WaitEnded:
		if f.Wait.UntilTime() {
			s.wait(f.Wait).ended(f.Status, at)
		}
	case history.ElicitationChanged:
		s.elicitation(f, at)
	case history.Ended:
		s.leave(f.Outcome.Status, at)
	}
}

// leave ends what was under way as the run ended with a status: nothing outlives it.
func (s *stepRecords) leave(ended Status, at time.Time) {
	status := history.StepCancelled
	if ended == Terminated {
		status = history.StepTerminated
	}
	for _, r := range s.inOrder {
		if r.Status == history.StepRunning {
			r.ended(status, at)
		}
	}
}

// call is the record of a call; nil = it is none of a step's.
func (s *stepRecords) call(c *history.Call) *StepRecord {
	if c.Path == "" {
		return nil
	}
	r := s.calls[c]
	if r == nil {
		r = s.new(StepRecord{Path: c.Path, What: c.What, Started: c.Started, Attempts: c.Attempts, Run: RunID(c.Run), Version: c.Version})
		s.calls[c] = r
	}
	return r
}

func (s *stepRecords) wait(w *history.Wait) *StepRecord {
	r := s.waits[w]
	if r == nil {
		r = s.new(StepRecord{Path: w.Path, What: w.What, Started: w.Started})
		s.waits[w] = r
	}
	return r
}

func (s *stepRecords) elicitation(f history.ElicitationChanged, at time.Time) {
	e := f.Elicitation
	r := s.gates[e.ID]
	if r == nil {
		r = s.new(StepRecord{Path: e.StepPath, What: e.Message, Started: e.Opened})
		s.gates[e.ID] = r
	}
	switch f.Change {
	case history.Opened:
		r.runs()
		r.Decided, r.Output = "", nil
	case history.Closed:
		if r.Ended == nil { // else it was dropped as the run ended
			r.ended(GateStatus(e.State), at)
		}
		r.Decided = Decided(e)
		if e.Action != "" {
			r.Output, _ = json.Marshal(given{e.Action, e.Content, e.By})
		}
	}
}

func (s *stepRecords) new(r StepRecord) *StepRecord {
	s.inOrder = append(s.inOrder, &r)
	return &r
}

func (r *StepRecord) runs() { r.Status, r.Ended, r.Error = history.StepRunning, nil, "" }

func (r *StepRecord) ended(status string, at time.Time) { r.Status, r.Ended = status, &at }

// A given is the outcome of an elicitation, as the output of its step.
type given struct {
	Action  string          `json:"action"`
	Content json.RawMessage `json:"content,omitempty"`
	By      string          `json:"by,omitempty"`
}

// GateStatus is the status of the step of a closed elicitation.
func GateStatus(s ElicitationState) string {
	switch s {
	case workflows.ElicitationAnswered:
		return history.StepCompleted
	case workflows.ElicitationExpired:
		return history.StepTimedOut
	}
	return history.StepCancelled
}

// gateRecords are the elicitations of a run, in the order of opening.
type gateRecords struct {
	byID  map[string]*Elicitation
	order []string
}

func newGateRecords() gateRecords { return gateRecords{byID: map[string]*Elicitation{}} }

func (g *gateRecords) add(facts []history.Fact) {
	for _, fact := range facts {
		f, ok := fact.(history.ElicitationChanged)
		if !ok {
			continue
		}
		if g.byID[f.Elicitation.ID] == nil {
			g.order = append(g.order, f.Elicitation.ID)
		}
		g.byID[f.Elicitation.ID] = &f.Elicitation
	}
}

func (g *gateRecords) all() (list []Elicitation) {
	for _, id := range g.order {
		list = append(list, *g.byID[id])
	}
	return list
}
