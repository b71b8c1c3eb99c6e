package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/perdure/perdure/internal/runs"
)

type runsResultCommand struct {
	temporalFlags `embed:""`

	ID string `arg:"" help:"Run ID; any unique part of it works."`
}

func (runsResultCommand) Help() string {
	return "The status is 1 if the run failed or has not finished. Example:\n\n    perdure runs result prepare_review/k3v9a2m4qx"
}

func (r runsResultCommand) Run(ctx context.Context, c *console) error {
	return r.onRun(ctx, r.ID, func(rc *runs.Client, id runs.RunID) error {
		outcome, err := rc.Result(ctx, id)
		if errors.Is(err, runs.ErrNotFinished) {
			return fmt.Errorf("%s has not finished; see perdure runs show %s", id, id)
		} else if err != nil {
			return err
		}
		return r.print(c, id, runs.Explained(outcome, id))
	})
}

func (r runsResultCommand) print(c *console, id runs.RunID, outcome *runs.Outcome) error {
	if r.Output == "json" {
		if err := c.printJSON(outcome); err != nil {
			return err
		}
	} else if outcome.Failure == nil {
		return c.printJSON(orNull(outcome.Output))
	} else {
		c.notef("%s %s: %s", id, outcome.Status, outcome.Failure.Error.Message)
		if hint := outcome.Failure.Error.Hint; hint != "" {
			c.notef("%s", hint)
		}
		if trace := outcome.Failure.Error.Backtrace; trace != "" {
			c.notef("%s", strings.TrimSpace(trace))
		}
	}
	if outcome.Failure != nil {
		return errReported
	}
	return nil
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}
