package main

import (
	"context"
	"fmt"

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
	endFlags `embed:""`
}

func (runsCancelCommand) Help() string {
	return `Calls under way are cancelled, completed steps with a compensation are undone, and the
run ends as cancelled. "perdure runs resume" can resume it. Example:

    perdure runs cancel prepare_review/k3v9a2m4qx --reason 'wrong branch'`
}

func (k runsCancelCommand) Run(ctx context.Context, c *console) error {
	return k.end(ctx, c, func(rc *runs.Client, ctx context.Context, id runs.RunID, reason string) error {
		if err := rc.Cancel(ctx, id, reason); err != nil {
			return err
		}
		if run, err := rc.Get(ctx, id); err == nil && run.Status == runs.Quarantined {
			c.notef("perdure: the run is quarantined, and is cancelled when it is released; to end it now, use perdure runs fail or perdure runs terminate")
		}
		return nil
	}, "cancelled", "cancellation requested")
}
