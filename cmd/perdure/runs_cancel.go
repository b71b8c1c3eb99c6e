package main

import (
	"context"

	"github.com/perdure/perdure/internal/runs"
)

type runsCancelCommand struct {
	endFlags `embed:"" set:"ends=Cancel all open runs"`
}

func (runsCancelCommand) Help() string {
	return `Calls under way are cancelled, completed steps with a compensation are undone, and the
run ends as cancelled. "perdure runs resume" can resume it. --query shows the runs by
tool and status, and wants a yes. Examples:

    perdure runs cancel prepare_review/k3v9a2m4qx --reason 'wrong branch'
    perdure runs cancel --query "PerdureTool = 'order' AND StartTime > '2026-11-25T14:00:00Z'"`
}

func (k runsCancelCommand) Run(ctx context.Context, c *console) error {
	return k.end(ctx, c, ending{verb: "Cancel", done: "cancelled", message: "cancellation requested", among: openRuns, by: func(rc *runs.Client, ctx context.Context, id runs.RunID, reason string) error {
		if err := rc.Cancel(ctx, id, reason); err != nil {
			return err
		}
		if run, err := rc.Get(ctx, id); k.Query == "" && err == nil && run.Status == runs.Quarantined {
			c.notef("perdure: the run is quarantined, and is cancelled when it is released; to end it now, use perdure runs fail or perdure runs terminate")
		}
		return nil
	}})
}
