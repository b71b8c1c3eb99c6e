package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/internal/codes"
)

// How long a run waits for a credential before it looks by itself whether the
// call can be made now; the last one again and again. The one who brings the
// credential need not have found the run.
var recheckAfter = []time.Duration{5 * time.Second, time.Minute, 10 * time.Minute, time.Hour}

// sendAuthorized makes a call. For lack of a credential, without which nothing
// is executed, the run waits until it is brought, and makes the same call.
//
// The time limit of the step pauses meanwhile: each call has all of it. The limits of a
// forEach around it and of the run do not pause.
func (cs *calls) sendAuthorized(ctx workflow.Context, q request, digest string, result *ToolResult) (ParkedCall, *Error) {
	path := credentialsPath(q.path)
	var g *gate // open while the run waits
	if cs.elicitations.askedBefore(path) {
		g = cs.gates.open(ctx, Elicitation{Kind: Credentials, StepPath: path}, 0) // as the execution before has
	}
	for waits := 0; ; {
		sent, failure := cs.sendInTurn(ctx, &q, digest, result)
		if failure == nil || failure.Category != codes.CategoryCredentials {
			if g != nil {
				cs.gates.close(ctx, g, ElicitationDropped, Answer{})
			}
			return sent, failure
		}
		q.used += max(failure.Attempt-1, 0)
		if g == nil {
			wanted := Elicitation{Kind: Credentials, StepPath: path, Schema: anything, Message: failure.Message, Backend: q.tool.Backend}
			if refused := cs.elicitations.check(wanted); refused != nil {
				return sent, refused
			}
			g, waits = cs.gates.open(ctx, wanted, 0), 0
		}
		pause := recheckAfter[min(waits, len(recheckAfter)-1)]
		waits++
		answer, answered := cs.awaitCredentials(ctx, q.path, g, pause)
		for !answered && ctx.Err() == nil && cs.budget.draining(ctx) { // the next execution makes the call; an answer may come before
			answer, answered = cs.awaitCredentials(ctx, q.path, g, pause)
		}
		switch {
		case ctx.Err() != nil:
			cs.gates.close(ctx, g, ElicitationDropped, Answer{})
			return sent, q.failure(ctx.Err())
		case answered:
			cs.gates.close(ctx, g, ElicitationAnswered, answer)
			g = nil
		}
		if answered && answer.Action != Accept {
			given := *failure
			if answer.AnsweredBy != "" {
				given.Message += "; given up by " + answer.AnsweredBy
			}
			return sent, &given
		}
	}
}

// credentialsPath is where a step asks for a credential.
func credentialsPath(step StepPath) StepPath { return step.Below(StepPath(Credentials)) }

// awaitCredentials waits for an answer, for a while, or for the run to stop.
func (cs *calls) awaitCredentials(ctx workflow.Context, path StepPath, g *gate, pause time.Duration) (answer Answer, answered bool) {
	timerCtx, stopTimer := workflow.WithCancel(ctx)
	defer stopTimer()
	timer := workflow.NewTimerWithOptions(timerCtx, pause, workflow.TimerOptions{Summary: Summary(path, "looks for credentials")})
	sel := workflow.NewSelector(ctx)
	g.receive(sel, &answer, &answered)
	sel.AddFuture(timer, func(workflow.Future) {})
	sel.AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {})
	sel.Select(ctx)
	return answer, answered
}
