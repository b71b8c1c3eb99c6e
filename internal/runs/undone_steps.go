package runs

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// UndoneSteps are the steps that the last execution of a run takes for done, and that were
// undone, or may have been, after it was reset to behind them.
func (c CallHistory) UndoneSteps(ctx context.Context, id string) ([]workflows.StepPath, error) {
	chains, err := c.chains(ctx, RunID(id))
	if err != nil {
		return nil, failure(ctx, "reading", RunID(id), err)
	}
	return c.undoneSteps(ctx, RunID(id), chains)
}

func (c CallHistory) undoneSteps(ctx context.Context, id RunID, chains [][]execution) ([]workflows.StepPath, error) {
	all, own := newStepsDone(), newStepsDone()
	for _, chain := range chains {
		if err := c.readUntil(ctx, id, chain, all, "", ""); err != nil {
			return nil, err
		}
	}
	undone := all.undone()
	if len(undone) == 0 { // as a rule
		return nil, nil
	}
	err := c.readUntil(ctx, id, asItKnows(chains[0]), own, "", "")
	return own.doneBefore(undone), err
}

// undoneBeside is the first of these steps that is another one than that at a path.
func (c CallHistory) undoneBeside(ctx context.Context, id RunID, chains [][]execution, path workflows.StepPath) (workflows.StepPath, error) {
	undone, err := c.undoneSteps(ctx, id, chains)
	for _, step := range undone {
		if step != path {
			return step, err
		}
	}
	return "", err
}

// asItKnows is a chain as its last execution knows it: of one that was reset, only what the
// reset has copied.
func asItKnows(chain []execution) (known []execution) {
	for i, x := range chain {
		if i+1 == len(chain) || chain[i+1].copied == 0 {
			known = append(known, execution{runID: x.runID})
		}
	}
	return known
}

// stepsDone are the calls of all steps, and those that undo them.
type stepsDone struct {
	steps map[workflows.StepPath]*stepCalls
	of    map[*history.Call]*stepCalls
}

func newStepsDone() *stepsDone {
	return &stepsDone{map[workflows.StepPath]*stepCalls{}, map[*history.Call]*stepCalls{}}
}

func (d *stepsDone) add(fact history.Fact, at time.Time) error {
	switch f := fact.(type) {
	case history.CallStarted:
		path := pathOf(f)
		path = cmp.Or(path.Undoes(), path)
		if d.steps[path] == nil {
			d.steps[path] = &stepCalls{of: path}
		}
		d.of[f.Call] = d.steps[path]
		return d.of[f.Call].add(fact, at)
	case history.CallEnded:
		if step := d.of[f.Call]; step != nil {
			return step.add(fact, at)
		}
	}
	return nil
}

// pathOf is the path of the step that calls, also where the summary of the call cannot be read.
func pathOf(f history.CallStarted) workflows.StepPath {
	if f.Call.Type == workflows.CallToolName {
		if call, err := f.ToolCall(); err == nil {
			return call.StepPath
		}
	}
	return f.Call.Path
}

// undone is when what steps did was undone, and not done since, by step path.
func (d *stepsDone) undone() map[workflows.StepPath]time.Time {
	at := map[workflows.StepPath]time.Time{}
	for path, step := range d.steps {
		if last := lastDoing(step.doings()); last.undoes {
			at[path] = last.at
		}
	}
	return at
}

// doneBefore are the steps that are done, by what happened before a time of each.
func (d *stepsDone) doneBefore(times map[workflows.StepPath]time.Time) (done []workflows.StepPath) {
	for path, at := range times {
		if step := d.steps[path]; step != nil && step.isDone(at) {
			done = append(done, path)
		}
	}
	slices.Sort(done)
	return done
}

// lastDoing is the last one; the zero doing = there is none.
func lastDoing(all []doing) (last doing) {
	if all = firstOfEachRun(all); len(all) > 0 {
		last = all[len(all)-1]
	}
	return last
}

// isDone reports whether a run takes a step for done by what it did before a time. A call that
// was not made again since counts: somebody has said what became of it.
func (s *stepCalls) isDone(before time.Time) bool {
	done := slices.ContainsFunc(s.made, func(m *madeCall) bool { return m.fate == sentBefore && m.path == s.of && m.at.After(before) })
	last := lastDoing(s.doings())
	return !done && !last.at.IsZero() && !last.undoes && last.at.Before(before)
}
