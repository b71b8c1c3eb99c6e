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

// findRun gives the ID of the run that is meant: all of it, or enough of its
// beginning or end to be the only one of those that the filter selects.
func findRun(ctx context.Context, c *runs.Client, id string, among runs.Filter) (runs.RunID, error) {
	if id == "" {
		return "", usagef("name the run; perdure runs list lists them")
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
		return "", fmt.Errorf("%q may be any of %s; give more of it", id, strings.Join(found, ", "))
	case among.Waiting:
		return "", fmt.Errorf("no run %q waits for an answer; perdure runs list --waiting shows those that do", id)
	default:
		return "", fmt.Errorf("run %q not found; see perdure runs list", id)
	}
}

// openElicitation finds what is to be answered: the only open elicitation that
// is wanted. Named is how the flags name it, "" if they do not.
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
		return runs.Elicitation{}, fmt.Errorf("%s waits with several questions; say which with --step: %s", id, strings.Join(names, ", "))
	case len(names) > 0 && named != "":
		return runs.Elicitation{}, fmt.Errorf("%s does not wait at %s but at %s", id, named, strings.Join(names, ", "))
	case len(names) > 0:
		return runs.Elicitation{}, fmt.Errorf("%s waits for something else, at %s; perdure runs show %s says what it asks", id, strings.Join(names, ", "), id)
	case run.Unreadable != "":
		return runs.Elicitation{}, fmt.Errorf("what %s asks cannot be read: %s", id, run.Unreadable)
	default:
		return runs.Elicitation{}, fmt.Errorf("%s (%s) waits for no answer; perdure runs show %s says what it does", id, run.Status, id)
	}
}

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "perdure"
}
