package workflows_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions"
)

const never = time.Duration(math.MaxInt64)

// An ending is how a run ends.
type ending string

const (
	endCompleted ending = "completed"
	endFailed    ending = "failed"
	endCancelled ending = "cancelled"
)

// A refStep is what the reference says of a step, were the run not to be
// stopped.
type refStep struct {
	start, end time.Duration
	status     string
	v, action  string // of its output
	broken     bool   // it ends a run that stops at the first failure
	counts     string // of a forEach
	calls      []refCall
	below      []*expected // of the runs that it has called
	free       bool        // of those may be omitted what is not certain
}

type refCall struct {
	at   time.Duration
	text string // "PATH ARGUMENTS"
	free bool   // may be omitted, as an item before it failed
}

// expected is what the reference says of a case.
type expected struct {
	within   string // path of the step that has called the run, and a slash
	began    time.Duration
	steps    map[string]*refStep
	order    []*definitions.Step
	ended    ending
	stopped  time.Duration // when; never for a run that completes
	last     time.Duration // when it has ended by itself
	culprits []string      // steps that may be named
}

// reference reads the rules step by step; the definition is in the order of
// its graph.
func (c *testCase) reference() *expected { return c.referenceOf("", 0) }

// referenceOf does so for a run that a step has called.
func (c *testCase) referenceOf(within string, began time.Duration) *expected {
	w := &expected{within: within, began: began, steps: map[string]*refStep{}, order: c.def.Steps, ended: endCompleted, stopped: never}
	// That the rest is skipped changes only what starts later, so steps are
	// read anew with each gate that skips, the earliest first.
	skip := never
	for {
		next := never
		for _, s := range c.def.Steps {
			ref := c.step(s, w, skip)
			w.steps[s.ID] = ref
			if c.skips(s, ref) && ref.end < skip {
				next = min(next, ref.end)
			}
		}
		if next == never {
			break
		}
		skip = next
	}
	w.end(c)
	return w
}

func (c *testCase) skips(s *definitions.Step, ref *refStep) bool {
	return s.Type == definitions.ElicitationStep && ref.status == "completed" && ref.action != "accept" &&
		handler(s, ref.action) == definitions.SkipRemaining
}

// step is what comes of a step; skip is when the rest began to be skipped.
func (c *testCase) step(s *definitions.Step, w *expected, skip time.Duration) *refStep {
	before, path := w.steps, w.within+s.ID
	r := &refStep{status: "skipped", start: w.began}
	if defaults, ok := s.DefaultResults.Value.(map[string]any); ok {
		r.v, _ = defaults["v"].(string)
	}
	dependsOnBroken := false
	for _, id := range s.DependsOn {
		r.start = max(r.start, before[id].end)
		dependsOnBroken = dependsOnBroken || before[id].broken
	}
	r.end = r.start
	switch {
	case dependsOnBroken:
		r.broken = true
		return r
	case r.start >= skip && skip > 0, !holds(s, before):
		return r
	}
	r.status = "completed"
	switch s.Type {
	case definitions.WaitStep:
		d, _ := time.ParseDuration(s.For)
		r.end, r.v = r.start+d, ""
	case definitions.ElicitationStep:
		c.gate(s, path, r)
	case definitions.ForEachStep:
		c.loop(s, path, r)
	case definitions.WorkflowStep:
		c.called(s, path, r)
	default:
		c.call(s, path, r, before)
	}
	if r.status == "failed" && !continues(s) {
		r.broken = true
		r.v, r.action = "", ""
	}
	return r
}

func continues(s *definitions.Step) bool {
	return s.OnError != nil && s.OnError.Action == definitions.Continue
}

func holds(s *definitions.Step, before map[string]*refStep) bool {
	if !strings.HasPrefix(s.Condition, "{{eq") {
		return s.Condition == ""
	}
	var id, field, value string
	_, _ = fmt.Sscanf(strings.ReplaceAll(s.Condition, ".", " "), "{{eq steps %s %s %q}}", &id, &field, &value)
	if field == "action" {
		return before[id].action == value
	}
	return before[id].status == value
}

func (c *testCase) call(s *definitions.Step, path string, r *refStep, before map[string]*refStep) {
	seen := s.ID
	for _, id := range s.DependsOn {
		b := before[id]
		seen += fmt.Sprintf(" %s/%s/%s", b.status, b.v, b.action)
	}
	attempts, delay := 1, time.Duration(0)
	if s.OnError != nil && s.OnError.Action == definitions.Retry {
		attempts, delay = s.OnError.RetryCount+1, time.Duration(s.OnError.RetryDelay)
	}
	for n := range attempts {
		r.calls = append(r.calls, refCall{at: r.end, text: fmt.Sprintf(`%s {"v":%q}`, path, seen)})
		if n >= c.failures[path] {
			r.v = seen
			return
		}
		if n < attempts-1 {
			r.end += delay
			delay += delay / 2
		}
	}
	r.status = "failed"
}

func handler(s *definitions.Step, action string) definitions.Action {
	h := s.OnCancel
	if action == "decline" {
		h = s.OnDecline
	}
	if h == nil {
		return definitions.Abort
	}
	return h.Action
}

func (c *testCase) gate(s *definitions.Step, path string, r *refStep) {
	r.action, r.end = "timeout", r.start+time.Duration(s.Timeout)
	if c.answers[path] != "" && c.delays[path] < time.Duration(s.Timeout) {
		r.action, r.end = c.answers[path], r.start+c.delays[path]
	}
	switch {
	case r.action == "accept":
		r.v = ""
	case handler(s, r.action) == definitions.Abort:
		r.status = "failed"
	}
}

func (c *testCase) loop(s *definitions.Step, path string, r *refStep) {
	r.v = ""
	items := strings.Count(s.Collection, "0")
	completed, failed, gone := 0, 0, false
	for i := range items {
		if s.Step.Condition != "" && i == 1 {
			continue
		}
		path := fmt.Sprintf("%s[%d]", path, i)
		fails := c.failures[path] > 0
		if s.Step.Workflow != "" {
			below := c.calls[s.ID].referenceOf(path+"/", r.start)
			r.below, fails = append(r.below, below), below.ended != endCompleted
		} else {
			r.calls = append(r.calls, refCall{at: r.start, text: fmt.Sprintf(`%s {"v":"item %d"}`, path, i)})
		}
		if !fails {
			completed++
			continue
		}
		failed++
		gone = gone || !continues(s.Step) && !continues(s)
	}
	r.counts = fmt.Sprintf(" %d/%d", completed, failed)
	if !gone {
		return
	}
	r.status, r.counts = "failed", " /"
	r.free = true
	for i := range r.calls {
		r.calls[i].free = true
	}
}

// end finds out how the run ends, and when.
func (w *expected) end(c *testCase) {
	last := w.began
	failure := never
	for _, s := range w.order {
		r := w.steps[s.ID]
		last = max(last, r.end)
		if r.status == "failed" && r.broken {
			failure = min(failure, r.end)
		}
	}
	for _, s := range w.order {
		if r := w.steps[s.ID]; r.status == "failed" && r.broken && r.end == failure {
			w.culprits = append(w.culprits, s.ID)
		}
	}
	switch mode := c.def.FailureMode; {
	case mode != definitions.FailLate && mode != definitions.BestEffort && failure < never:
		w.ended, w.stopped = endFailed, failure
		last = failure
	case mode == definitions.FailLate && failure < never:
		w.ended = endFailed
	}
	w.last = last
	if c.cancel > 0 && c.cancel < last {
		w.ended, w.stopped = endCancelled, c.cancel
	}
}

// output is what the output block shows of the steps.
func (w *expected) output(*testCase) map[string]string {
	out := map[string]string{}
	for id, r := range w.steps {
		out[id] = fmt.Sprintf(" %s/%s/%s", r.status, r.v, r.action)
		for _, s := range w.order {
			if s.ID == id && s.Type == definitions.ForEachStep {
				if r.counts == "" {
					r.counts = " /"
				}
				out[id] += r.counts
			}
		}
	}
	return out
}

func (w *expected) brokenSteps() []string {
	var ids []string
	for _, s := range w.order {
		if r := w.steps[s.ID]; r.status == "failed" && r.broken {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// compareCalls checks that each call that must be made was made once, and that no
// other was.
func (w *expected) compareCalls(got []string, problem func(string, ...any)) {
	left := slices.Clone(got)
	w.take(&left, never, false, problem)
	for _, call := range left {
		problem("was called and should not have been: %s", call)
	}
	w.compareOrder(got, problem)
}

// take takes the calls of a run, and of those that its steps have called, from those
// that were made. Free are those that may be omitted.
func (w *expected) take(left *[]string, stopped time.Duration, free bool, problem func(string, ...any)) {
	stopped = min(stopped, w.stopped)
	for _, s := range w.order {
		r := w.steps[s.ID]
		for _, call := range r.calls {
			i := slices.Index(*left, call.text)
			if i >= 0 && call.at <= stopped {
				*left = slices.Delete(*left, i, i+1)
			} else if i < 0 && !free && !call.free && call.at < stopped {
				problem("was not called: %s", call.text)
			}
		}
		for _, below := range r.below {
			below.take(left, stopped, free || r.free, problem)
		}
	}
}

// compareOrder checks that no call came before one that its step depends on.
func (w *expected) compareOrder(got []string, problem func(string, ...any)) {
	for _, s := range w.order {
		for _, below := range w.steps[s.ID].below {
			below.compareOrder(got, problem)
		}
		firstCall := slices.IndexFunc(got, func(call string) bool { return of(w.within+s.ID, call) })
		for _, id := range s.DependsOn {
			for i, call := range got {
				if of(w.within+id, call) && firstCall >= 0 && firstCall < i {
					problem("%s was called before %s, on which it depends", s.ID, id)
				}
			}
		}
	}
}

// of reports whether a call is one of a step.
func of(id, call string) bool {
	return strings.HasPrefix(call, id+" ") || strings.HasPrefix(call, id+"[") || strings.HasPrefix(call, id+"/")
}

// compareUndone checks that what had completed was undone, the last first.
func (w *expected) compareUndone(c *testCase, undone []string, problem func(string, ...any)) {
	for _, s := range w.order {
		r := w.steps[s.ID]
		was := slices.Contains(undone, s.ID)
		can := s.Compensate != nil && r.status == "completed"
		switch {
		case was && (!can || r.end > w.stopped):
			problem("%s was undone and should not have been", s.ID)
		case !was && can && r.end < w.stopped:
			problem("%s was not undone", s.ID)
		}
	}
	for i, later := range undone {
		for _, earlier := range undone[i+1:] {
			if w.steps[later].end < w.steps[earlier].end || w.after(c, earlier, later) {
				problem("%s was undone before %s", later, earlier)
			}
		}
	}
}

// after reports whether a depends on b, directly or not.
func (w *expected) after(c *testCase, a, b string) bool {
	for _, s := range w.order {
		if s.ID == a {
			return slices.ContainsFunc(s.DependsOn, func(id string) bool { return id == b || w.after(c, id, b) })
		}
	}
	return false
}
