package runs

import (
	"context"
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/perdure/perdure/workflows"
)

// Given is what a run was given from outside, except for the results of tools:
// with those it is all that a run depends on.
type Given struct {
	Input     workflows.RunInput
	Answers   []GivenAnswer // in the order of arrival, also those that were not taken, without those that were refused
	Cancelled *time.Time    // when somebody first asked to cancel it
}

// A GivenAnswer is an answer as it reached the run.
type GivenAnswer struct {
	workflows.Answer
	At time.Time
}

// Given reads what a run was given from its history. It is an error if the
// beginning of the history has been deleted.
func (c *Client) Given(ctx context.Context, id RunID) (*Given, error) {
	chain, err := c.chain(ctx, id)
	if err != nil {
		return nil, failure(ctx, "reading", id, err)
	}
	g, t := &Given{}, newTimeline(c.converter)
	for i, x := range chain {
		for e, err := range c.history(ctx, id, x.runID, false) {
			switch {
			case err != nil:
				return nil, failure(ctx, "reading", id, err)
			case i == 0 && e.EventType == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
				if err := c.converter.FromPayloads(e.GetWorkflowExecutionStartedEventAttributes().GetInput(), &g.Input); err != nil {
					return nil, fmt.Errorf("reading the input of run %s: %w", id, err)
				}
			case e.EventId > x.copied:
				g.add(t, e)
			}
		}
	}
	return g, nil
}

func (g *Given) add(t *timeline, e *historypb.HistoryEvent) {
	at := e.GetEventTime().AsTime()
	switch e.EventType {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
		if answer, ok := t.answer(e.GetWorkflowExecutionSignaledEventAttributes()); ok {
			g.Answers = append(g.Answers, GivenAnswer{answer, at})
		}
	case enumspb.EVENT_TYPE_MARKER_RECORDED:
		made, ok := t.ruling(e.GetMarkerRecordedEventAttributes().GetDetails()["data"])
		if ok && made.Verdict == workflows.VerdictRefused {
			g.Answers = slices.DeleteFunc(g.Answers, func(a GivenAnswer) bool { return a.AnswerID == made.AnswerID && a.AnsweredBy == made.By })
		}
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
		if g.Cancelled == nil {
			g.Cancelled = &at
		}
	}
}
