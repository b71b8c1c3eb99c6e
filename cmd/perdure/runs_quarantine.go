package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/internal/runs"
)

// operateFlags name a quarantined run, with the reason and the person who decides.
type operateFlags struct {
	endFlags  `embed:""`
	signFlags `embed:""`

	By string `help:"Name to record as the person who decides. Default: your user name."`
}

// operate releases or ends a quarantined run.
func (o operateFlags) operate(ctx context.Context, c *console, by func(*runs.Client, context.Context, runs.RunID, string, string) error, done, message string) error {
	keys, err := o.signingKeys(o.temporalFlags)
	if err != nil {
		return err
	}
	return o.endSigned(ctx, c, keys, func(rc *runs.Client, ctx context.Context, id runs.RunID, reason string) error {
		err := by(rc, ctx, id, cmp.Or(o.By, userName()), reason)
		if errors.Is(err, runs.ErrNotQuarantined) {
			return fmt.Errorf("%s is not quarantined; see perdure runs list --status quarantined", id)
		}
		return err
	}, done, message)
}

type runsReleaseCommand struct {
	operateFlags `embed:""`
}

func (runsReleaseCommand) Help() string {
	return `A run is quarantined if the worker that executed it died, and then another worker that
executed nothing else. "perdure runs show" lists when and where. Release the run
after fixing the cause, for example with another build or more memory. A released
run is executed alone: if it takes a worker down again, it is quarantined again.
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
	return `The run fails with the error code quarantined. It is not executed for that: calls
under way are not stopped, and nothing is undone. "perdure runs resume" can resume
it, with another definition if the definition is the cause. Example:

    perdure runs fail prepare_review/k3v9a2m4qx --reason 'the report is too large'`
}

// failWait is how long a worker may take to end a run.
const failWait = 30 * time.Second

func (f runsFailCommand) Run(ctx context.Context, c *console) error {
	return f.operate(ctx, c, func(rc *runs.Client, ctx context.Context, id runs.RunID, by, reason string) error {
		ctx, cancel := context.WithTimeout(ctx, failWait)
		defer cancel()
		return rc.FailQuarantined(ctx, id, by, reason)
	}, "failed", "failed")
}
