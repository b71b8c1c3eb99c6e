package workflows_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/workflows"
)

// What came of asking is kept while the elicitation is open, once for each
// question, within limits, and changes nothing else.
func TestQuestions(t *testing.T) {
	t.Parallel()
	b := newBench(t, `{name: a, description: d, timeout: 100h, steps: [{id: g, type: elicitation, message: Shall I?, timeout: 90h}]}`, `{}`, nil)
	var most, last workflows.Elicitation
	b.onMemo(func(state workflows.State) {
		last = state.Elicitations[0]
		if len(last.Questions) > len(most.Questions) {
			most = last
		}
	})
	asked := func(after time.Duration, id, question, reason string) {
		b.env.RegisterDelayedCallback(func() {
			b.signal(workflows.QuestionSignal, workflows.QuestionReport{ElicitationID: id,
				Question: workflows.Question{Name: question, Outcome: workflows.Invalid, Reason: reason}})
		}, after)
	}
	asked(time.Hour, "g#1", "first", strings.Repeat("é", 1000))
	asked(2*time.Hour, "g#1", "first", "again")
	asked(2*time.Hour, "g#2", "other", "never asked")
	asked(2*time.Hour, "g#1", "", "nameless")
	asked(2*time.Hour, "g#1", strings.Repeat("x", 101), "long")
	for i := range 20 {
		asked(3*time.Hour, "g#1", fmt.Sprint("question ", i), "no")
	}
	b.answer(4*time.Hour, "g#1", "decline", "")
	asked(5*time.Hour, "g#1", "late", "no")
	if _, failure := b.run(); categoryOf(failure) != "declined" {
		t.Errorf("the run ended with %+v", failure)
	}
	if n := len(most.Questions); n != workflows.MaxQuestions {
		t.Errorf("%d questions were kept, want %d", n, workflows.MaxQuestions)
	}
	if a := most.Questions[0]; a.Name != "first" || len(a.Reason) != 500 || a.Outcome != workflows.Invalid {
		t.Errorf("the first is %+v", a)
	}
	if last.State != workflows.ElicitationAnswered || last.Questions != nil {
		t.Errorf("closed, the elicitation is %+v", last)
	}
}
