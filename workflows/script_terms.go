package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/workflows/record"
	"github.com/perdure/perdure/workflows/script"
)

// Report records a failure with which the script continues, as that of a step whose
// failure does not stop the others.
func (h *scriptHost) Report(_ workflow.Context, site script.Site, e *script.Error) {
	path := h.path(site)
	failure := &Error{
		Code: e.Code, Category: e.Category, Message: e.Message, Tool: e.Tool, Attempt: e.Attempt, Retryable: e.Retryable,
		StepID: path.Top(), StepPath: path, RunID: h.run.id,
	}
	h.run.journal.Note(path, record.Report{Reported: *failure})
	h.run.failures.report(failure)
}

// A scriptTemplate is a template of the language of steps in a script.
type scriptTemplate struct{ *template.Template }

func parseTemplate(text string) (script.Template, error) {
	t, err := template.Parse(text)
	if err != nil {
		return nil, err
	}
	return scriptTemplate{t}, nil
}

// Expand implements script.Template.
func (t scriptTemplate) Expand(data []byte, kinds []string) (v any, work int, err error) {
	scope, err := template.DecodeValue(data)
	if err != nil {
		return nil, 0, fmt.Errorf("data: %w", err)
	}
	return t.Template.Expand(scope, kinds)
}
