package runs

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure/workflows"
)

// askPatience is how long a worker may take to report where the steps of a run are.
const askPatience = 3 * time.Second

// A StepReport reports where a step of the graph is.
type StepReport = workflows.StepReport

// Graph returns where each step of a run is, in the order of the definition, also those
// that have not started, or never will. A worker has to compute it: no history holds
// it. ErrUnavailable = none does.
func (r reader) Graph(ctx context.Context, id RunID) ([]StepReport, error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	answer, err := r.temporal.QueryWorkflow(ctx, string(id), "", workflows.StepsQuery)
	if err != nil {
		return nil, fmt.Errorf("asking a worker for the steps of run %s: %w: %w", id, ErrUnavailable, err)
	}
	var reports []StepReport
	if err := answer.Get(&reports); err != nil {
		return nil, fmt.Errorf("reading the steps of run %s: %w", id, err)
	}
	return reports, nil
}
