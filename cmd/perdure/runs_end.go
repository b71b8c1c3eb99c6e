package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/secrets"
)

// endFlags name the run to end or to release, or many, and the reason.
type endFlags struct {
	temporalFlags `embed:""`

	ID     string  `arg:"" optional:"" help:"Run ID; any unique part of it works."`
	Reason string  `help:"Reason to record with the run."`
	Query  string  `help:"${ends} that match this list filter of Temporal, such as PerdureTool = 'deploy'." placeholder:"FILTER"`
	Rate   float64 `help:"With --query: maximum number of runs per second." default:"5"`
	Limit  int     `help:"With --query: maximum number of runs." default:"1000"`
	Yes    bool    `short:"y" help:"With --query: do not ask for confirmation."`
}

// An ending is one way to end runs, or to release them.
type ending struct {
	verb    string // for the question before many runs
	done    string // the member of the JSON output that confirms it
	message string // that confirms it to people
	among   func(query string) runs.Filter
	keys    *secrets.Keys // for a way that runs must have proof of
	by      func(rc *runs.Client, ctx context.Context, id runs.RunID, reason string) error
}

// openRuns selects the runs that have not ended, among those of a query.
func openRuns(query string) runs.Filter {
	return runs.Filter{Query: "CloseTime IS NULL AND (" + query + ")"}
}

// quarantinedRuns selects the runs in quarantine, among those of a query.
func quarantinedRuns(query string) runs.Filter {
	return runs.Filter{Status: runs.Quarantined, Query: query}
}

func (k endFlags) end(ctx context.Context, c *console, way ending) error {
	if (k.ID == "") == (k.Query == "") {
		return usagef("name a run, or use --query for many runs")
	}
	if err := checkBulk(k.Rate, k.Limit); err != nil {
		return err
	}
	rc, hangUp, err := k.signingClient(ctx, way.keys)
	if err != nil {
		return err
	}
	defer hangUp()
	if k.Query != "" {
		return k.endAll(ctx, c, rc, way)
	}
	return k.endOne(ctx, c, rc, way)
}

func (k endFlags) endOne(ctx context.Context, c *console, rc *runs.Client, way ending) error {
	id, err := findRun(ctx, rc, k.ID, runs.Filter{})
	if err != nil {
		return err
	}
	run, err := rc.Get(ctx, id)
	if err != nil {
		return err
	}
	err = way.by(rc, ctx, id, k.Reason) // also for ended runs: runs that it called may be under way
	if errors.Is(err, runs.ErrNotQuarantined) {
		return fmt.Errorf("%s is not quarantined; see perdure runs list --status quarantined", id)
	}
	if err != nil {
		return err
	}
	if run.Closed != nil {
		return fmt.Errorf("%s has already ended (%s)", id, run.Status)
	}
	k.noteTarget(c)
	if k.Output == "json" {
		return c.printJSON(map[string]any{"runId": id, way.done: true})
	}
	_, err = fmt.Fprintf(c.out, "%s: %s\n", id, way.message)
	return err
}

// A bulkEnded is what the ending of many runs has come to.
type bulkEnded struct {
	way     ending
	found   int
	ended   int // or about to be
	changed int // by somebody else, since they were listed
	failed  int
	left    int    // not reached before the command was interrupted
	others  string // the query for those beyond --limit; "" = there are none
}

func (n bulkEnded) String() string {
	text := fmt.Sprintf("%d found, %s: %d, errors: %d", n.found, n.way.message, n.ended, n.failed)
	if n.changed > 0 {
		text += fmt.Sprintf(", changed meanwhile: %d", n.changed)
	}
	if n.left > 0 {
		text += fmt.Sprintf(", not reached: %d; repeat the command for them", n.left)
	}
	return text
}

// MarshalJSON names what was done as the output for one run does.
func (n bulkEnded) MarshalJSON() ([]byte, error) {
	members := map[string]any{"found": n.found, n.way.done: n.ended, "changed": n.changed, "failed": n.failed, "left": n.left}
	if n.others != "" {
		members["othersQuery"] = n.others
	}
	return json.Marshal(members)
}

// endAll ends the runs that match --query. It can be interrupted and repeated: a run that
// has ended, or was released, no longer matches.
func (k endFlags) endAll(ctx context.Context, c *console, rc *runs.Client, way ending) error {
	list, others, err := matching(ctx, c, rc, way.among(k.Query), k.Query, k.Limit)
	if err != nil {
		return err
	}
	n := bulkEnded{way: way, found: len(list), others: others}
	if n.found > 0 {
		showRunsByTool(c, list)
		ok, err := confirmed(ctx, c, k.Yes, fmt.Sprintf("%s %d runs? [y/N] ", way.verb, n.found))
		if err != nil || !ok {
			return err
		}
	}
	n.left, _ = paced(ctx, c, k.Rate, list, func(run runs.Run) (string, bool, string, error) {
		said := n.count(way.by(rc, ctx, run.ID, k.Reason))
		return fmt.Sprintf("%s  %s", run.ID, said), n.failed > 0, fmt.Sprintf("%d %s", n.ended, way.message), nil
	})
	k.noteTarget(c)
	return finishBulk(c, k.Output, n, n.failed+n.left > 0)
}

// count counts a run by what has become of it, and says it.
func (n *bulkEnded) count(err error) (said string) {
	switch {
	case err == nil:
		n.ended++
		return n.way.message
	case errors.Is(err, runs.ErrNotQuarantined):
		n.changed++
		return "no longer quarantined"
	}
	n.failed++
	return err.Error()
}

// showRunsByTool counts runs by tool and status, with an example of each.
func showRunsByTool(c *console, list []runs.Run) {
	count, example := map[string]int{}, map[string]runs.RunID{}
	for _, run := range list {
		kind := run.Tool + " (" + string(run.Status) + ")"
		count[kind]++
		example[kind] = run.ID
	}
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		c.notef("%d of %s, such as %s", count[kind], kind, example[kind])
	}
}
