package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/workflows"
)

// afterStop is how long after a confirmed cancel a call may still arrive.
const afterStop = 700 * time.Millisecond

// check holds what the backend did against what is promised.
func (w *world) check() []string {
	if w.backend == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	byCall := map[string][]event{}
	for _, e := range w.backend.events {
		byCall[e.About] = append(byCall[e.About], e)
	}
	found := w.findings
	for _, c := range w.calls {
		broken := slices.Concat(c.mendedTwice(byCall[c.about]), c.twice(byCall[c.about]), c.afterCancel(byCall[c.about]), c.knownKeys(byCall[c.about]), c.notUndone(byCall[c.about]), c.undone(byCall[c.about]))
		c.suspect = c.suspect || len(broken) > 0
		for _, b := range broken {
			found = append(found, fmt.Sprintf("%s (%s): %s", c.about, c.id, b))
		}
	}
	return found
}

// twice finds what was done again without being undone, or undone without being done.
func (c *call) twice(events []event) (broken []string) {
	done, risk := map[place]bool{}, maps.Clone(c.risk)
	for _, e := range events {
		p := place{e.Run, e.Step}
		if e.What != executed || !e.changes() || menders[e.Tool] {
			continue
		}
		undoes := undoers[e.Tool]
		if done[p] != undoes {
			switch {
			case risk[e.Step] > 0 && !undoes:
				risk[e.Step]--
			case risk[""] > 0: // of a script
			default:
				broken = append(broken, fmt.Sprintf("%s of step %s of %s was executed twice (%s)", e.Tool, e.Step, e.Run, e.At.Format("15:04:05.000")))
			}
		}
		done[p] = !undoes
	}
	return broken
}

// mendedTwice finds what a called run did that was undone again, though no other run has done
// it anew.
func (c *call) mendedTwice(events []event) (broken []string) {
	known, at := map[string]bool{}, map[place]int{} // runs that have called; how many there were when it was undone
	for _, e := range events {
		if p := (place{e.Run, e.Step}); e.What == executed && menders[e.Tool] {
			if n, undone := at[p]; undone && n == len(known) {
				broken = append(broken, fmt.Sprintf("%s of step %s of %s has undone twice what was done once", e.Tool, e.Step, e.Run))
			}
			at[p] = len(known)
		}
		known[e.Run] = true
	}
	return broken
}

// afterCancel finds what was sent after a cancel of the run was confirmed, and before somebody
// reset or resumed one of its runs.
func (c *call) afterCancel(events []event) (broken []string) {
	for _, e := range events {
		if e.What != came || !e.changes() || undoers[e.Tool] || menders[e.Tool] {
			continue
		}
		var since time.Time
		for _, d := range c.deeds {
			switch {
			case d.At.After(e.At):
			case d.What == "cancel":
				since = d.Done
			case strings.HasPrefix(d.What, "reset"), strings.HasPrefix(d.What, "resume"):
				since = time.Time{}
			}
		}
		if !since.IsZero() && e.At.After(since.Add(afterStop)) {
			broken = append(broken, fmt.Sprintf("%s of step %s of %s was sent %s after the cancel was confirmed", e.Tool, e.Step, e.Run, e.At.Sub(since).Round(time.Millisecond)))
		}
	}
	return broken
}

// harmed reports whether something was done to one of the runs that begins so.
func (c *call) harmed(what ...string) bool {
	return slices.ContainsFunc(c.deeds, func(d deed) bool {
		return slices.ContainsFunc(what, func(what string) bool {
			return strings.HasPrefix(d.What, what) && !strings.HasSuffix(d.What, "refused")
		})
	})
}

// knownKeys finds what was sent in vain, as the backend knew its key: what was undone is to
// be done, or what was done anew is to be undone.
func (c *call) knownKeys(events []event) (broken []string) {
	last, done := map[place]event{}, map[place]bool{}
	for _, e := range events {
		switch p := (place{e.Run, e.Step}); {
		case menders[e.Tool]:
		case e.What == executed:
			done[p] = !undoers[e.Tool]
			last[p] = e
		case e.What == again:
			last[p] = e
		}
	}
	for p, e := range last {
		undoes := undoers[e.Tool]
		if e.What == again && done[p] == undoes && (undoes || c.status == workflows.Completed) {
			broken = append(broken, fmt.Sprintf("%s of step %s of %s was sent in vain, with a key that is known", e.Tool, e.Step, e.Run))
		}
	}
	slices.Sort(broken)
	return broken
}

// notUndone finds what can be undone in runs that have not completed, and is not, where
// operators have let runs go on: it was answered, and nobody has killed the process then.
func (c *call) notUndone(events []event) (broken []string) {
	if c.harmed("reset", "terminate", "resume") {
		return nil
	}
	done := map[place]event{}
	for _, e := range events {
		if e.What == executed && e.changes() {
			done[place{e.Run, e.Step}] = e
		}
	}
	for p, e := range done {
		early := c.statuses[e.Run] == workflows.Failed || c.statuses[e.Run] == workflows.Cancelled
		if early && e.Fate == "" && c.w.author.undoable[item.ReplaceAllString(p.Step, "[{{.forEach.index}}]")] && !undoers[e.Tool] && !c.w.killedAt(e.At) {
			broken = append(broken, fmt.Sprintf("%s of step %s of %s was not undone", e.Tool, e.Step, e.Run))
		}
	}
	slices.Sort(broken)
	return broken
}

// undone finds what is undone in runs that have completed, and need all that they do. Where
// the answer was lost, somebody may have said that it was not undone.
func (c *call) undone(events []event) (broken []string) {
	last := map[place]event{}
	for _, e := range events {
		if e.What == executed && e.changes() {
			last[place{e.Run, e.Step}] = e
		}
	}
	for p, e := range last {
		tool, _, _ := strings.Cut(p.Run, "/")
		if (undoers[e.Tool] || menders[e.Tool]) && e.Fate != "lost" && c.statuses[p.Run] == workflows.Completed && c.w.author.thorough[tool] {
			broken = append(broken, fmt.Sprintf("%s has undone step %s of %s, which has completed", e.Tool, p.Step, p.Run))
		}
	}
	slices.Sort(broken)
	return broken
}

// item is the number of an item in a label.
var item = regexp.MustCompile(`\[\d+\]$`)

// killedAt reports whether the process was killed about a time.
func (w *world) killedAt(at time.Time) bool {
	return slices.ContainsFunc(w.killed, func(k time.Time) bool { return k.After(at.Add(-time.Second)) && k.Before(at.Add(3*time.Second)) })
}

// figures says what was done in the storm.
func (w *world) figures() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	executions, writes := 0, 0
	for _, s := range w.seen {
		executions += len(s.executions)
	}
	for _, e := range w.backend.events {
		if e.What == executed && e.changes() {
			writes++
		}
	}
	var counts []string
	for _, what := range slices.Sorted(maps.Keys(w.counts)) {
		counts = append(counts, fmt.Sprintf("%d %s", w.counts[what], what))
	}
	return fmt.Sprintf("%d calls, %d runs, %d executions, %d effects; %s", len(w.calls), len(w.seen), executions, writes, strings.Join(counts, ", "))
}
