package workflows_test

import (
	"testing"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/workflows"
)

// What the language knows can be planned and executed: a workflows.StepKind is a
// view.StepKind.
func TestEveryStepTypeRuns(t *testing.T) {
	t.Parallel()
	for _, typ := range definitions.StepTypes() {
		if kind, known := workflows.KindOf(definitions.StepType(typ)); !known || string(kind.Type()) != typ {
			t.Errorf("steps of type %s cannot be executed", typ)
		}
	}
}
