package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/workflows"
)

// printEnd prints how a run ended, how long the call took and, if it failed, what it
// leaves behind and what can be done.
func (k callCommand) printEnd(c *console, r callResult, took time.Duration) {
	run := r.Meta.Run
	status, mark := cmp.Or(run.Status, string(workflows.Completed)), c.errStyle(green, "✓")
	if r.IsError {
		mark = c.errStyle(red, "✗")
	}
	c.notef("%s %s %s in %s", mark, c.errStyle(bold, run.ID), strings.ReplaceAll(status, "_", " "), shortDuration(took))
	if !r.IsError {
		return
	}
	left := func(what string, paths []string) {
		if len(paths) > 0 {
			c.notef("  %-16s %s", what, view.Clip(strings.Join(paths, ", "), 300))
		}
	}
	left("undone", r.Meta.Undone.Compensated)
	left("not undone", r.kept())
	left("outcome unknown", r.unknown())
	again := run.ID + dataFlag(k.Data)
	c.notef("  %-16s perdure runs show %s", "what happened", again)
	if resumable[status] {
		c.notef("  %-16s perdure runs resume %s%s", "resume", again, k.flagForUnknown(r))
	}
}

// resumable are the statuses of runs that runs resume takes.
var resumable = map[string]bool{
	string(workflows.Failed): true, string(workflows.TimedOut): true, string(workflows.Cancelled): true, string(workflows.Terminated): true,
}

// flagForUnknown shows how the outcome of a call is recorded.
func (k callCommand) flagForUnknown(r callResult) string {
	paths := r.unknown()
	if len(paths) == 0 {
		return ""
	}
	return fmt.Sprintf(" --unknown %s   (or not-happened)", view.ShellWord(paths[0]+"=happened"))
}

// unknown are the paths of calls with unknown outcome.
func (r callResult) unknown() (paths []string) {
	for _, e := range r.Meta.Effects.Unknown {
		paths = append(paths, string(e.StepPath))
	}
	return paths
}

// kept are the paths of calls whose effect stays.
func (r callResult) kept() []string {
	paths := slices.Clone(r.Meta.Undone.Uncompensated)
	for _, e := range r.Meta.Effects.Completed {
		paths = append(paths, string(e.StepPath))
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// whole is the command that prints the whole result; "" = the call again, with -o json.
func (r callResult) whole() string {
	if r.Meta.Run.ID == "" {
		return "call again with -o json"
	}
	return "perdure runs result " + r.Meta.Run.ID
}
