package workflows_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions"
)

// maxCalled is how deep random definitions call each other.
const maxCalled = 3

// workflow has a step, or that of a forEach, call a random definition of its own.
func (c *testCase) workflow(rnd *rand.Rand, s, calls *definitions.Step, within string, depth int, quick bool) {
	below := &testCase{failures: c.failures, answers: c.answers, delays: c.delays, calls: map[string]*testCase{}, quick: quick}
	below.def = &definitions.Definition{
		Name: "w" + strings.NewReplacer("/", "", "[", "_", "]", "_").Replace(within), Description: "d", Timeout: c.def.Timeout,
		FailureMode: pick(rnd, "", definitions.FailLate, definitions.BestEffort),
	}
	below.steps(rnd, within, 1+rnd.IntN(4), depth+1)
	var ids []string
	for _, s := range below.def.Steps {
		ids = append(ids, s.ID)
	}
	below.def.Output = &definitions.Output{Properties: map[string]*definitions.Property{"v": {Type: "string", Description: "d", Value: reading("", ids)}}}
	c.calls[s.ID] = below
	calls.Type, calls.Workflow = definitions.WorkflowStep, below.def.Name
}

// spread has some of what fails in the first item of a forEach fail in others.
func (c *testCase) spread(rnd *rand.Rand, path string, items int) {
	for _, failing := range slices.Sorted(maps.Keys(c.failures)) {
		rest, ok := strings.CutPrefix(failing, path+"[0]/")
		for i := 1; ok && i < items; i++ {
			if rnd.IntN(3) == 0 {
				c.failures[fmt.Sprintf("%s[%d]/%s", path, i, rest)] = c.failures[failing]
			}
		}
	}
}

// source is the definition, and all that it calls.
func (c *testCase) source() string {
	docs := []string{string(c.def.Source())}
	for _, id := range slices.Sorted(maps.Keys(c.calls)) {
		docs = append(docs, c.calls[id].source())
	}
	return strings.Join(docs, "\n---\n")
}

// called is what comes of a run that a step calls.
func (c *testCase) called(s *definitions.Step, path string, r *refStep) {
	below := c.calls[s.ID].referenceOf(path+"/", r.start)
	r.below = []*expected{below}
	r.end = below.ends()
	if below.ended != endCompleted {
		r.status = "failed"
		return
	}
	r.v = ""
	for _, s := range below.order {
		b := below.steps[s.ID]
		r.v += fmt.Sprintf(" %s/%s/%s", b.status, b.v, b.action)
	}
}

// ends is when a run ends by itself.
func (w *expected) ends() time.Duration { return min(w.stopped, w.last) }

// at is the step at a path seen from the run above.
func (w *expected) at(path string) *refStep {
	for _, s := range w.order {
		r := w.steps[s.ID]
		if w.within+s.ID == path {
			return r
		}
		for _, below := range r.below {
			if found := below.at(path); strings.HasPrefix(path, below.within) && found != nil {
				return found
			}
		}
	}
	return nil
}

// undoneBelow checks that called runs that failed, or that were stopped, have
// undone what they had completed, and that those have undone nothing that
// completed.
func (w *expected) undoneBelow(c *testCase, undone []string, stopped time.Duration, problem func(string, ...any)) {
	for _, s := range w.order {
		r := w.steps[s.ID]
		if r.free {
			continue // which items had begun is not certain
		}
		for _, below := range r.below {
			if below.began >= stopped || below.ends() == stopped {
				continue // nor in the very moment
			}
			own := &expected{steps: below.steps, order: below.order, stopped: min(below.stopped, stopped)}
			var here []string
			for _, path := range undone {
				if id, ok := strings.CutPrefix(path, below.within); ok && !strings.Contains(id, "/") {
					here = append(here, id)
				}
			}
			if below.ended == endCompleted && below.ends() < stopped {
				for _, id := range here {
					problem("%s%s was undone in a run that has completed", below.within, id)
				}
				continue
			}
			own.compareUndone(c.calls[s.ID], here, problem)
			below.undoneBelow(c.calls[s.ID], undone, min(below.stopped, stopped), problem)
		}
	}
}

// selfAndAbove are a path and those of the steps in whose called runs it is, each
// of which may be undone as a whole.
func selfAndAbove(path string) []string {
	paths := []string{path}
	for i := range path {
		if path[i] == '/' {
			paths = append(paths, path[:i])
		}
	}
	return paths
}
