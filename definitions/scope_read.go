package definitions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions/template"
)

// DecodeScope reads a scope from JSON: an object with params, steps, forEach, workflow
// and output, each as templates see it. A step without a status has completed. The
// error names all unknown members.
func DecodeScope(data []byte) (*Scope, error) {
	value, err := template.DecodeValue(data)
	if err != nil {
		return nil, err
	}
	r := &scopeReader{}
	s := &Scope{}
	root := r.object("the context", value, "params", "steps", "forEach", "workflow", "output")
	s.Params = r.object("params", root["params"])
	s.ForEach = r.object("forEach", root["forEach"])
	s.Output = root["output"]
	steps := r.object("steps", root["steps"])
	s.Steps = make(map[string]any, len(steps))
	for _, id := range template.SortedKeys(steps) {
		s.Steps[id] = r.step("steps."+id, steps[id]).Data()
	}
	s.Workflow = r.workflow(root["workflow"])
	return s, errors.Join(r.problems...)
}

// A scopeReader collects the mistakes in a scope.
type scopeReader struct{ problems []error }

func (r *scopeReader) errorf(format string, args ...any) {
	r.problems = append(r.problems, fmt.Errorf(format, args...))
}

// object gives the members of a value; nil has none. With names, others are mistakes.
func (r *scopeReader) object(at string, value any, names ...string) map[string]any {
	object, ok := value.(map[string]any)
	if !ok && value != nil {
		r.errorf("%s must be an object, not %s", at, template.Describe(value))
	}
	for _, name := range template.SortedKeys(object) {
		if len(names) > 0 && !slices.Contains(names, name) {
			r.errorf("%s has no %q%s; known keys: %s", at, name, template.DidYouMean(name, names), strings.Join(names, ", "))
		}
	}
	return object
}

func (r *scopeReader) text(at string, value any) string {
	text, ok := value.(string)
	if !ok && value != nil {
		r.errorf("%s must be a string, not %s", at, template.Describe(value))
	}
	return text
}

func (r *scopeReader) integer(at string, value any) int64 {
	n, ok := value.(int64)
	if !ok && value != nil {
		r.errorf("%s must be an integer, not %s", at, template.Describe(value))
	}
	return n
}

func (r *scopeReader) step(at string, value any) StepScope {
	fields := r.object(at, value, stepFields...)
	s := StepScope{
		Status:  r.text(at+".status", fields["status"]),
		Output:  fields["output"],
		Action:  r.text(at+".action", fields["action"]),
		Content: fields["content"],
		By:      r.text(at+".by", fields["by"]),
		At:      r.time(at+".at", fields["at"]),
		Error:   r.text(at+".error", fields["error"]),
		Reason:  r.text(at+".reason", fields["reason"]),
	}
	if statuses := []string{"completed", "failed", "skipped", "pending", "running", "stopped"}; s.Status == "" {
		s.Status = "completed"
	} else if !slices.Contains(statuses, s.Status) {
		r.errorf("%s.status %q is not known%s; known values: %s", at, s.Status, template.DidYouMean(s.Status, statuses), enumerate(statuses))
	}
	return s
}

func (r *scopeReader) workflow(value any) WorkflowScope {
	fields := r.object("workflow", value, workflowFields...)
	w := WorkflowScope{
		ID:         r.text("workflow.id", fields["id"]),
		Status:     r.text("workflow.status", fields["status"]),
		StepCount:  int(r.integer("workflow.step_count", fields["step_count"])),
		DurationMS: r.integer("workflow.duration_ms", fields["duration_ms"]),
	}
	w.StartTime = r.time("workflow.start_time", fields["start_time"])
	return w
}

func (r *scopeReader) time(at string, value any) time.Time {
	text := r.text(at, value)
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		r.errorf("%s %s is not a timestamp of RFC 3339", at, template.Excerpt(text))
	}
	return t
}
