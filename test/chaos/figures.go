package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// figures is what a storm has come to, as a table for documentation.
func figures(r *Record, seed uint64, length time.Duration, harms map[string]int, broken []string) string {
	var b strings.Builder
	row := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "| %s | %s |\n", what, fmt.Sprintf(format, args...))
	}
	row("storm", "%s, seed %d", length, seed)
	b.WriteString("|---|---|\n")
	calls, tools := ends(r.Calls), tally(r.Runs, func(run Run) string { return run.Tool })
	row("calls", "%d, %.1f a second: %s", len(r.Calls), float64(len(r.Calls))/length.Seconds(), counts(calls))
	row("runs", "%d: %s; of %s", len(r.Runs), counts(tally(r.Runs, func(run Run) string { return run.Status })), counts(tools))
	var steps []Step
	elicitations := 0
	for _, run := range r.Runs {
		steps, elicitations = append(steps, run.Steps...), elicitations+len(run.Gates)
	}
	row("steps", "%d: %s", len(steps), counts(tally(steps, func(s Step) string { return cmp.Or(s.End, "under way") })))
	row("elicitations", "%d", elicitations)
	done := slices.DeleteFunc(slices.Clone(r.Effects), func(e Effect) bool { return !e.done() })
	row("effects", "%d: %s", len(done), counts(tally(done, func(e Effect) string { return e.Class })))
	kills, others := map[string]int{}, map[string]int{}
	for what, n := range harms {
		if killed, ok := strings.CutPrefix(what, "kill "); ok {
			kills[killed] = n
		} else {
			others[what] = n
		}
	}
	row("kills", "%d: %s", sum(kills), counts(kills))
	row("other harm", "%d: %s", sum(others), counts(others))
	doubled := len(repeatedEffects("unsafe")(r)) + len(repeatedEffects("keyed")(r))
	row("doubled effects", "%d", doubled)
	row("lost calls, lost effects", "%d, %d", len(lostCalls(r)), len(missingEffects(r)))
	row("broken promises", "%d of %d checked", len(broken), len(sentences))
	for _, people := range []bool{false, true} {
		all := latencies(r, people)
		row("time of calls "+map[bool]string{false: "without people", true: "that people answer"}[people], "p50 %s, p99 %s of %d", quantile(all, 50), quantile(all, 99), len(all))
	}
	return b.String()
}

// ends counts calls by what their clients were told in the end.
func ends(calls []Call) map[string]int {
	return tally(calls, func(c Call) string {
		switch {
		case c.Status != "":
			return c.Status
		case c.Run != "":
			return "left with a run"
		default:
			return "left with nothing"
		}
	})
}

// latencies are how long calls took that got a result, with all attempts, sorted: of
// runs that asked people, or of those that did not.
func latencies(r *Record, people bool) []time.Duration {
	runs := r.runs()
	var all []time.Duration
	for _, c := range r.Calls {
		if run := runs[c.Run]; run != nil && c.Status != "" && (len(run.Gates) > 0) == people {
			all = append(all, c.Took)
		}
	}
	slices.Sort(all)
	return all
}

// quantile is the value below which percent of 100 sorted ones are.
func quantile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)-1)*percent/100].Round(10 * time.Millisecond)
}

func tally[T any](all []T, of func(T) string) map[string]int {
	counted := map[string]int{}
	for _, one := range all {
		counted[of(one)]++
	}
	return counted
}

func sum(of map[string]int) (all int) {
	for _, n := range of {
		all += n
	}
	return all
}

func counts(of map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprintf("%d %s", of[name], name))
	}
	return strings.Join(parts, ", ")
}
