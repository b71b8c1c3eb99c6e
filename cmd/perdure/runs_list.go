package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/runs"
)

type runsListCommand struct {
	temporalFlags `embed:""`

	Tool    string        `help:"Only runs of this composite tool."`
	Status  string        `help:"Only runs in this state: running, waiting, quarantined, completed, failed, cancelled, terminated, timed_out." enum:",running,waiting,quarantined,completed,failed,cancelled,terminated,timed_out" default:""`
	Caller  string        `help:"Only runs that this caller started."`
	Waiting waitingFlag   `help:"Only runs that wait for a person or, with a value, for this reason: approval, compensation, reconciliation, credentials, worker, key, payload, parent, backend, breaker, rate, concurrency." placeholder:"REASON"`
	Since   time.Duration `help:"Only runs that started within this time, e.g. 24h."`
	Called  bool          `help:"Include runs that were called by steps of other runs."`
	Query   string        `help:"Only runs that match this list filter of Temporal." placeholder:"FILTER"`
	GroupBy string        `help:"With error: group the runs that ended without completing by the cause, with the number of runs and one of them." enum:",error" default:"" placeholder:"error"`
	Limit   int           `help:"Maximum number of runs to list or to group. Default: 50; to group, 1000."`
}

func (runsListCommand) Help() string {
	return "Examples:\n\n    perdure runs list --waiting\n    perdure runs list --waiting rate\n    perdure runs list --tool prepare_review --since 24h -o json\n    perdure runs list --called\n    perdure runs list --status quarantined\n    perdure runs list --tool deploy --since 24h --group-by error"
}

// maxGrouped is the default of --limit with --group-by.
const maxGrouped = 1000

func (l runsListCommand) Run(ctx context.Context, c *console) error {
	rc, done, err := l.runsClient(ctx)
	if err != nil {
		return err
	}
	defer done()
	filter := l.Waiting.filter(runs.Filter{Tool: l.Tool, Status: runs.Status(l.Status), Caller: l.Caller, Called: l.Called, Query: l.Query, Limit: l.Limit, Errors: true})
	if l.Since > 0 {
		filter.Since = time.Now().Add(-l.Since)
	}
	if l.GroupBy != "" {
		return l.group(ctx, c, rc, filter)
	}
	list, err := rc.List(ctx, filter)
	if err != nil {
		return err
	}
	if l.Output == "json" {
		return c.printJSON(append([]runs.Run{}, list...))
	}
	if len(list) == 0 {
		return l.none(ctx, c, rc)
	}
	w := c.table(c.out)
	fmt.Fprintln(w, "RUN\tSTATUS\tSTARTED\tTOOK\tCALLER\tWAITS FOR, OR ERROR")
	for _, run := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", run.ID, run.Status, run.Started.Local().Format(time.DateTime),
			took(run.Started, run.Closed), run.Caller, whyNotDone(&run))
	}
	return w.Flush()
}

// none says that no run matches and, if the tool has no runs at all, which tool may be
// meant.
func (l runsListCommand) none(ctx context.Context, c *console, rc *runs.Client) error {
	if l.Tool == "" {
		c.notef("no runs")
		return nil
	}
	list, err := rc.List(ctx, runs.Filter{Called: true, Limit: maxGrouped})
	if err != nil {
		return err
	}
	var tools []string
	for _, run := range list {
		if run.Tool == l.Tool {
			c.notef("no such runs of %s", l.Tool)
			return nil
		}
		tools = append(tools, run.Tool)
	}
	c.notef("no runs of %s%s", l.Tool, template.DidYouMean(l.Tool, tools))
	return nil
}

// maxErrorShown bounds the message of an error in a list, in characters.
const maxErrorShown = 100

// whyNotDone is what a run waits for, or the error with which it ended.
func whyNotDone(run *runs.Run) string {
	var waits []string
	for _, e := range run.Open() {
		waits = append(waits, string(e.StepPath))
	}
	if len(waits) == 0 && run.WaitingFor != "" {
		waits = []string{run.WaitingFor}
	}
	if run.Error != nil {
		waits = []string{shorten(view.Line(run.Error.Message), maxErrorShown)}
	}
	if run.Unreadable != "" {
		waits = append(waits, "(unreadable)")
	}
	return strings.Join(waits, ", ")
}

// shorten cuts text to a number of characters.
func shorten(text string, most int) string {
	if letters := []rune(text); len(letters) > most {
		return string(letters[:most-1]) + "…"
	}
	return text
}

// group prints the causes for which runs ended without completing.
func (l runsListCommand) group(ctx context.Context, c *console, rc *runs.Client, filter runs.Filter) error {
	filter.EndedEarly = true
	if filter.Limit == 0 {
		filter.Limit = maxGrouped
	}
	list, err := rc.List(ctx, filter)
	if err != nil {
		return err
	}
	groups := runs.GroupByCause(list)
	if l.Output == "json" {
		return c.printJSON(groups)
	}
	if len(list) >= filter.Limit {
		c.notef("perdure: only the %d runs that started last are counted; count more with --limit", filter.Limit)
	}
	if len(groups) == 0 {
		c.notef("no runs that ended without completing")
		return nil
	}
	w := c.table(c.out)
	fmt.Fprintln(w, "RUNS\tCODE\tSTEP\tEXAMPLE\tERROR")
	for _, g := range groups {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", g.Count, g.Code, g.Step, g.Example, shorten(view.Line(g.Message), maxErrorShown))
	}
	return w.Flush()
}

// took is how long something has taken, until now if it has not ended.
func took(started time.Time, ended *time.Time) string {
	end := time.Now()
	if ended != nil {
		end = *ended
	}
	return shortDuration(end.Sub(started))
}
