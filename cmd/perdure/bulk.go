package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/runs"
)

// checkBulk checks --rate and --limit.
func checkBulk(rate float64, limit int) error {
	switch {
	case !(rate >= 0.001 && rate <= 1000): // NaN is neither
		return usagef("--rate must be from 0.001 to 1000")
	case limit < 1:
		return usagef("--limit must be at least 1")
	}
	return nil
}

// matching are the open runs that a bulk command is for: those of a filter, limit of them
// at most. Where there are more, it notes with which --query a repetition reaches these,
// however many of the list stay open, and returns it as others.
func matching(ctx context.Context, c *console, rc *runs.Client, f runs.Filter, query string, limit int) (list []runs.Run, others string, err error) {
	f.Limit = limit + 1
	list, err = rc.List(ctx, f)
	if err != nil || len(list) <= limit {
		return list, "", err
	}
	list, others = cut(list, limit, query)
	c.notef("more runs match than --limit %d; repeat the command for the others then with\n  --query %s", limit, view.ShellWord(others))
	return list, others, nil
}

// cut takes limit of more runs, and makes the query for the others. The index lists those
// that began last first, by the execution with which a run has continued as new.
func cut(list []runs.Run, limit int, query string) (kept []runs.Run, others string) {
	slices.SortStableFunc(list, func(a, b runs.Run) int { return b.Began.Compare(a.Began) })
	return list[:limit], fmt.Sprintf("(%s) AND StartTime <= '%s'", query, list[limit].Began.UTC().Format(time.RFC3339Nano))
}

// finishBulk prints what a command over many items has come to, as text or JSON. It is an
// error if a person has to look at something.
func finishBulk(c *console, output string, came fmt.Stringer, notable bool) error {
	if output == "json" {
		if err := c.printJSON(came); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintln(c.out, came); err != nil {
		return err
	}
	if notable {
		return errReported
	}
	return nil
}

// paced does something with each item, at most rate a second, until ctx ends, and shows
// the progress. What it does describes the item, whether a person has to look at it, and
// all so far; an error ends it. left is how many items were not reached.
func paced[T any](ctx context.Context, c *console, rate float64, items []T, do func(T) (line string, notable bool, all string, err error)) (left int, err error) {
	bar := &progressBar{console: c, total: len(items)}
	defer bar.end()
	tick := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer tick.Stop()
	for i, item := range items {
		if i > 0 {
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return len(items) - i, nil
		}
		line, notable, all, err := do(item)
		if err != nil {
			return 0, err
		}
		bar.step(line, notable, all)
	}
	return 0, nil
}

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
