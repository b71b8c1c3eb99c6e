package workflows

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"
)

// StepsQuery is the query that a run answers with its steps: a list of
// StepReport in the order of the definition. It leaves nothing in histories.
const StepsQuery = "steps"

// A StepReport says where a step of the definition stands.
type StepReport struct {
	ID     string `json:"id"`
	Status string `json:"status"`          // pending, running, completed, failed, skipped; stopped = the run ended before the step did
	Error  string `json:"error,omitempty"` // why it failed
}

// JournalQuery is the query that a run answers with a Record, also when it has
// ended: what a repaired run starts with.
const JournalQuery = "journal"

// A Record is what a run knows of what it has done.
type Record struct {
	Input     RunInput                `json:"input"`
	Journal   map[string]JournalEntry `json:"journal,omitempty"`   // by step path
	Unsettled map[string]Unsettled    `json:"unsettled,omitempty"` // by step path: calls that were sent and of which nobody knows whether they were executed
	Undone    map[string]int          `json:"undone,omitempty"`    // by step path: how often it was undone
	Asked     map[string]int          `json:"asked,omitempty"`     // by step path: how often it has asked
	Redo      []string                `json:"redo,omitempty"`      // paths of steps that were undone since they were last executed
}

func (r *run) tellJournal() (Record, error) {
	told := Record{Input: r.in, Journal: r.wholeJournal(), Unsettled: r.unsettled, Undone: map[string]int{}, Asked: map[string]int{}}
	told.Input.Journal, told.Input.Open = nil, nil
	if before := r.in.Repair; before != nil {
		maps.Copy(told.Undone, before.Undone)
		maps.Copy(told.Asked, before.Asked)
	}
	for _, path := range slices.Sorted(maps.Keys(r.undone)) {
		told.Undone[path] += r.undone[path]
		told.Redo = append(told.Redo, path)
	}
	//workflowcheck:ignore a map again
	for path, e := range told.Journal { // what an execution before this one has asked
		var a Answer
		if json.Unmarshal(e.Result, &a) == nil && strings.HasPrefix(a.ElicitationID, path+"#") {
			told.Asked[path] = max(told.Asked[path], Elicitation{ID: a.ElicitationID, StepPath: path}.time())
		}
	}
	for _, e := range r.state.Elicitations {
		told.Asked[e.StepPath] = max(told.Asked[e.StepPath], e.time())
	}
	return told, nil
}

func (r *run) answerQueries(ctx workflow.Context) error {
	if err := workflow.SetQueryHandler(ctx, JournalQuery, r.tellJournal); err != nil {
		return err
	}
	return workflow.SetQueryHandler(ctx, StepsQuery, func() ([]StepReport, error) {
		reports := make([]StepReport, 0, len(r.program.Steps))
		for _, n := range r.program.Steps {
			s := r.steps[n.ID]
			reports = append(reports, StepReport{ID: n.ID, Status: string(s.status), Error: s.err})
		}
		return reports, nil
	})
}
