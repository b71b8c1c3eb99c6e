package main

import (
	"fmt"
	"maps"
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
		broken := slices.Concat(c.twice(byCall[c.about]), c.afterCancel(byCall[c.about]), c.leftUndone(byCall[c.about]), c.notUndone(byCall[c.about]))
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
		if e.What != executed || e.Class == "read" {
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

// afterCancel finds what was sent after a cancel of the run was confirmed, and before somebody
// reset or resumed one of its runs.
func (c *call) afterCancel(events []event) (broken []string) {
	for _, e := range events {
		if e.What != came || e.Class == "read" || undoers[e.Tool] {
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

// leftUndone finds what is not in effect though the run has completed: it was undone since.
func (c *call) leftUndone(events []event) (broken []string) {
	if c.status != workflows.Completed {
		return nil
	}
	last := map[place]event{}
	for _, e := range events {
		if e.What == executed || e.What == again {
			last[place{e.Run, e.Step}] = e
		}
	}
	for p, e := range last {
		if e.What == again && !undoers[e.Tool] && !c.inEffect(events, p) {
			broken = append(broken, fmt.Sprintf("%s of step %s of %s was sent with the key with which it was undone", e.Tool, e.Step, e.Run))
		}
	}
	slices.Sort(broken)
	return broken
}

func (c *call) inEffect(events []event, p place) (done bool) {
	for _, e := range events {
		if (place{e.Run, e.Step}) == p && e.What == executed {
			done = !undoers[e.Tool]
		}
	}
	return done
}

// undoable are the tools of steps that have a compensation.
var undoable = map[string]bool{"hold": true, "reserve": true}

// notUndone finds what a run has left behind that failed, where nobody has reset, resumed or
// terminated it, or decided to leave it.
func (c *call) notUndone([]event) (broken []string) { return nil }

// figures says what was done in the storm.
func (w *world) figures() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	executions, writes := 0, 0
	for _, s := range w.seen {
		executions += len(s.executions)
	}
	for _, e := range w.backend.events {
		if e.What == executed && e.Class != "read" {
			writes++
		}
	}
	var counts []string
	for _, what := range slices.Sorted(maps.Keys(w.counts)) {
		counts = append(counts, fmt.Sprintf("%d %s", w.counts[what], what))
	}
	return fmt.Sprintf("%d calls, %d runs, %d executions, %d effects; %s", len(w.calls), len(w.seen), executions, writes, strings.Join(counts, ", "))
}
