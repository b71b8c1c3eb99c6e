package runs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// Given is what a run was given from outside, except for the results of tools:
// with those it is all that a run depends on.
type Given struct {
	Input     workflows.RunInput
	Answers   []GivenAnswer // in the order of arrival, also those that were not taken, without those that were refused
	Cancelled *time.Time    // when it was first asked to cancel
}

// A GivenAnswer is an answer as it reached the run.
type GivenAnswer struct {
	workflows.Answer
	At time.Time
}

// Given reads what a run was given from its history. It is an error if the
// beginning of the history has been deleted.
func (r reader) Given(ctx context.Context, id RunID) (*Given, error) {
	g := &Given{}
	for m, err := range r.all(ctx, id) {
		if err != nil {
			return nil, failure(ctx, "reading", id, err)
		}
		for _, fact := range m.Facts {
			if err := g.add(fact, m); err != nil {
				return nil, fmt.Errorf("reading the input of run %s: %w", id, err)
			}
		}
	}
	return g, nil
}

func (g *Given) add(fact history.Fact, m history.Moment) error {
	switch f := fact.(type) {
	case history.Began:
		if m.Execution == 0 {
			g.Input = f.Input
			return f.Unread
		}
	case history.AnswerSent:
		g.Answers = append(g.Answers, GivenAnswer{f.Answer, m.At})
	case history.Ruled:
		if f.Signal == workflows.AnswerSignal && f.Verdict == workflows.VerdictRefused {
			g.Answers = slices.DeleteFunc(g.Answers, func(a GivenAnswer) bool { return a.AnswerID == f.AnswerID && a.AnsweredBy == f.By })
		}
	case history.CancelRequested:
		if g.Cancelled == nil {
			g.Cancelled = &m.At
		}
	}
	return nil
}
