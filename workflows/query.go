package workflows

import (
	"encoding/json"
	"maps"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/workflows/record"
)

// StepsQuery is the query that a run answers with its steps: a list of
// StepReport in the order of the definition. It leaves nothing in histories.
const StepsQuery = "steps"

// A StepReport is the state of a step of the definition.
type StepReport struct {
	ID     string `json:"id"`
	What   string `json:"what"`            // what it does: the tool and its effect class, the composite tool, or the type of the step
	Status string `json:"status"`          // pending, running, completed, failed, skipped; stopped = the run ended before the step did
	Error  string `json:"error,omitempty"` // why it failed
	Why    string `json:"why,omitempty"`   // why it was skipped
}

// RecordQuery is the query that a run answers with a RunRecord, also when it has
// ended: what a resumed run starts with. Its argument is a RecordRequest, which
// may be missing.
const RecordQuery = "record"

// A RecordRequest names what of a record is not needed. The zero value: all is.
type RecordRequest struct {
	Steps []string   `json:"steps,omitempty"` // that are executed again, and all that depend on them: {} represents their results
	Paths []StepPath `json:"paths,omitempty"` // the same for these step paths alone
}

// A RunRecord is what a run knows of what it has done: its input, and its journal with
// what is only known while it runs.
type RunRecord struct {
	Input          RunInput                  `json:"input"`
	Entries        map[StepPath]record.Entry `json:"entries,omitempty"`        // by step path
	OutcomeUnknown map[StepPath]UnknownCall  `json:"outcomeUnknown,omitempty"` // by step path: calls that were sent and whose outcome is unknown
	Undone         map[StepPath]int          `json:"undone,omitempty"`         // by step path: how often it was undone
	Asked          map[StepPath]int          `json:"asked,omitempty"`          // by step path: how often it has asked
	Sizes          map[StepPath]int          `json:"sizes,omitempty"`          // by step path, in bytes: of results that are too large together, so Entries is empty
	Redo           []StepPath                `json:"redo,omitempty"`           // paths of steps that were undone since they were last executed
}

// RecordOf is the record of an execution that ended before a worker had taken it up: that
// of what it would have begun with.
func RecordOf(in RunInput) *RunRecord {
	j := newRecord(in, in.Journal)
	asked := &elicitations{origin: &origin{in: in}}
	asked.takeBack()
	asked.addTo(&j)
	return &j
}

func newRecord(in RunInput, entries map[StepPath]record.Entry) RunRecord {
	j := RunRecord{Input: in, Entries: entries, Undone: map[StepPath]int{}, Asked: map[StepPath]int{}}
	j.Input.Journal, j.Input.Open = nil, nil
	if before := in.Resumption; before != nil {
		maps.Copy(j.Undone, before.Undone)
		maps.Copy(j.Asked, before.Asked)
	}
	return j
}

func (r *run) recordForQuery(req RecordRequest) (RunRecord, error) {
	j := newRecord(r.in, r.journal.Whole())
	j.Input.Parent = r.parent.known()
	r.holds.next(&j.Input)
	r.sent.addTo(&j)
	r.undo.addTo(&j)
	r.elicitations.addTo(&j)
	r.leaveOut(&j, req)
	if size, err := json.Marshal(j); err != nil || len(size) > r.maxValue() {
		j.Sizes = map[StepPath]int{}
		//workflowcheck:ignore a map again
		for path, e := range j.Entries {
			j.Sizes[path] = e.ResultBytes()
		}
		j.Entries, j.OutcomeUnknown = nil, nil
	}
	return j, nil
}

// leaveOut puts {} in the place of results that are not needed.
func (r *run) leaveOut(j *RunRecord, req RecordRequest) {
	if len(req.Steps)+len(req.Paths) == 0 {
		return
	}
	again := map[string]bool{}
	for _, n := range r.program.Order() {
		again[n.ID] = slices.Contains(req.Steps, n.ID) || slices.ContainsFunc(n.Deps, func(id string) bool { return again[id] })
	}
	//workflowcheck:ignore a map again
	for path, e := range j.Entries {
		if again[path.Top()] || slices.Contains(req.Paths, path) {
			j.Entries[path] = e.Emptied()
		}
	}
}

func (r *run) answerQueries(ctx workflow.Context) error {
	if err := workflow.SetQueryHandler(ctx, RecordQuery, r.recordForQuery); err != nil {
		return err
	}
	return workflow.SetQueryHandler(ctx, StepsQuery, func() ([]StepReport, error) { return r.steps.reports(), nil })
}
