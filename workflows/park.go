package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/workflows/record"
)

// maxParkedArguments bounds the arguments of a call that are shown, in bytes.
const maxParkedArguments = 16 << 10

func newParkedCall(ctx workflow.Context, q request, key string) ParkedCall {
	c := ParkedCall{Tool: q.tool.Name, Arguments: q.args, Key: key, Sent: workflow.Now(ctx).UTC()}
	if record.PayloadSize(c.Arguments) > maxParkedArguments {
		c.Arguments = nil
	}
	return c
}

// park makes the run wait for a person about a call, for as long as the run's
// own timeout lets it. Of the question Kind, Message, Schema and Call are given;
// it stands at a path below that of the step, one for each time that the run
// waits about this call. So an answer that was given counts as well when the run
// continues as new, and for no other time.
func (r *run) park(ctx workflow.Context, question Elicitation, path StepPath, time int) (Answer, *Error) {
	question.StepPath = parkedPath(question.Kind, path, time)
	return r.ask(ctx, question, 0)
}

func parkedPath(kind ElicitationKind, path StepPath, time int) StepPath {
	parked := path.Below(StepPath(kind))
	if time > 1 {
		parked = parked.Attempt(time)
	}
	return parked
}
