package definitions

import (
	"cmp"
	"maps"

	"github.com/perdure/perdure/definitions/template"
)

// Defaults replaces the output of a step: its defaultResults, else an empty object.
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

// Refused is the output of an elicitation that was not accepted, if the run continues:
// the defaultResults, with the action. defaultResults that are no object are the output
// as they are.
func (s *Step) Refused(action string) any {
	members, ok := s.Defaults().(map[string]any)
	if !ok {
		return s.DefaultResults.Value
	}
	members = maps.Clone(members)
	members["action"] = action
	return members
}

// Content is the content of a step with this output: of an elicitation the member of that
// name, also where defaultResults stand in, and of a call the content blocks.
func (s *Step) Content(output any) any {
	switch traits := s.Type.Traits(); {
	case traits.Blocks:
		return contentBlocks(output)
	case traits.Asks:
		members, _ := output.(map[string]any)
		return members["content"]
	default:
		return nil
	}
}

// WhySkipped says why a step is skipped whose condition is false.
func (s *Step) WhySkipped() string { return "its condition is false: " + s.Condition }

// Refusals is the data of an elicitation for the steps after it, for each way in which
// it is not accepted and they start all the same.
func (s *Step) Refusals() []any {
	var seen []any
	for _, action := range []string{"decline", "cancel", "timeout"} {
		handler := s.OnCancel
		if action == "decline" {
			handler = s.OnDecline
		}
		output := s.Refused(action)
		scope := StepScope{Status: "completed", Output: output, Action: action, Content: s.Content(output)}
		switch {
		case handled(handler) == Continue:
			seen = append(seen, answered(scope))
		case handled(handler) == SkipRemaining:
		case s.Continues():
			scope.Status = "failed"
			seen = append(seen, failedWith(scope))
		}
	}
	if s.Continues() { // it can fail before it asks
		seen = append(seen, failedWith(StepScope{Status: "failed", Output: s.Defaults(), Content: s.Content(s.Defaults())}))
	}
	return seen
}

// answered is an elicitation with unknown by and at.
func answered(scope StepScope) template.Partial {
	data := template.Partial(scope.Data())
	if scope.Action != "" {
		data["by"], data["at"] = template.Unknown{}, template.Unknown{}
	}
	return data
}

// failedWith is a failed step with an unknown error.
func failedWith(scope StepScope) template.Partial {
	data := answered(scope)
	data["error"] = template.Unknown{}
	return data
}

// handled is the action of a handler; Abort without one.
func handled(h *Handler) Action {
	if h == nil {
		return Abort
	}
	return cmp.Or(h.Action, Abort)
}
