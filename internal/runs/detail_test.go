package runs

import (
	"testing"

	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// An answer that was sent is under way until the run has ruled about it.
func TestAnswerUnderWay(t *testing.T) {
	t.Parallel()
	d := newDetailed()
	if d.AnswerUnderWay("ask#1") {
		t.Error("an answer is under way before one was sent")
	}
	d.add(history.Moment{Facts: []history.Fact{history.AnswerSent{Answer: workflows.Answer{AnswerID: "x", ElicitationID: "ask#1"}}}})
	if !d.AnswerUnderWay("ask#1") || d.AnswerUnderWay("ask#2") {
		t.Errorf("after it was sent, %v are under way", d.Unprocessed)
	}
	d.add(history.Moment{Facts: []history.Fact{history.Ruled{Ruling: workflows.Ruling{Verdict: workflows.VerdictUntaken, AnswerID: "x", ElicitationID: "ask#1"}}}})
	if d.AnswerUnderWay("ask#1") {
		t.Errorf("after the run has ruled about it, %v are under way", d.Unprocessed)
	}
}
