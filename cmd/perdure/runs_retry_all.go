package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/runs"
)

// A retryCount counts what has become of the runs of a bulk retry.
type retryCount struct {
	Found     int `json:"found"`
	Retried   int `json:"retried"`
	Unsettled int `json:"unsettled"` // must be reconciled first
	Changed   int `json:"changed"`   // repaired by somebody else meanwhile
	Failed    int `json:"failed"`
	Left      int `json:"left"` // not come to, as the command was interrupted
}

func (n retryCount) String() string {
	text := fmt.Sprintf("%d found, %d go on, %d must be told first what became of calls, %d went on already, %d could not be retried",
		n.Found, n.Retried, n.Unsettled, n.Changed, n.Failed)
	if n.Left > 0 {
		text += fmt.Sprintf(", %d left as they were", n.Left)
	}
	return text
}

// brief is what fits beside a bar.
func (n retryCount) brief() string {
	text := fmt.Sprintf("%d go on", n.Retried)
	if n.Unsettled > 0 {
		text += fmt.Sprintf(", %d unsettled", n.Unsettled)
	}
	if n.Failed > 0 {
		text += fmt.Sprintf(", %d failed", n.Failed)
	}
	return text
}

// retryAll retries all runs that match. It can be interrupted and repeated: a
// run that goes on, or has completed since, does not match any more.
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
		r.temporalFlags.tell(c)
	}
	if err := r.summary(c, count); err != nil {
		return err
	}
	if count.Left > 0 {
		c.notef("interrupted; go on with the rest by\n  perdure runs retry --query %s", shellQuoted(
			fmt.Sprintf("(%s) AND CloseTime < '%s'", r.Query, began.UTC().Format(time.RFC3339Nano))))
	}
	if count.Failed+count.Unsettled+count.Left > 0 {
		return errReported
	}
	return nil
}

// matching are the runs that have ended without completing and match.
func (r runsRetryCommand) matching(ctx context.Context, rc *runs.Client) ([]runs.Run, error) {
	var all []runs.Run
	for _, status := range []runs.Status{"failed", "timed_out", "cancelled"} {
		list, err := rc.List(ctx, runs.Filter{Status: status, Query: r.Query, Limit: r.Limit})
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all[:min(len(all), r.Limit)], nil
}

// retryNext retries one run of many and says what came of it; notable is what a
// person has to look at.
func (r runsRetryCommand) retryNext(ctx context.Context, rc *runs.Client, id runs.RunID, req runs.RetryRequest, count *retryCount) (said string, notable bool) {
	plan, err := rc.PlanRetry(ctx, id, req)
	if err == nil && len(plan.Unsettled) == 0 && !r.DryRun {
		err = rc.Retry(ctx, plan)
	}
	switch {
	case errors.Is(err, runs.ErrChanged), errors.Is(err, runs.ErrNotRetryable):
		count.Changed++
		return "goes on already", false
	case err != nil && ctx.Err() != nil:
		count.Left++
		return "interrupted: it may go on already; the next time shows it", true
	case err != nil:
		count.Failed++
		return err.Error(), true
	case len(plan.Unsettled) > 0:
		count.Unsettled++
		return "must be told first what became of " + string(plan.Unsettled[0].Path), true
	case r.DryRun:
		return fmt.Sprintf("would go on; %d steps at risk", len(plan.AtRisk())), true
	}
	count.Retried++
	return "goes on", false
}

func (r runsRetryCommand) summary(c *console, count retryCount) error {
	if r.Output == "json" {
		return c.printJSON(count)
	}
	_, err := fmt.Fprintln(c.out, count)
	return err
}

// shellQuoted makes one word of a shell's of text.
func shellQuoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// A progressBar tells how far a command has come that does one thing many times:
// on a terminal in a line that changes, below what is notable; elsewhere in a
// line for each.
type progressBar struct {
	console *console
	done    int
	total   int
}

const barWidth = 30 // characters

// step notes that one more is done, and in few words how all of it stands.
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

// end leaves the line.
func (b *progressBar) end() {
	if b.console.errTerminal && b.done > 0 {
		fmt.Fprintln(b.console.err)
	}
}
