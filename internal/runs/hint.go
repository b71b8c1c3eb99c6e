package runs

import (
	"fmt"
	"strings"

	"github.com/perdure/perdure/internal/codes"
)

// ScriptTool is the tool by which agents send scripts.
const ScriptTool = "execute_tool_script"

// IsSentScript reports whether a run is a script sent by an agent. It calls what its
// sender may, and is no composite tool written for others.
func IsSentScript(id RunID) bool { return strings.HasPrefix(string(id), ScriptTool+"/") }

// Hint returns what to do about an error of a run, or of a call that started none; "" =
// the message has it. A run with effects gets no hint to call again.
func Hint(e *Error, effects *Effects) string {
	if !effects.Repeatable() {
		return hintForEffects(e, effects)
	}
	if e.Category == codes.CategoryTemplate && e.Tool == "" && IsSentScript(RunID(e.RunID)) { // not what it has called
		return "Correct the script; sending it again as it is will not help."
	}
	return codes.Hint(e.Code, e.Category, e.Retryable)
}

// hintForEffects does so for a run that calling again would repeat.
func hintForEffects(e *Error, effects *Effects) string {
	hint := effects.String()
	switch e.Category {
	case codes.CategoryDeclined, codes.CategoryCancelled, codes.CategoryPermission:
		hint = Hint(e, nil) + " " + hint
	}
	if len(effects.Completed) > 0 && e.RunID != "" {
		hint += fmt.Sprintf(" perdure runs resume %s resumes it without that.", e.RunID)
	}
	return hint
}

// Explained gives the outcome of a run with the hint of its failure, for those who
// show it; nil = it has none yet.
func Explained(o *Outcome, id RunID) *Outcome {
	if o == nil || o.Failure == nil {
		return o
	}
	hinted, failure := *o, *o.Failure
	if failure.Error.RunID == "" {
		failure.Error.RunID = string(id)
	}
	failure.Error.Hint = Hint(&failure.Error, failure.Effects)
	hinted.Failure = &failure
	return &hinted
}
