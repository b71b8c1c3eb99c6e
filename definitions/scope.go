package definitions

import "time"

// A Scope is the data of templates, in the types of DecodeValue. Expanding a template
// does not change it.
type Scope struct {
	Params   map[string]any // .params: the arguments of the call
	Steps    map[string]any // .steps.ID: StepScope.Data of each step, by ID
	Workflow WorkflowScope  // .workflow
	ForEach  map[string]any // .forEach: the item under its name, index, and key of an object's member; nil outside of a forEach
	Output   any            // .output: of the item in collect, of the step in compensate, of the tool of a probe; nil = none
	Call     map[string]any // .call, in a probe: key, arguments, sent; nil = none
}

// A StepScope is the data of a step.
type StepScope struct {
	Status  string    // completed, failed, skipped; of a step that has not ended pending, running, or stopped with its run
	Output  any       // nil = none: every field of it is missing
	Action  string    // of an elicitation: accept, decline, cancel, timeout; "" = none
	Content any       // of an accepted elicitation, or of the defaultResults of another; of a tool, its content blocks; nil = none
	By      string    // who answered an elicitation; "" = unanswered, or unknown
	At      time.Time // when it was answered or expired; zero = neither
	Error   string    // of a failed step; "" = none
	Reason  string    // of a skipped step; "" = none
}

// A WorkflowScope is the data of the run itself.
type WorkflowScope struct {
	ID         string    // .workflow.id
	Status     string    // .workflow.status
	StepCount  int       // .workflow.step_count
	DurationMS int64     // .workflow.duration_ms
	StartTime  time.Time // .workflow.start_time, as RFC 3339 in UTC; zero = missing
}

// Data gives the scope as templates see it.
func (s *Scope) Data() map[string]any {
	data := map[string]any{
		"params":   orEmpty(s.Params),
		"steps":    orEmpty(s.Steps),
		"vars":     map[string]any{}, // always empty: nothing can set one
		"workflow": s.Workflow.data(),
		"forEach":  orEmpty(s.ForEach),
	}
	if s.Output != nil {
		data["output"] = s.Output
	}
	if s.Call != nil {
		data["call"] = s.Call
	}
	return data
}

func orEmpty(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// Data gives the step as templates see it, without fields that it does not have.
func (s StepScope) Data() map[string]any {
	data := map[string]any{"status": s.Status, "error": s.Error}
	if s.Output != nil {
		data["output"] = s.Output
	}
	if s.Action != "" {
		data["action"] = s.Action
	}
	if s.Content != nil {
		data["content"] = s.Content
	}
	if s.By != "" {
		data["by"] = s.By
	}
	if s.Reason != "" {
		data["reason"] = s.Reason
	}
	if !s.At.IsZero() {
		data["at"] = s.At.UTC().Format(time.RFC3339)
	}
	return data
}

func (w WorkflowScope) data() map[string]any {
	data := map[string]any{
		"id":          w.ID,
		"status":      w.Status,
		"step_count":  int64(w.StepCount),
		"duration_ms": w.DurationMS,
	}
	if !w.StartTime.IsZero() {
		data["start_time"] = w.StartTime.UTC().Format(time.RFC3339)
	}
	return data
}
