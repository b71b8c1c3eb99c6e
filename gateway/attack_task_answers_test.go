package gateway

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/runs"
)

// The answers of one request to a task are looked at once each, however many the run has
// asked for: millions of comparisons would keep a processor for minutes.
func TestAttackManyAnswersOfATask(t *testing.T) {
	t.Parallel()
	run := &runs.Run{}
	for i := range 300 {
		run.Elicitations = append(run.Elicitations, runs.Elicitation{ID: fmt.Sprintf("each[%d]", i), State: "open"})
	}
	answers := map[string]json.RawMessage{"each[7]": nil}
	for i := range 200_000 {
		answers[fmt.Sprint("k", i)] = nil
	}
	began := time.Now()
	if n := len(unknownKeys(run, answers)); n != 200_000 {
		t.Errorf("%d keys are unknown", n)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %s", took)
	}
}
