package definitions

import (
	"testing"

	"github.com/perdure/perdure/definitions/template"
)

func TestDecodeScope(t *testing.T) {
	t.Parallel()
	s, err := DecodeScope([]byte(`{
		"params": {"n": 12345678901234567890},
		"steps": {"a": {"output": {"x": 1}}, "b": {"status": "failed", "error": "no"}, "c": {"action": "accept", "content": {"y": 2}}},
		"forEach": {"item": "z", "index": 0}, "output": {"id": 7},
		"workflow": {"id": "w", "step_count": 3, "duration_ms": 5, "start_time": "2026-08-21T12:00:00Z"}}`))
	if err != nil {
		t.Fatal(err)
	}
	parsed, _ := template.Parse("{{.params.n}} {{.steps.a.status}} {{.steps.a.output.x}} {{.steps.b.error}} {{.steps.c.action}} {{.steps.c.content.y}} {{.forEach.item}} {{.output.id}} {{.workflow.step_count}} {{.workflow.start_time}}")
	if got, err := parsed.Text(s.Data()); err != nil || got != "12345678901234567890 completed 1 no accept 2 z 7 3 2026-08-21T12:00:00Z" {
		t.Errorf("%q, %v", got, err)
	}
	_, err = DecodeScope([]byte(`{"parms": {}, "steps": {"a": {"outputt": 1, "status": "done"}, "b": 5}, "forEach": [], "workflow": {"step_count": "x", "start_time": "now"}}`))
	want := `the context has no "parms" (did you mean "params"?); known keys: params, steps, forEach, workflow, output
forEach must be an object, not an array
steps.a has no "outputt" (did you mean "output"?); known keys: status, output, action, content, by, at, error, reason
steps.a.status "done" is not known; known values: completed, failed, skipped, pending, running and stopped
steps.b must be an object, not a number
workflow.step_count must be an integer, not a string
workflow.start_time "now" is not a timestamp of RFC 3339`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
