package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/runs"
)

// A retryCount counts the runs of a bulk retry by outcome.
type retryCount struct {
	Found     int `json:"found"`
	Retried   int `json:"retried"`
	Unsettled int `json:"unsettled"` // a call has an unknown outcome
	Changed   int `json:"changed"`   // changed by somebody else meanwhile
	Failed    int `json:"failed"`
	Left      int `json:"left"` // not reached before the command was interrupted
}

func (n retryCount) String() string {
	text := fmt.Sprintf("%d found, %d resumed, %d have a call with unknown outcome, %d resumed already, %d could not be resumed",
		n.Found, n.Retried, n.Unsettled, n.Changed, n.Failed)
	if n.Left > 0 {
		text += fmt.Sprintf(", %d not reached", n.Left)
	}
	return text
}

// brief is String, short enough for a progress bar.
func (n retryCount) brief() string {
	text := fmt.Sprintf("%d resumed", n.Retried)
	if n.Unsettled > 0 {
		text += fmt.Sprintf(", %d unknown", n.Unsettled)
	}
	if n.Failed > 0 {
		text += fmt.Sprintf(", %d failed", n.Failed)
	}
	return text
}

// retryAll retries all runs that match. It can be interrupted and repeated: a resumed
// run no longer matches.
func (r runsRetryCommand) retryAll(ctx context.Context, c *console, rc *runs.Client, req runs.RetryRequest) error {
	began := time.Now()
	all, err := r.matching(ctx, rc)
	if err != nil {
		return err
	}
	count := retryCount{Found: len(all)}
	bar := &progressBar{console: c, total: len(all)}
	tick := time.NewTicker(time.Duration(float64(time.Second) / r.Rate))
	defer tick.Stop()
	for i, run := range all {
		if i > 0 {
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			count.Left += len(all) - i
			break
		}
		said, notable := r.retryNext(ctx, rc, run.ID, req, &count)
		bar.step(fmt.Sprintf("%s  %s", run.ID, said), notable, count.brief())
	}
	bar.end()
	if !r.DryRun {
		r.temporalFlags.noteTarget(c)
	}
	if err := r.summary(c, count); err != nil {
		return err
	}
	if count.Left > 0 {
		c.notef("interrupted; resume the rest with\n  perdure runs retry --query %s", shellQuoted(
			fmt.Sprintf("(%s) AND CloseTime < '%s'", r.Query, began.UTC().Format(time.RFC3339Nano))))
	}
	if count.Failed+count.Unsettled+count.Left > 0 {
		return errReported
	}
	return nil
}

// matching are the runs that match and ended without completing.
func (r runsRetryCommand) matching(ctx context.Context, rc *runs.Client) ([]runs.Run, error) {
	var all []runs.Run
	for _, status := range []runs.Status{runs.Failed, runs.TimedOut, runs.Cancelled, runs.Terminated} {
		list, err := rc.List(ctx, runs.Filter{Status: status, Query: r.Query, Limit: r.Limit})
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all[:min(len(all), r.Limit)], nil
}

// retryNext retries one run of many and describes the outcome; notable if a person
// has to look at it.
func (r runsRetryCommand) retryNext(ctx context.Context, rc *runs.Client, id runs.RunID, req runs.RetryRequest, count *retryCount) (said string, notable bool) {
	plan, err := rc.PlanRetry(ctx, id, req)
	if err == nil && len(plan.Unsettled) == 0 && !r.DryRun {
		err = rc.Retry(ctx, plan)
	}
	switch {
	case errors.Is(err, runs.ErrChanged), errors.Is(err, runs.ErrNotRetryable):
		count.Changed++
		return "already resumed", false
	case err != nil && ctx.Err() != nil:
		count.Left++
		return "interrupted: it may be resumed; repeat the command to see", true
	case err != nil:
		count.Failed++
		return err.Error(), true
	case len(plan.Unsettled) > 0:
		count.Unsettled++
		return "outcome unknown: " + string(plan.Unsettled[0].Path), true
	case r.DryRun:
		return fmt.Sprintf("would resume; %d steps at risk", len(plan.AtRisk())), true
	}
	count.Retried++
	return "resumed", false
}

func (r runsRetryCommand) summary(c *console, count retryCount) error {
	if r.Output == "json" {
		return c.printJSON(count)
	}
	_, err := fmt.Fprintln(c.out, count)
	return err
}

// shellQuoted quotes text as one word for a shell.
func shellQuoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// A progressBar shows the progress of a command over many items: on a terminal in one
// changing line, below notable items; elsewhere in a line for each item.
type progressBar struct {
	console *console
	done    int
	total   int
}

const barWidth = 30 // characters

// step counts one more item; all is the short summary so far.
func (b *progressBar) step(line string, notable bool, all string) {
	b.done++
	if !b.console.errTerminal {
		b.console.notef("%d/%d  %s", b.done, b.total, line)
		return
	}
	b.console.eraseLine()
	if notable {
		b.console.notef("%s", line)
	}
	full := barWidth * b.done / max(b.total, 1)
	fmt.Fprintf(b.console.err, "[%s%s] %d/%d  %s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), b.done, b.total, all)
}

// end moves to a new line.
func (b *progressBar) end() {
	if b.console.errTerminal && b.done > 0 {
		fmt.Fprintln(b.console.err)
	}
}
