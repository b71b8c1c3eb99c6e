package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// A reader reads one run: how it is, what happened to it, what it gave.
type reader struct{ *archive }

// Get returns the state of a run.
func (r reader) Get(ctx context.Context, id RunID) (*Run, error) {
	d, err := r.describe(ctx, id)
	if err != nil {
		return nil, failure(ctx, "reading", id, err)
	}
	run := r.described(d)
	if err := r.addEnd(ctx, run, d.WorkflowExecutionInfo, false); err != nil {
		return nil, failure(ctx, "reading", id, err)
	}
	return run, nil
}

// Result returns how a run ended, ErrNotFinished, or ErrUnread.
func (r reader) Result(ctx context.Context, id RunID) (*Outcome, error) {
	d, err := r.describe(ctx, id)
	if err != nil {
		return nil, failure(ctx, "reading", id, err)
	}
	if isOpen(d.WorkflowExecutionInfo.Status) {
		return nil, fmt.Errorf("run %s: %w", id, ErrNotFinished) // the call below would wait for its end
	}
	last, err := r.lastEvents(ctx, d.WorkflowExecutionInfo.Execution)
	if err != nil {
		return nil, failure(ctx, "reading", id, err)
	}
	for _, e := range last {
		if err := r.hold(ctx, e); err != nil {
			return nil, failure(ctx, "reading", id, err)
		}
		again := func() *Outcome { return history.OutcomeOf(r.converter, e) }
		if outcome := again(); outcome != nil {
			if outcome, err = r.readable(ctx, outcome, again); err != nil {
				return nil, failure(ctx, "reading", id, err)
			}
			return r.complete(ctx, d.WorkflowExecutionInfo.Execution, outcome)
		}
	}
	return nil, fmt.Errorf("run %s: %w", id, ErrNotFinished) // it continues in another execution
}

// complete reads what a run has kept of its outcome: with the event before the last.
func (r reader) complete(ctx context.Context, x *commonpb.WorkflowExecution, outcome *Outcome) (*Outcome, error) {
	if !outcome.Kept {
		return outcome, nil
	}
	page, err := r.temporal.WorkflowService().GetWorkflowExecutionHistoryReverse(ctx, &workflowservice.GetWorkflowExecutionHistoryReverseRequest{
		Namespace: r.namespace, Execution: x, MaximumPageSize: 2,
	})
	if err != nil {
		return nil, failure(ctx, "reading", RunID(x.WorkflowId), err)
	}
	for _, e := range page.GetHistory().GetEvents() {
		if whole := outcome.Complete(r.converter, e); !whole.Kept {
			return whole, nil
		}
	}
	return nil, fmt.Errorf("run %s: its history lacks the outcome that it has kept", x.WorkflowId)
}

// A CalledWith is what a run began with.
type CalledWith struct {
	Arguments json.RawMessage
	Script    string // of a definition that is a script; "" = it has steps
}

// CalledWith returns what a run began with. Of the history, it reads the
// beginning only.
func (r reader) CalledWith(ctx context.Context, id RunID) (CalledWith, error) {
	page, err := r.temporal.WorkflowService().GetWorkflowExecutionHistory(ctx, &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace:       r.namespace,
		Execution:       &commonpb.WorkflowExecution{WorkflowId: string(id)},
		MaximumPageSize: 1,
		SkipArchival:    true,
	})
	if err != nil {
		return CalledWith{}, failure(ctx, "reading", id, err)
	}
	for _, e := range page.History.GetEvents() {
		if started := e.GetWorkflowExecutionStartedEventAttributes(); started != nil && isRun(started.GetSearchAttributes()) {
			var in workflows.RunInput
			if err := r.converter.FromPayloads(started.GetInput(), &in); err != nil {
				return CalledWith{}, fmt.Errorf("reading the input of run %s: %w", id, err)
			}
			return CalledWith{in.Arguments, factsOf(in.Definition).Script}, nil
		}
	}
	return CalledWith{}, fmt.Errorf("run %s: the beginning of its history is missing", id)
}

// definitionFacts are what a run shows of its definition.
type definitionFacts struct {
	Script       string                   `json:"script"`
	OnDisconnect definitions.OnDisconnect `json:"onDisconnect"`
}

func factsOf(d workflows.Pinned) definitionFacts {
	var facts definitionFacts
	_ = json.Unmarshal(d.Source, &facts) // what cannot be read is not shown
	return facts
}

// NumberedLines is a script for reading, with the numbers of its lines. Nothing of
// it hides from who reads it: each line that runs is one, and there are marks for
// what cannot be seen.
func NumberedLines(script string) string {
	script = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(script)
	lines := strings.Split(strings.TrimRight(script, "\n"), "\n")
	for i, line := range lines {
		lines[i] = fmt.Sprintf("%3d  %s", i+1, view.Text(line))
	}
	return strings.Join(lines, "\n")
}
