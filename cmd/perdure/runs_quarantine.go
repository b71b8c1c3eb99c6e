package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/internal/runs"
)

// operateFlags say what becomes of a quarantined run, and why.
type operateFlags struct {
	endFlags  `embed:""`
	signFlags `embed:""`

	By string `help:"Who decides. Default: the user of this machine."`
}

// operate does something with a quarantined run.
func (o operateFlags) operate(ctx context.Context, c *console, by func(*runs.Client, context.Context, runs.RunID, string, string) error, done, told string) error {
	keys, err := o.signingKeys(o.temporalFlags)
	if err != nil {
		return err
	}
	return o.endSigned(ctx, c, keys, func(rc *runs.Client, ctx context.Context, id runs.RunID, reason string) error {
		err := by(rc, ctx, id, cmp.Or(o.By, userName()), reason)
		if errors.Is(err, runs.ErrNotQuarantined) {
			return fmt.Errorf("%s is not quarantined; perdure runs list --status quarantined lists those that are", id)
		}
		return err
	}, done, told)
}

type runsReleaseCommand struct {
	operateFlags `embed:""`
}

func (runsReleaseCommand) Help() string {
	return `A run is quarantined when its workflow task was lost with the worker that executed
it, and again with one that executed nothing else: executing it takes a worker
down. perdure runs show says when and where. Release it once what killed the
workers is mended, by another build or by more memory. It is executed alone: if
it takes a worker down again, it costs that one worker, and is quarantined again.
Example:

    perdure runs release prepare_review/k3v9a2m4qx --reason 'workers have 4 GB now'`
}

func (r runsReleaseCommand) Run(ctx context.Context, c *console) error {
	return r.operate(ctx, c, (*runs.Client).Release, "released", "released")
}

type runsFailCommand struct {
	operateFlags `embed:""`
}

func (runsFailCommand) Help() string {
	return `Callers of the run get the error quarantined. A worker ends the run without
executing it: calls under way are not stopped, and nothing is undone. perdure runs
retry can resume it, with another definition if that is the cause. Example:

    perdure runs fail prepare_review/k3v9a2m4qx --reason 'the report is too large'`
}

// failWait is how long a worker has to end a run.
const failWait = 30 * time.Second

func (f runsFailCommand) Run(ctx context.Context, c *console) error {
	return f.operate(ctx, c, func(rc *runs.Client, ctx context.Context, id runs.RunID, by, reason string) error {
		ctx, cancel := context.WithTimeout(ctx, failWait)
		defer cancel()
		return rc.FailQuarantined(ctx, id, by, reason)
	}, "failed", "failed")
}
