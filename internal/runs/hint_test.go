package runs

import (
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows/record"
)

// TestHintCanBeCopied: the ID of the command that is shown has no full stop after it.
func TestHintCanBeCopied(t *testing.T) {
	t.Parallel()
	e := &Error{Category: codes.CategoryTool, RunID: "pay/7"}
	hint := Hint(e, &Effects{Completed: []record.EffectCall{{StepPath: "pay", Tool: "bank_pay"}}})
	if !strings.Contains(hint, "perdure runs resume pay/7 ") {
		t.Error(hint)
	}
}
