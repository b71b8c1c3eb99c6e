package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/secrets"
)

// endFlags name the run to end, and the reason.
type endFlags struct {
	temporalFlags `embed:""`

	ID     string `arg:"" help:"Run ID; any unique part of it works."`
	Reason string `help:"Reason to record with the run."`
}

// end ends a run with by. done is the member of the JSON output that confirms it, message
// the text for people.
func (k endFlags) end(ctx context.Context, c *console, by func(*runs.Client, context.Context, runs.RunID, string) error, done, message string) error {
	return k.endSigned(ctx, c, nil, by, done, message)
}

// endSigned is end for a way that runs must have proof of.
func (k endFlags) endSigned(ctx context.Context, c *console, keys *secrets.Keys, by func(*runs.Client, context.Context, runs.RunID, string) error, done, message string) error {
	rc, hangUp, err := k.signingClient(ctx, keys)
	if err != nil {
		return err
	}
	defer hangUp()
	id, err := findRun(ctx, rc, k.ID, runs.Filter{})
	if err != nil {
		return err
	}
	run, err := rc.Get(ctx, id)
	if err != nil {
		return err
	}
	if err := by(rc, ctx, id, k.Reason); err != nil { // also for ended runs: runs that it called may be under way
		return err
	}
	if run.Closed != nil {
		return fmt.Errorf("%s has already ended (%s)", id, run.Status)
	}
	k.noteTarget(c)
	if k.Output == "json" {
		return c.printJSON(map[string]any{"runId": id, done: true})
	}
	_, err = fmt.Fprintf(c.out, "%s: %s\n", id, message)
	return err
}

type runsCancelCommand struct {
	temporalFlags `embed:""`

	ID     string  `arg:"" optional:"" help:"Run ID; any unique part of it works."`
	Reason string  `help:"Reason to record with the run."`
	Query  string  `help:"Cancel all open runs that match this list filter of Temporal, such as PerdureTool = 'deploy'." placeholder:"FILTER"`
	Rate   float64 `help:"With --query: maximum number of runs per second." default:"5"`
	Limit  int     `help:"With --query: maximum number of runs." default:"1000"`
	Yes    bool    `short:"y" help:"With --query: do not ask for confirmation."`
}

func (runsCancelCommand) Help() string {
	return `Calls under way are cancelled, completed steps with a compensation are undone, and the
run ends as cancelled. "perdure runs resume" can resume it. --query shows the runs by
tool and status, and wants a yes. Examples:

    perdure runs cancel prepare_review/k3v9a2m4qx --reason 'wrong branch'
    perdure runs cancel --query "PerdureTool = 'order' AND StartTime > '2026-11-25T14:00:00Z'"`
}

func (k runsCancelCommand) Run(ctx context.Context, c *console) error {
	if (k.ID == "") == (k.Query == "") {
		return usagef("name a run, or use --query for many runs")
	}
	if err := checkBulk(k.Rate, k.Limit); err != nil {
		return err
	}
	if k.Query != "" {
		return k.all(ctx, c)
	}
	return endFlags{k.temporalFlags, k.ID, k.Reason}.end(ctx, c, func(rc *runs.Client, ctx context.Context, id runs.RunID, reason string) error {
		if err := rc.Cancel(ctx, id, reason); err != nil {
			return err
		}
		if run, err := rc.Get(ctx, id); err == nil && run.Status == runs.Quarantined {
			c.notef("perdure: the run is quarantined, and is cancelled when it is released; to end it now, use perdure runs fail or perdure runs terminate")
		}
		return nil
	}, "cancelled", "cancellation requested")
}

// A bulkCancelled is what a bulk cancellation has come to.
type bulkCancelled struct {
	Found     int `json:"found"`
	Cancelled int `json:"cancelled"` // or being cancelled
	Failed    int `json:"failed"`
	Left      int `json:"left"` // not reached before the command was interrupted
}

func (n bulkCancelled) String() string {
	text := fmt.Sprintf("%d found, cancellation of %d requested, %d failed", n.Found, n.Cancelled, n.Failed)
	if n.Left > 0 {
		text += fmt.Sprintf(", %d not reached; repeat the command for them", n.Left)
	}
	return text
}

// all cancels the open runs that match --query. It can be interrupted and repeated: a
// run that has ended no longer matches.
func (k runsCancelCommand) all(ctx context.Context, c *console) error {
	rc, hangUp, err := k.signingClient(ctx, nil)
	if err != nil {
		return err
	}
	defer hangUp()
	list, err := rc.List(ctx, runs.Filter{Query: "CloseTime IS NULL AND (" + k.Query + ")", Limit: k.Limit + 1})
	if err != nil {
		return err
	}
	if len(list) > k.Limit {
		list = list[:k.Limit]
		noteOthers(c, k.Limit, k.Query, list)
	}
	n := bulkCancelled{Found: len(list)}
	if n.Found > 0 {
		showRunsByTool(c, list)
		ok, err := confirmed(ctx, c, k.Yes, fmt.Sprintf("Cancel %d runs? [y/N] ", n.Found))
		if err != nil || !ok {
			return err
		}
	}
	n.Left, _ = paced(ctx, c, k.Rate, list, func(run runs.Run) (said string, failed bool, all string, _ error) {
		said = "cancellation requested"
		if err := rc.Cancel(ctx, run.ID, k.Reason); err != nil {
			n.Failed++
			said, failed = err.Error(), true
		} else {
			n.Cancelled++
		}
		return fmt.Sprintf("%s  %s", run.ID, said), failed, fmt.Sprintf("%d cancelled", n.Cancelled), nil
	})
	k.noteTarget(c)
	return finishBulk(c, k.Output, n, n.Failed+n.Left > 0)
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
