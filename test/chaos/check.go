package main

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
)

// A sentence is a promise of docs/contract.md; broken lists where a record
// breaks it.
type sentence struct {
	name   string
	broken func(*Record) []string
}

// sentences are all that is checked.
var sentences = []sentence{
	{"an accepted call is never lost", lostCalls},
	{"calls that mean the same run are one run", splitCalls},
	{"a call that is sent again is the same run", repeatedCalls},
	{"a client is told what the run came to", wrongResults},
	{"every run has ended or waits for somebody", stuckRuns},
	{"nothing is done without an intent in history before", unintended},
	{"an unsafe effect happens at most once", repeatedEffects("unsafe")},
	{"a keyed effect happens at most once, and always with the same key", keyedEffects},
	{"the effect of a completed step has happened", missingEffects},
	{"an unknown outcome is never repeated", repeatedUnknown},
	{"an answer is consumed at most once, and is what was carried out", answers},
	{"a question that was not accepted lets nothing through", declined},
	{"no step begins after a cancel was acknowledged", afterCancel},
	{"nothing ends as cancelled or terminated that nobody has cancelled", uncancelled},
	{"compensation goes in reverse order and leaves nothing out", compensation},
}

// check gives what breaks which sentence, sorted as the sentences are.
func check(r *Record) []string {
	var all []string
	for _, s := range sentences {
		found := s.broken(r)
		sort.Strings(found)
		for _, f := range found {
			all = append(all, s.name+": "+f)
		}
	}
	return all
}

func (r *Record) runs() map[string]*Run {
	byID := map[string]*Run{}
	for i := range r.Runs {
		byID[r.Runs[i].ID] = &r.Runs[i]
	}
	return byID
}

func lostCalls(r *Record) (broken []string) {
	runs := r.runs()
	for _, c := range r.Calls {
		if c.Run != "" && runs[c.Run] == nil {
			broken = append(broken, fmt.Sprintf("call %s of a %s client was told of run %s, which does not exist", c.ID, c.Client, c.Run))
		}
	}
	for _, c := range r.Cancels {
		if runs[c.Run] == nil {
			broken = append(broken, fmt.Sprintf("run %s was cancelled and does not exist", c.Run))
		}
	}
	return broken
}

func splitCalls(r *Record) (broken []string) {
	same := map[string]string{}
	for _, c := range r.Calls {
		if c.Same == "" || c.Run == "" {
			continue
		}
		if first := same[c.Same]; first != "" && first != c.Run {
			broken = append(broken, fmt.Sprintf("%s is both %s and %s", c.Same, first, c.Run))
		}
		same[c.Same] = c.Run
	}
	return broken
}

// repeatedCalls looks for what was done for one call by several runs. What the steps
// of parent call are runs of their own.
func repeatedCalls(r *Record) (broken []string) {
	runs := map[string]map[string]bool{}
	for _, e := range r.Effects {
		if runs[e.About] == nil {
			runs[e.About] = map[string]bool{}
		}
		if e.done() {
			runs[e.About][e.Run] = true
		}
	}
	for _, c := range r.Calls {
		if by := runs[c.Same]; c.Same != "" && len(by) > 1 && c.Tool != "parent" {
			broken = append(broken, fmt.Sprintf("call %s of a %s client was executed by %d runs: %s", c.ID, c.Client, len(by), strings.Join(slices.Sorted(maps.Keys(by)), ", ")))
		}
	}
	return broken
}

func wrongResults(r *Record) (broken []string) {
	runs := r.runs()
	for _, c := range r.Calls {
		run := runs[c.Run]
		final := c.Status == "completed" || c.Status == "failed" || c.Status == "cancelled" || c.Status == "terminated" || c.Status == "timed_out"
		switch {
		case run == nil || !final:
		case run.Status != c.Status:
			broken = append(broken, fmt.Sprintf("call %s was told that %s is %s; it is %s", c.ID, c.Run, c.Status, run.Status))
		case c.Status == "completed" && c.Output != run.Output:
			broken = append(broken, fmt.Sprintf("call %s was told that %s gives %s; it gives %s", c.ID, c.Run, c.Output, run.Output))
		}
	}
	return broken
}

func stuckRuns(r *Record) (broken []string) {
	for _, run := range r.Runs {
		if run.Status == "running" {
			broken = append(broken, run.ID+" is neither at its end nor waiting")
		}
	}
	return broken
}

// byKey finds the calls of all histories by their key.
func (r *Record) byKey() map[string][]Step {
	steps := map[string][]Step{}
	for _, run := range r.Runs {
		for _, s := range run.Steps {
			steps[s.Key] = append(steps[s.Key], s)
		}
	}
	return steps
}

func unintended(r *Record) (broken []string) {
	steps := r.byKey()
	for _, e := range r.Effects {
		if e.done() && !slices.ContainsFunc(steps[e.Key], func(s Step) bool { return s.At <= e.At }) {
			broken = append(broken, fmt.Sprintf("%s of step %s of %s", e.Tool, e.Step, e.Run))
		}
	}
	return broken
}

// A place is where in which run something was done.
type place struct{ run, step, tool string }

func (p place) String() string { return fmt.Sprintf("%s of step %s of %s", p.tool, p.step, p.run) }

// repeatedEffects looks for effects of a class that happened more than once.
func repeatedEffects(class string) func(*Record) []string {
	return func(r *Record) (broken []string) {
		times := map[place]int{}
		for _, e := range r.Effects {
			if e.Class == class && e.done() {
				times[place{e.Run, e.Step, e.Tool}]++
			}
		}
		for p, n := range times {
			if n > 1 {
				broken = append(broken, fmt.Sprintf("%s happened %d times", p, n))
			}
		}
		return broken
	}
}

func keyedEffects(r *Record) []string {
	broken := repeatedEffects("keyed")(r)
	keys := map[place]string{}
	for _, e := range r.Effects {
		p := place{e.Run, e.Step, e.Tool}
		switch known := keys[p]; {
		case e.Class != "keyed" || known == e.Key:
		case e.Key == "":
			broken = append(broken, p.String()+" came without a key")
		case known != "":
			broken = append(broken, p.String()+" came with two keys")
		default:
			keys[p] = e.Key
		}
	}
	return broken
}

func missingEffects(r *Record) (broken []string) {
	done := map[string]bool{}
	for _, e := range r.Effects {
		if e.done() {
			done[e.Key] = true
		}
	}
	for _, run := range r.Runs {
		for _, s := range run.Steps {
			if s.End == stepDone && s.Class != "read" && !done[s.Key] {
				broken = append(broken, fmt.Sprintf("%s counts as completed in step %s of %s", s.Tool, s.Path, run.ID))
			}
		}
	}
	return broken
}

func repeatedUnknown(r *Record) (broken []string) {
	for _, run := range r.Runs {
		for i, s := range run.Steps {
			if s.Class != "unsafe" || s.End != stepUnknown {
				continue
			}
			for _, later := range run.Steps[i+1:] {
				if later.Path == s.Path && !run.allowed(s.Path, s.Ended, later.Scheduled) {
					broken = append(broken, fmt.Sprintf("step %s of %s was made again", s.Path, run.ID))
				}
			}
		}
	}
	return broken
}

// allowed says whether somebody said between two events that a call was not
// executed.
func (r *Run) allowed(path string, from, to int) bool {
	return slices.ContainsFunc(r.Gates, func(g Gate) bool {
		return g.Kind == "reconciliation" && strings.HasPrefix(g.Path, path) && g.Outcome == "not_happened" && g.Event > from && g.Event < to
	})
}

// answers compares what answerers were told with what histories say, and that
// with what was done.
func answers(r *Record) (broken []string) {
	runs := r.runs()
	type question struct{ run, id string }
	given, won := map[question][]string{}, map[question]string{}
	for _, a := range r.Answers {
		q := question{a.Run, a.Question}
		given[q] = append(given[q], a.Content)
		if a.Won && won[q] != "" && won[q] != a.Content {
			broken = append(broken, fmt.Sprintf("two were told that their answer to %s of %s counts", a.Question, a.Run))
		}
		if a.Won {
			won[q] = a.Content
		}
	}
	counts := map[place]string{}
	for _, run := range r.Runs {
		for _, g := range run.Gates {
			q := question{run.ID, g.ID}
			if g.State != "answered" || g.Kind != "" {
				continue
			}
			if w := won[q]; w != "" && w != g.Content {
				broken = append(broken, fmt.Sprintf("the answer to %s of %s is another than the one that was told to count", g.ID, run.ID))
			}
			if g.Action == "accept" && !slices.Contains(given[q], g.Content) {
				broken = append(broken, fmt.Sprintf("nobody gave the answer to %s of %s", g.ID, run.ID))
			}
			if g.Action == "accept" {
				counts[place{run: run.ID}] = g.Content
			}
		}
	}
	for _, e := range r.Effects {
		if e.Carry != "" && runs[e.Run] != nil && counts[place{run: e.Run}] != e.Carry {
			broken = append(broken, fmt.Sprintf("%s of %s carries out another answer than the one that counts", e.Tool, e.Run))
		}
	}
	return broken
}

func declined(r *Record) (broken []string) {
	runs := r.runs()
	for _, e := range r.Effects {
		run := runs[e.Run]
		if run == nil || e.Carry == "" || !e.done() {
			continue
		}
		accepted := func(g Gate) bool { return g.Kind == "" && g.State == "answered" && g.Action == "accept" }
		if !slices.ContainsFunc(run.Gates, accepted) {
			broken = append(broken, fmt.Sprintf("%s of %s", e.Tool, e.Run))
		}
	}
	return broken
}

// undoes gives the step that a call undoes: its path ends with /compensate and
// how often that was tried.
func undoes(s Step) (path string, ok bool) {
	path, _, ok = strings.Cut(s.Path, "/compensate#")
	return path, ok
}

func afterCancel(r *Record) (broken []string) {
	runs := r.runs()
	for _, c := range r.Cancels {
		if run := runs[c.Run]; run != nil && run.Cancelled == 0 && !run.ended() {
			broken = append(broken, "the history of "+c.Run+" does not know that it was cancelled")
		}
	}
	for _, run := range r.Runs {
		for _, s := range run.Steps {
			if _, undoing := undoes(s); run.Cancelled > 0 && s.Scheduled > run.Cancelled && !undoing {
				broken = append(broken, fmt.Sprintf("step %s of %s", s.Path, run.ID))
			}
		}
	}
	return broken
}

func uncancelled(r *Record) (broken []string) {
	for _, run := range r.Runs {
		if (run.Status == "cancelled" || run.Status == "terminated") && run.Cancelled == 0 {
			broken = append(broken, run.ID)
		}
	}
	return broken
}

// compensated are the tools whose steps are undone, in the definitions of
// chaos.yaml.
const compensated = "_hold"

// compensation holds the order in which steps were undone against the order in
// which they had completed.
func compensation(r *Record) (broken []string) {
	for _, run := range r.Runs {
		var done, undone []string
		steps := slices.Clone(run.Steps)
		slices.SortStableFunc(steps, func(a, b Step) int { return a.Ended - b.Ended })
		for _, s := range steps {
			if strings.HasSuffix(s.Tool, compensated) && s.End == stepDone {
				done = append([]string{s.Path}, done...)
			}
		}
		for _, s := range run.Steps {
			if path, ok := undoes(s); ok && !slices.Contains(undone, path) {
				undone = append(undone, path)
			}
		}
		switch {
		case run.Status == "completed" && len(undone) > 0:
			broken = append(broken, run.ID+" completed and was undone")
		case len(undone) > len(done) || !slices.Equal(undone, done[:len(undone)]):
			broken = append(broken, fmt.Sprintf("%s undid %v after it had done %v", run.ID, undone, done))
		case run.ended() && run.Status != "completed" && len(undone) < len(done):
			broken = append(broken, fmt.Sprintf("%s has ended and undid only %v of %v", run.ID, undone, done))
		}
	}
	return broken
}
