package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/workflows/record"
	"github.com/perdure/perdure/workflows/script"
)

// canUndo remembers a call of a script that can be undone.
func (h *scriptHost) canUndo(path StepPath, undo *script.Undo) {
	e := h.run.journal.NoteUndo(path, undo)
	h.run.undo.steps = append(h.run.undo.steps, undoable{at: place{path: path}, order: e.Order, call: undo})
}

// Report tells of a failure with which the script goes on, as that of a step
// whose failure does not stop the others.
func (h *scriptHost) Report(_ workflow.Context, site script.Site, e *script.Error) {
	path := h.path(site)
	failure := &Error{
		Code: e.Code, Category: e.Category, Message: e.Message, Tool: e.Tool, Attempt: e.Attempt, Retryable: e.Retryable,
		StepID: path.Top(), StepPath: path, RunID: h.run.id,
	}
	h.run.journal.Note(path, record.Report{Reported: *failure})
	h.run.errors = append(h.run.errors, *failure)
}

// reportedBefore adds what scripts have reported in the executions before this one
// and that it has not come to, in branches that were stopped.
func (r *run) reportedBefore() {
	for path, e := range r.journal.Ahead() {
		if report, ok := e.Kind.(record.Report); ok {
			r.journal.Note(path, report)
			r.errors = append(r.errors, report.Reported)
		}
	}
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
