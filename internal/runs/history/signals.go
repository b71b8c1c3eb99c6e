package history

import (
	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/perdure/perdure/workflows"
)

// signalled reads what came from outside of the run.
func (f *Fold) signalled(a *historypb.WorkflowExecutionSignaledEventAttributes) []Fact {
	if a.GetSignalName() == workflows.AttachSignal {
		var s workflows.Signal
		if f.codec.FromPayloads(a.GetInput(), &s) != nil {
			return nil
		}
		return []Fact{Attended{s}}
	}
	answer, ok := answerOf(f.codec, a)
	if !ok {
		return nil
	}
	f.gates.answered(answer)
	return []Fact{AnswerSent{answer}}
}

func answerOf(c codec, a *historypb.WorkflowExecutionSignaledEventAttributes) (workflows.Answer, bool) {
	var s workflows.Signal
	if a.GetSignalName() != workflows.AnswerSignal || c.FromPayloads(a.GetInput(), &s) != nil {
		return workflows.Answer{}, false
	}
	return s.Answer()
}

// noted reads what the run has recorded by a side effect: what it makes of a
// signal, or what a script says.
func (f *Fold) noted(data *commonpb.Payloads) []Fact {
	var made workflows.Ruling
	if f.codec.FromPayloads(data, &made) == nil && made.Signal != "" && made.Verdict != "" {
		return []Fact{Ruled{made, f.gates.path(made.ElicitationID)}}
	}
	var line workflows.ScriptLine
	if f.codec.FromPayloads(data, &line) != nil || line.StepPath == "" || f.said[line.StepPath] {
		return nil
	}
	f.said[line.StepPath] = true
	return []Fact{Said{line}}
}
