package definitions

import (
	"cmp"
	"maps"

	"github.com/perdure/perdure/definitions/template"
)

// Defaults is what stands in for the output of a step: its defaultResults, else an
// empty object.
func (s *Step) Defaults() any {
	if !s.DefaultResults.Given {
		return map[string]any{}
	}
	return s.DefaultResults.Value
}

// hasDefault reports whether the defaultResults have a member.
func (s *Step) hasDefault(member string) bool {
	members, ok := s.DefaultResults.Value.(map[string]any)
	if ok {
		_, ok = members[member]
	}
	return ok
}

// Refused is the output and the content of an elicitation that was not accepted,
// where the run goes on: the defaultResults, content included, and how it was
// answered instead. An output that is no object says only what stands in for it.
func (s *Step) Refused(action string) (output, content any) {
	members, ok := s.Defaults().(map[string]any)
	if !ok {
		return s.DefaultResults.Value, nil
	}
	members = maps.Clone(members)
	members["action"] = action
	return members, members["content"]
}

// Refusals is what steps behind an elicitation see of it for each way in which it
// is not accepted, but for those after which they do not start.
func (s *Step) Refusals() []any {
	var seen []any
	for _, action := range []string{"decline", "cancel", "timeout"} {
		handler := s.OnCancel
		if action == "decline" {
			handler = s.OnDecline
		}
		output, content := s.Refused(action)
		scope := StepScope{Status: "completed", Output: output, Action: action, Content: content}
		switch {
		case handled(handler) == Continue:
			seen = append(seen, answered(scope))
		case handled(handler) == SkipRemaining:
		case s.Continues():
			scope.Status = "failed"
			seen = append(seen, failedWith(scope))
		}
	}
	if s.Continues() { // it can fail before it is asked
		seen = append(seen, failedWith(StepScope{Status: "failed", Output: s.Defaults()}))
	}
	return seen
}

// answered is an elicitation of which is not known who answered, and when.
func answered(scope StepScope) template.Partial {
	data := template.Partial(scope.Data())
	if scope.Action != "" {
		data["by"], data["at"] = template.Unknown{}, template.Unknown{}
	}
	return data
}

// failedWith is a failed step whose error is not known.
func failedWith(scope StepScope) template.Partial {
	data := answered(scope)
	data["error"] = template.Unknown{}
	return data
}

// handled is what a handler does; the run ends without one.
func handled(h *Handler) Action {
	if h == nil {
		return Abort
	}
	return cmp.Or(h.Action, Abort)
}
