package main

import (
	"context"

	"github.com/perdure/perdure/internal/runs"
)

type runsTerminateCommand struct {
	endFlags `embed:"" set:"ends=Terminate all open runs"`
}

func (runsTerminateCommand) Help() string {
	return `For a run that cannot be cancelled. Calls under way are not cancelled, and completed
steps are not undone. "perdure runs resume" can resume it. --query shows the runs by
tool and status, and wants a yes. Example:

    perdure runs terminate prepare_review/k3v9a2m4qx --reason 'stuck'`
}

func (k runsTerminateCommand) Run(ctx context.Context, c *console) error {
	return k.end(ctx, c, ending{verb: "Terminate", done: "terminated", message: "terminated", among: openRuns, by: (*runs.Client).Terminate})
}
