package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/perdure/perdure/internal/runs"
)

type runsLogsCommand struct {
	temporalFlags `embed:""`

	ID     string `arg:"" help:"Run ID; any unique part of it works."`
	Follow bool   `short:"f" help:"Follow the log until the run has ended."`
}

func (runsLogsCommand) Help() string {
	return `Prints a line for each start, retry and end of a call, each elicitation and who
answered it, output of scripts, resumptions and requests to cancel, oldest first. With
-o json, each line is a JSON object. Examples:

    perdure runs logs prepare_review/k3v9a2m4qx
    perdure runs logs k3v9a2 --follow
    perdure runs logs k3v9a2 -o json | jq -r 'select(.kind == "question_closed") | .by'`
}

func (l runsLogsCommand) Run(ctx context.Context, c *console) error {
	return l.onRun(ctx, l.ID, func(rc *runs.Client, id runs.RunID) error {
		for entry, err := range rc.Log(ctx, id, l.Follow) {
			if err != nil {
				return err
			}
			if err := l.print(c, entry); err != nil {
				return err
			}
		}
		return nil
	})
}

func (l runsLogsCommand) print(c *console, e runs.LogEntry) error {
	if l.Output == "json" {
		line, err := json.Marshal(e)
		if err == nil {
			_, err = fmt.Fprintf(c.exact, "%s\n", line)
		}
		return err
	}
	text := strings.Join(strings.Fields(e.Text), " ")
	if e.Step != "" {
		text = string(e.Step) + ": " + text
	}
	_, err := fmt.Fprintf(c.out, "%s  %s\n", e.At.Local().Format("2006-01-02 15:04:05.000"), c.outStyle(logStyle(e), text))
	return err
}

// logStyle highlights errors and what waits for people.
func logStyle(e runs.LogEntry) style {
	switch e.Kind {
	case runs.LogEnded, runs.LogCalled:
		return statusStyle(e.Status)
	case runs.LogAsks, runs.LogNotAnswered, runs.LogUntaken, runs.LogAttempt, runs.LogCancel:
		return yellow
	}
	return 0
}
