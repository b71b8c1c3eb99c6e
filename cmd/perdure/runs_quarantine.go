package main

import (
	"cmp"
	"context"
	"time"

	"github.com/perdure/perdure/internal/runs"
)

// operateFlags name quarantined runs, with the reason and the person who decides.
type operateFlags struct {
	endFlags  `embed:""`
	signFlags `embed:""`

	By string `help:"Name to record as the person who decides. Default: your user name."`
}

// operate releases or ends quarantined runs by a way that records the person.
func (o operateFlags) operate(ctx context.Context, c *console, way ending, by func(*runs.Client, context.Context, runs.RunID, string, string) error) (err error) {
	if way.keys, err = o.signingKeys(o.temporalFlags); err != nil {
		return err
	}
	way.among = quarantinedRuns
	way.by = func(rc *runs.Client, ctx context.Context, id runs.RunID, reason string) error {
		return by(rc, ctx, id, cmp.Or(o.By, userName()), reason)
	}
	return o.end(ctx, c, way)
}

type runsReleaseCommand struct {
	operateFlags `embed:"" set:"ends=Release all quarantined runs"`
}

func (runsReleaseCommand) Help() string {
	return `A run is quarantined if the worker that executed it died, and then another worker that
executed nothing else. "perdure runs show" lists when and where. Release the run
after fixing the cause, for example with another build or more memory. A released
run is executed alone: if it takes a worker down again, it is quarantined again. --query
shows the runs by tool, and wants a yes. Examples:

    perdure runs release prepare_review/k3v9a2m4qx --reason 'workers have 4 GB now'
    perdure runs release --query "PerdureTool = 'order'" --reason 'the bad build is gone'`
}

func (r runsReleaseCommand) Run(ctx context.Context, c *console) error {
	return r.operate(ctx, c, ending{verb: "Release", done: "released", message: "released"}, (*runs.Client).Release)
}

type runsFailCommand struct {
	operateFlags `embed:"" set:"ends=Fail all quarantined runs"`
}

func (runsFailCommand) Help() string {
	return `The run fails with the error code quarantined. It is not executed for that: calls
under way are not stopped, and nothing is undone. "perdure runs resume" can resume
it, with another definition if the definition is the cause. --query shows the runs by
tool, and wants a yes. Example:

    perdure runs fail prepare_review/k3v9a2m4qx --reason 'the report is too large'`
}

// failWait is how long a worker may take to end a run.
const failWait = 30 * time.Second

func (f runsFailCommand) Run(ctx context.Context, c *console) error {
	return f.operate(ctx, c, ending{verb: "Fail", done: "failed", message: "failed"}, func(rc *runs.Client, ctx context.Context, id runs.RunID, by, reason string) error {
		ctx, cancel := context.WithTimeout(ctx, failWait)
		defer cancel()
		return rc.FailQuarantined(ctx, id, by, reason)
	})
}
