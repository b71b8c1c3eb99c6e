package runs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/perdure/perdure/workflows"
)

// A Filter selects runs. The zero value selects all that callers have called.
type Filter struct {
	// Called selects also runs that steps have called; what they ask is asked by those that
	// called them. Of quarantined runs these are always selected: operators decide about each.
	Called  bool
	Request string // name that StartRequest or Attach gave
	Tool    string
	Status  Status
	Caller  string
	Waiting bool // for a person
	// WaitingFor is one of the things that runs wait for: NoWorker, or as in
	// workflows.AttrWaiting. "" = no filter.
	WaitingFor string

	// EndedEarly selects runs that ended without completing (see Run.EndedEarly).
	EndedEarly bool
	// Errors reads the error of each run that ended without completing from its history.
	Errors bool

	Since time.Time
	Query string // more conditions in Temporal's list filter; "" = none
	Limit int    // 0 = 50
}

// Lists find and count runs, by Temporal's index.
type lists struct {
	reader
	index *index
}

// List returns the runs that match, the most recent first. A run that was
// started a moment ago may not be there yet.
func (l lists) List(ctx context.Context, f Filter) ([]Run, error) {
	limit := f.limit()
	var (
		list []Run
		seen = map[RunID]bool{}
		next string
	)
	for len(list) < limit {
		page, after, err := l.ListPage(ctx, f, next)
		if err != nil {
			return nil, err
		}
		for _, run := range page {
			if !seen[run.ID] && len(list) < limit { // a run that was reset or resumed has several executions
				seen[run.ID] = true
				list = append(list, run)
			}
		}
		if next = after; next == "" {
			break
		}
	}
	slices.SortStableFunc(list, func(a, b Run) int { return b.Started.Compare(a.Started) })
	return list, nil
}

// ListPage returns runs that match, in the order of the index, Limit of them at
// most, and where the next page begins; "" = there is none. A first page is
// asked for by "". A run that was reset or resumed may be there more than once.
func (l lists) ListPage(ctx context.Context, f Filter, from string) (page []Run, next string, err error) {
	token, err := base64.RawURLEncoding.DecodeString(from)
	if err != nil {
		return nil, "", fmt.Errorf("listing runs: %w: no page begins at %q", ErrNotFound, from)
	}
	found, err := l.index.list(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Namespace:     l.namespace,
		PageSize:      int32(min(f.limit(), 1000)),
		NextPageToken: token,
		Query:         query(f),
	})
	if err != nil {
		return nil, "", failure(ctx, "listing", "", err)
	}
	runs, err := l.listed(ctx, f, found.Executions)
	if err != nil {
		return nil, "", err
	}
	for _, run := range runs {
		if run != nil {
			page = append(page, *run)
		}
	}
	return page, base64.RawURLEncoding.EncodeToString(found.NextPageToken), nil
}

// listWidth is how many executions of a page are looked at at a time.
const listWidth = 8

// listed are the runs of executions; nil for an execution that is not to be listed.
func (l lists) listed(ctx context.Context, f Filter, executions []*workflowpb.WorkflowExecutionInfo) ([]*Run, error) {
	runs, failed := make([]*Run, len(executions)), make([]error, len(executions))
	places := make(chan struct{}, listWidth)
	var all sync.WaitGroup
	for i, info := range executions {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			runs[i], failed[i] = l.listedRun(ctx, f, info)
		})
	}
	all.Wait()
	return runs, cmp.Or(failed...)
}

func (l lists) listedRun(ctx context.Context, f Filter, info *workflowpb.WorkflowExecutionInfo) (*Run, error) {
	run := l.run(info)
	current, err := l.isCurrent(ctx, f, info)
	if err != nil || !current || run.Started.Before(f.Since) { // it has continued, or was resumed, since
		return nil, err
	}
	if err := l.addEnd(ctx, &run, info, f.Errors); err != nil {
		return nil, failure(ctx, "listing", run.ID, err)
	}
	return &run, nil
}

// isCurrent reports whether an execution that matches is the one with which its run
// continues or has ended. Without conditions that an earlier one of the same run could
// meet, the first that is listed is: open ones come first, then those that have ended
// last.
func (l lists) isCurrent(ctx context.Context, f Filter, info *workflowpb.WorkflowExecutionInfo) (bool, error) {
	if f.Status == "" && f.Query == "" && !f.EndedEarly || isOpen(info.Status) || info.Status == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED {
		return true, nil
	}
	d, err := l.describe(ctx, RunID(info.Execution.WorkflowId))
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &gone):
		return false, nil
	case err != nil:
		return false, failure(ctx, "listing", RunID(info.Execution.WorkflowId), err)
	}
	return d.WorkflowExecutionInfo.Execution.RunId == info.Execution.RunId, nil
}

func (f Filter) limit() int {
	if f.Limit <= 0 {
		return 50
	}
	return f.Limit
}

// query is a filter in Temporal's words.
func query(f Filter) string {
	terms := []string{workflows.AttrTool + " IS NOT NULL", "ExecutionStatus != 'ContinuedAsNew'"}
	if !f.Called && f.Status != workflows.Quarantined {
		terms = append(terms, "ParentWorkflowId IS NULL")
	}
	if f.Tool != "" {
		terms = append(terms, workflows.AttrTool+" = "+quote(keyword(f.Tool)))
	}
	if f.Caller != "" {
		terms = append(terms, workflows.AttrCaller+" = "+quote(keyword(f.Caller)))
	}
	if f.Request != "" {
		terms = append(terms, workflows.AttrRequest+" = "+quote(f.Request))
	}
	if f.Status != "" {
		terms = append(terms, statusQuery(f.Status))
	}
	if f.EndedEarly {
		terms = append(terms, "ExecutionStatus IN ('Failed', 'TimedOut', 'Canceled', 'Terminated')")
	}
	if f.Waiting {
		terms = append(terms, statusQuery(workflows.Waiting))
	}
	if f.WaitingFor == NoWorker {
		terms = append(terms, noWorkerQuery)
	} else if f.WaitingFor != "" {
		terms = append(terms, "ExecutionStatus = 'Running' AND "+workflows.AttrWaiting+" = "+quote(keyword(f.WaitingFor)))
	}
	if !f.Since.IsZero() {
		terms = append(terms, "StartTime >= "+quote(f.Since.UTC().Format(time.RFC3339Nano)))
	}
	if f.Query != "" {
		terms = append(terms, "("+f.Query+")")
	}
	return strings.Join(terms, " AND ")
}

func statusQuery(s Status) string {
	indexed := workflows.AttrStatus + " = " + quote(keyword(string(s)))
	switch s {
	case workflows.Quarantined:
		return quarantinedQuery
	case workflows.Running:
		return "ExecutionStatus = 'Running' AND " + workflows.AttrStatus + " IS NULL"
	case workflows.Waiting:
		return "ExecutionStatus = 'Running' AND " + indexed
	case workflows.Completed:
		return "ExecutionStatus = 'Completed'"
	case workflows.Cancelled:
		return "ExecutionStatus = 'Canceled'"
	case workflows.Terminated:
		return "ExecutionStatus = 'Terminated'"
	case workflows.TimedOut:
		return "(ExecutionStatus = 'TimedOut' OR (ExecutionStatus = 'Failed' AND " + indexed + "))"
	case workflows.Failed:
		return "(ExecutionStatus = 'Failed' AND (" + workflows.AttrStatus + " IS NULL OR " + workflows.AttrStatus + " != " + quote(string(workflows.TimedOut)) + "))"
	}
	return indexed // no run has it
}

// quote makes a string literal of the visibility query language, of text without
// a backslash: that would end it early. keyword leaves none.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// keyword is text as search attributes hold it. Temporal finds no value with a
// quote, a backslash or a control character in it, and SQL stores take no long
// one; the former are written as in URLs, and the latter cut.
func keyword(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < ' ' || strings.ContainsRune(unfindable, r) {
			fmt.Fprintf(&b, "%%%02X", r)
		} else {
			b.WriteRune(r)
		}
	}
	if b.Len() <= maxKeyword {
		return b.String()
	}
	digest := sha256.Sum256([]byte(s)) // distinguishes what begins alike
	return clip(b.String(), maxKeyword-13) + "." + hex.EncodeToString(digest[:6])
}

const unfindable = `'"\%`

// fromKeyword is the inverse of keyword, for what was not cut.
func fromKeyword(s string) string {
	if text, err := url.PathUnescape(s); err == nil {
		return text
	}
	return s
}

// Needed reports whether what a run holds is needed: because Temporal keeps the
// run, or one that it has called, to which it may have passed something on.
// parent is the run that has called it; "" = none has, or it is gone.
func (l lists) Needed(ctx context.Context, id RunID) (needed bool, parent RunID, err error) {
	run, err := l.Get(ctx, id)
	if errors.Is(err, ErrNotFound) {
		called, err := l.List(ctx, Filter{Called: true, Limit: 1, Query: "ParentWorkflowId = " + quote(string(id))})
		return len(called) > 0, "", err
	}
	if err != nil || run.Parent == nil {
		return err == nil, "", err
	}
	return true, RunID(run.Parent.RunID), nil
}
