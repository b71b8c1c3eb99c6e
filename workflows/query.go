package workflows

import "go.temporal.io/sdk/workflow"

// StepsQuery is the query that a run answers with its steps: a list of
// StepReport in the order of the definition. It leaves nothing in histories.
const StepsQuery = "steps"

// A StepReport says where a step of the definition stands.
type StepReport struct {
	ID     string `json:"id"`
	Status string `json:"status"`          // pending, running, completed, failed, skipped; stopped = the run ended before the step did
	Error  string `json:"error,omitempty"` // why it failed
}

func (r *run) answerQueries(ctx workflow.Context) error {
	return workflow.SetQueryHandler(ctx, StepsQuery, func() ([]StepReport, error) {
		reports := make([]StepReport, 0, len(r.program.Steps))
		for _, n := range r.program.Steps {
			s := r.steps[n.ID]
			reports = append(reports, StepReport{ID: n.ID, Status: string(s.status), Error: s.err})
		}
		return reports, nil
	})
}
