package main

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strings"

	"github.com/perdure/perdure/internal/runs"
)

// onRun connects to the Temporal with the runs, and does something with the one of an ID,
// or of a unique part of one.
func (f temporalFlags) onRun(ctx context.Context, id string, do func(*runs.Client, runs.RunID) error) error {
	rc, done, err := f.runsClient(ctx)
	if err != nil {
		return err
	}
	defer done()
	found, err := findRun(ctx, rc, id, runs.Filter{})
	if err != nil {
		return err
	}
	return do(rc, found)
}

// findRun resolves a run ID: a whole ID, or a part of one that is unique among the
// runs that the filter selects.
func findRun(ctx context.Context, c *runs.Client, id string, among runs.Filter) (runs.RunID, error) {
	id = strings.TrimSuffix(id, "…") // as a narrow table cuts it
	if id == "" {
		return "", usagef("no run named; see perdure runs list")
	}
	_, err := c.Get(ctx, runs.RunID(id))
	if !errors.Is(err, runs.ErrNotFound) {
		return runs.RunID(id), err
	}
	among.Limit = 1000
	list, err := c.List(ctx, among)
	if err != nil {
		return "", err
	}
	var found []string
	for _, run := range list {
		if name := string(run.ID); strings.HasPrefix(name, id) || strings.HasSuffix(name, id) || strings.Contains(name, "/"+id) {
			found = append(found, name)
		}
	}
	switch {
	case len(found) == 1:
		return runs.RunID(found[0]), nil
	case len(found) > 1:
		slices.Sort(found)
		return "", fmt.Errorf("%q is ambiguous: %s; type more of the ID", id, strings.Join(found, ", "))
	case among.Waiting:
		return "", fmt.Errorf("no run %q waits for an answer; see perdure runs list --waiting", id)
	default:
		return "", fmt.Errorf("run %q not found; see perdure runs list. %s", id, c.Kept(ctx))
	}
}

// openElicitation finds the elicitation to answer: the only open one that wanted
// selects. named is its name in the flags, "" if they have none.
func openElicitation(ctx context.Context, rc *runs.Client, id runs.RunID, wanted func(runs.Elicitation) bool, named string) (runs.Elicitation, error) {
	run, err := rc.Get(ctx, id)
	if err != nil {
		return runs.Elicitation{}, err
	}
	var open []runs.Elicitation
	var names []string
	for _, e := range run.Open() {
		names = append(names, string(e.StepPath))
		if wanted(e) {
			open = append(open, e)
		}
	}
	switch {
	case len(open) == 1:
		return open[0], nil
	case len(open) > 1:
		return runs.Elicitation{}, fmt.Errorf("%s has several open elicitations; choose one with --step: %s", id, strings.Join(names, ", "))
	case len(names) > 0 && named != "":
		return runs.Elicitation{}, fmt.Errorf("%s has no open elicitation at %s, but at %s", id, named, strings.Join(names, ", "))
	case len(names) > 0:
		return runs.Elicitation{}, fmt.Errorf("%s waits for something else, at %s; see perdure runs show %s", id, strings.Join(names, ", "), id)
	case run.Unreadable != "":
		return runs.Elicitation{}, fmt.Errorf("cannot read the elicitations of %s: %s", id, run.Unreadable)
	default:
		return runs.Elicitation{}, fmt.Errorf("%s (%s) has no open elicitation; see perdure runs show %s", id, run.Status, id)
	}
}

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "perdure"
}
