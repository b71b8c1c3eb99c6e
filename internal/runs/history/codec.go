package history

import (
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"github.com/perdure/perdure/workflows"
)

// A codec reads what runs and workers have written into a history.
type codec struct{ converter.DataConverter }

// summary says which step an activity, a timer or a local activity belongs to.
// One without is none of a step's.
func (c codec) summary(e *historypb.HistoryEvent) (path workflows.StepPath, what string, ok bool) {
	var text string
	if s := e.GetUserMetadata().GetSummary(); s == nil || c.FromPayload(s, &text) != nil {
		return "", "", false
	}
	if path, what, ok = workflows.ReadSummary(text); !ok {
		return "", "", false
	}
	return path, what, true
}
