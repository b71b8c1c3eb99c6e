package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/runs/history"
)

// A bulkResume resumes many runs: it shows what it would do with them, by groups, and
// does it after a yes where that changes something or may repeat an effect.
type bulkResume struct {
	runsResumeCommand
	console     *console
	resumptions runs.Resumptions
	request     history.ResumeRequest
	preview     *runs.Preview
	began       time.Time
}

// A bulkReport is what a bulk resumption has come to, or would come to.
type bulkReport struct {
	Found          int `json:"found"`
	Resumable      int `json:"resumable"` // Repeats included
	Repeats        int `json:"repeats"`   // an unsafe call may take effect twice
	OutcomeUnknown int `json:"unknown"`   // a call has an unknown outcome
	Resumed        int `json:"resumed"`
	Changed        int `json:"changed"` // by somebody else, meanwhile or before
	Failed         int `json:"failed"`  // could not be resumed
	Left           int `json:"left"`    // not reached before the command was interrupted
}

func (n bulkReport) String() string {
	return n.text(fmt.Sprintf("%d resumed", n.Resumed))
}

// dryRun is String of what would be done.
func (n bulkReport) dryRun() string {
	would := fmt.Sprintf("%d would resume", n.Resumable)
	if n.Repeats > 0 {
		would += fmt.Sprintf(" (%d of them may repeat an effect)", n.Repeats)
	}
	return n.text(would)
}

func (n bulkReport) text(resumed string) string {
	text := fmt.Sprintf("%d found, %s, %d have a call with unknown outcome, %d resumed already, %d could not be resumed",
		n.Found, resumed, n.OutcomeUnknown, n.Changed, n.Failed)
	if n.Left > 0 {
		text += fmt.Sprintf(", %d not reached", n.Left)
	}
	return text
}

// brief is String, short enough for a progress bar.
func (n bulkReport) brief() string {
	text := fmt.Sprintf("%d resumed", n.Resumed)
	if n.Failed > 0 {
		text += fmt.Sprintf(", %d failed", n.Failed)
	}
	return text
}

// run resumes all runs that match. It can be interrupted and repeated: a resumed run no
// longer matches.
func (b *bulkResume) run(ctx context.Context, rc *runs.Client) error {
	b.began = time.Now()
	list, more, err := b.matching(ctx, rc)
	if err != nil {
		return err
	}
	if err := b.readDefinition(ctx, list); err != nil {
		return err
	}
	ids := make([]runs.RunID, len(list))
	for i, run := range list {
		ids[i] = run.ID
	}
	if b.preview, err = b.resumptions.Preview(ctx, ids, b.request); err != nil {
		return fmt.Errorf("nothing was done: %w", err)
	}
	if err := b.show(); err != nil {
		return err
	}
	if more {
		b.console.notef("more runs match than --limit %d; resume the others then with\n  %s", b.Limit, b.rest(earliest(list)))
	}
	report := bulkReport{
		Found: len(list), Repeats: b.preview.Count(runs.Repeats), OutcomeUnknown: b.preview.Count(runs.OutcomeUnknown),
		Changed: b.preview.Count(runs.Resumed), Failed: b.preview.Count(runs.Impossible),
	}
	report.Resumable = report.Repeats + b.preview.Count(runs.Resumes)
	if b.DryRun {
		return b.finish(report)
	}
	if (b.request.ChangesRun() || report.Repeats > 0) && report.Resumable > 0 {
		ok, err := confirmed(ctx, b.console, b.Yes, fmt.Sprintf("Resume %d runs? [y/N] ", report.Resumable))
		if err != nil || !ok {
			return err
		}
	}
	b.execute(ctx, &report)
	b.temporalFlags.noteTarget(b.console)
	return b.finish(report)
}

// matching are the runs that match and ended without completing; more = there are more
// than --limit.
func (b *bulkResume) matching(ctx context.Context, rc *runs.Client) (list []runs.Run, more bool, err error) {
	list, err = rc.List(ctx, runs.Filter{EndedEarly: true, Query: b.Query, Limit: b.Limit + 1})
	return list[:min(len(list), b.Limit)], len(list) > b.Limit, err
}

// readDefinition reads --definition, which is of one tool: so must be the runs.
func (b *bulkResume) readDefinition(ctx context.Context, list []runs.Run) (err error) {
	if b.Definition == "" || len(list) == 0 {
		return nil
	}
	tools := map[string]bool{}
	for _, run := range list {
		tools[run.Tool] = true
	}
	if len(tools) > 1 {
		return usagef("the runs are of several tools (%s); select those of one with AND PerdureTool = 'NAME'", strings.Join(slices.Sorted(maps.Keys(tools)), ", "))
	}
	b.request.Definition, err = b.definition(ctx, b.console, list[0].Tool)
	return err
}

// A groupedRun is a run of a preview, and the group that it is in.
type groupedRun struct {
	group runs.PreviewGroup
	runs.PreviewRun
}

// execute resumes the runs that can be, at --rate.
func (b *bulkResume) execute(ctx context.Context, report *bulkReport) {
	var all []groupedRun
	for _, group := range b.preview.Groups {
		if group.Outlook != runs.Resumes && group.Outlook != runs.Repeats {
			continue
		}
		for _, run := range group.Runs {
			all = append(all, groupedRun{group, run})
		}
	}
	report.Left, _ = paced(ctx, b.console, b.Rate, all, func(run groupedRun) (string, bool, string, error) {
		said, notable := b.next(ctx, run.group, run.PreviewRun, report)
		return fmt.Sprintf("%s  %s", run.ID, said), notable, report.brief(), nil
	})
}

// next resumes one run and describes the outcome; notable if a person has to look at it.
func (b *bulkResume) next(ctx context.Context, group runs.PreviewGroup, run runs.PreviewRun, report *bulkReport) (said string, notable bool) {
	err := b.resumptions.ExecuteAs(ctx, group, run, b.request)
	switch {
	case errors.Is(err, runs.ErrChanged):
		report.Changed++
		return "already resumed, or changed since the preview", false
	case err != nil && ctx.Err() != nil:
		report.Failed++
		return "interrupted: it may be resumed; repeat the command to see", true
	case err != nil:
		report.Failed++
		return err.Error(), true
	}
	report.Resumed++
	return "resumed", false
}

// finish prints the report. It is an error if runs were left.
func (b *bulkResume) finish(report bulkReport) error {
	if err := b.print(report); err != nil {
		return err
	}
	if report.Left > 0 {
		b.console.notef("interrupted; resume the rest with\n  %s", b.rest(b.began))
	}
	if report.Failed+report.OutcomeUnknown+report.Left > 0 {
		return errReported
	}
	return nil
}

// earliest is when the first of some ended runs has ended.
func earliest(list []runs.Run) time.Time {
	return *slices.MinFunc(list, func(a, b runs.Run) int { return a.Closed.Compare(*b.Closed) }).Closed
}

// rest is the command that resumes the runs that have ended by a time. Those that match
// are resumed from the last to end to the first: of a run that cannot be, more would
// match for ever.
func (b *bulkResume) rest(until time.Time) string {
	words := []string{"perdure runs resume" + b.again() + " --query " + view.ShellWord(fmt.Sprintf("(%s) AND CloseTime <= '%s'", b.Query, until.UTC().Format(time.RFC3339Nano)))}
	for flag, values := range map[string][]string{"--unknown": b.Unknown, "--from": b.From, "--set": b.Set, "--definition": {b.Definition}} {
		for _, value := range values {
			if value != "" {
				words = append(words, flag+" "+view.ShellWord(value))
			}
		}
	}
	slices.Sort(words[1:])
	return strings.Join(words, " ")
}
