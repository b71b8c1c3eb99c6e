package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/visible"
)

type runsListCommand struct {
	temporalFlags `embed:""`

	Tool    string        `help:"Only runs of this composite tool."`
	Status  string        `help:"Only runs in this state: running, waiting, quarantined, completed, failed, cancelled, terminated, timed_out." enum:",running,waiting,quarantined,completed,failed,cancelled,terminated,timed_out" default:""`
	Caller  string        `help:"Only runs that this caller started."`
	Waiting waitingFlag   `help:"Only runs that wait for a person or, with a value, for this reason: approval, compensation, reconciliation, credentials, key, payload, parent, breaker, rate, concurrency." placeholder:"REASON"`
	Since   time.Duration `help:"Only runs that started within this time, e.g. 24h."`
	Called  bool          `help:"Include runs that were called by steps of other runs."`
	Query   string        `help:"Only runs that match this list filter of Temporal." placeholder:"FILTER"`
	Limit   int           `help:"Maximum number of runs to list." default:"50"`
}

func (runsListCommand) Help() string {
	return "Examples:\n\n    perdure runs list --waiting\n    perdure runs list --waiting rate\n    perdure runs list --tool prepare_review --since 24h -o json\n    perdure runs list --called\n    perdure runs list --status quarantined"
}

func (l runsListCommand) Run(ctx context.Context, c *console) error {
	rc, done, err := l.runsClient(ctx)
	if err != nil {
		return err
	}
	defer done()
	filter := l.Waiting.filter(runs.Filter{Tool: l.Tool, Status: runs.Status(l.Status), Caller: l.Caller, Called: l.Called, Query: l.Query, Limit: l.Limit})
	if l.Since > 0 {
		filter.Since = time.Now().Add(-l.Since)
	}
	list, err := rc.List(ctx, filter)
	if err != nil {
		return err
	}
	if l.Output == "json" {
		return c.printJSON(append([]runs.Run{}, list...))
	}
	if len(list) == 0 {
		c.notef("no runs")
		return nil
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tSTATUS\tSTARTED\tTOOK\tCALLER\tWAITS FOR, OR CAUSE")
	for _, run := range list {
		var waits []string
		for _, e := range run.Open() {
			waits = append(waits, string(e.StepPath))
		}
		if len(waits) == 0 && run.WaitingFor != "" {
			waits = []string{run.WaitingFor}
		}
		if run.Cause != "" {
			waits = []string{visible.Line(run.Cause)}
		}
		if run.Unreadable != "" {
			waits = append(waits, "(unreadable)")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", run.ID, run.Status, run.Started.Local().Format(time.DateTime),
			took(run.Started, run.Closed), run.Caller, strings.Join(waits, ", "))
	}
	return w.Flush()
}

// took formats a duration with as many digits as a person wants.
func took(started time.Time, ended *time.Time) string {
	end := time.Now()
	if ended != nil {
		end = *ended
	}
	d := max(end.Sub(started), 0)
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Second).String()
	}
}
