package workflows

import (
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/workflows/record"
)

// A ScriptLine is a message of a script: a line of its log, or its progress. It is in
// history as the data of a side effect, so every follower of the run reads it, on every
// replica.
type ScriptLine struct {
	StepPath StepPath `json:"reportedAt"` // names a side effect as one of these
	Message  string   `json:"message,omitempty"`
	Done     float64  `json:"done,omitempty"`  // 0, with Total: none yet
	Total    float64  `json:"total,omitempty"` // 0 = it is no progress, or not known
}

// Limits of a run's messages.
const (
	MaxScriptLines = 1000 // lines of one execution; further ones are only in the worker's log
	MaxScriptLine  = 2000 // bytes of one; the rest is cut off
)

// say records a line in history.
func (sc *scripts) say(ctx workflow.Context, t ScriptLine) {
	if sc.lines >= MaxScriptLines {
		return
	}
	sc.lines++
	if len(t.Message) > MaxScriptLine {
		t.Message = strings.ToValidUTF8(t.Message[:MaxScriptLine], "") + "…"
	}
	sc.tasks.makeRoom(ctx, record.PayloadSize(t.Message))
	workflow.SideEffect(ctx, func(workflow.Context) any { return t })
}
