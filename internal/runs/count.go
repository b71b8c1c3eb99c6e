package runs

import (
	"context"
	"errors"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// Counts are how many runs there are in which state.
type Counts struct {
	// Status counts executions by status. A run that was resumed is counted
	// with each of those that have ended, for as long as they are kept. Called runs are
	// counted only in quarantine, once a minute.
	Status map[Status]int64
	// Waiting counts the open runs by what they wait for; those of NoWorker are counted
	// once a minute.
	Waiting map[string]int64
	// Gates are the open elicitations by kind. Of more than 1,000 runs that wait, each
	// counts for one, and the oldest is that of the 1,000 that were started last.
	Gates map[string]Gates
}

// Gates are the open elicitations of one kind.
type Gates struct {
	Open   int64
	Oldest time.Time // when the oldest one was opened; zero = not known
}

// Age is that of the oldest one, if it is known; 0 without one.
func (g Gates) Age() (age time.Duration, known bool) {
	if g.Open > 0 && g.Oldest.IsZero() {
		return 0, false
	}
	if g.Open > 0 {
		age = time.Since(g.Oldest)
	}
	return age, true
}

// Count counts the runs. It asks the index, which may lag a moment behind: once
// where no run waits.
func (l lists) Count(ctx context.Context) (Counts, error) {
	counts := Counts{Status: map[Status]int64{}, Waiting: map[string]int64{}, Gates: map[string]Gates{}}
	for _, kind := range workflows.WaitingKinds {
		counts.Waiting[kind] = 0 // so that a series begins before its first run waits
		if !slices.Contains(workflows.HeldKinds, kind) {
			counts.Gates[kind] = Gates{}
		}
	}
	if err := l.countStatus(ctx, &counts); err != nil {
		return Counts{}, failure(ctx, "counting", "", err)
	}
	if err := l.countWaiting(ctx, &counts); err != nil {
		return Counts{}, failure(ctx, "counting", "", err)
	}
	unexecuted, err := l.countOf(ctx, noWorkerQuery, kindsAge)
	var unknown *serviceerror.InvalidArgument
	if err != nil && !errors.As(err, &unknown) { // a Temporal that does not report problems
		return Counts{}, failure(ctx, "counting", "", err)
	}
	counts.Waiting[NoWorker] = unexecuted
	return counts, nil
}

func (l lists) countStatus(ctx context.Context, counts *Counts) error {
	for _, s := range []Status{Running, Waiting, Quarantined, Completed, Failed, Cancelled, Terminated, TimedOut} {
		counts.Status[s] = 0
	}
	grouped, err := l.index.count(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: l.namespace, Query: query(Filter{}) + " GROUP BY ExecutionStatus",
	}, 0)
	if err != nil {
		return err
	}
	for _, group := range grouped.Groups {
		if executionStatus(group) != enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED {
			counts.Status[status(executionStatus(group), "")] += group.Count
			continue
		}
		if counts.Status[Quarantined], err = l.countOf(ctx, quarantinedQuery, 0); err != nil {
			return err
		}
		counts.Status[Running] += group.Count - counts.Status[Quarantined] // paused by an operator
	}
	called, err := l.index.count(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: l.namespace, Query: query(Filter{Status: Quarantined}) + " AND ParentWorkflowId IS NOT NULL",
	}, kindsAge)
	if err != nil {
		return err
	}
	counts.Status[Quarantined] += called.GetCount()
	if counts.Status[Failed] == 0 {
		return nil
	}
	timedOut, err := l.countOf(ctx, "ExecutionStatus = 'Failed' AND "+workflows.AttrStatus+" = "+quote(string(TimedOut)), 0)
	counts.Status[Failed] -= timedOut
	counts.Status[TimedOut] += timedOut
	return err
}

// executionStatus is what a group of executions has in common.
func executionStatus(g *workflowservice.CountWorkflowExecutionsResponse_AggregationGroup) enumspb.WorkflowExecutionStatus {
	var name string
	if len(g.GroupValues) != 1 || converter.GetDefaultDataConverter().FromPayload(g.GroupValues[0], &name) != nil {
		return enumspb.WORKFLOW_EXECUTION_STATUS_UNSPECIFIED
	}
	s, err := enumspb.WorkflowExecutionStatusFromString(name)
	if err != nil {
		return enumspb.WORKFLOW_EXECUTION_STATUS_UNSPECIFIED
	}
	return s
}

// countOf counts the runs that meet a condition. A count of that age will do.
func (l lists) countOf(ctx context.Context, condition string, age time.Duration) (int64, error) {
	counted, err := l.index.count(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: l.namespace, Query: query(Filter{Query: condition}),
	}, age)
	return counted.GetCount(), err
}

// Held is what a caller has: runs that were called by a client and are open, also
// in quarantine, and those of them that wait for a person.
type Held struct{ Open, Waiting int }

// Held counts the open runs of a caller. It asks the index, which may lag a moment
// behind.
func (l lists) Held(ctx context.Context, caller string) (Held, error) {
	mine := "CloseTime IS NULL AND " + workflows.AttrCaller + " = " + quote(keyword(caller))
	open, err := l.countOf(ctx, mine, 0)
	var waiting int64
	if err == nil && open > 0 {
		waiting, err = l.countOf(ctx, mine+" AND "+statusQuery(Waiting), 0)
	}
	if err != nil {
		return Held{}, failure(ctx, "counting", "", err)
	}
	return Held{Open: int(open), Waiting: int(waiting)}, nil
}

// Of waiting runs, how many are looked at one by one, and how many at a time.
const (
	maxLookedAt = 1000
	lookPage    = 250
)

// kindsAge is how old counts by kind may be; each costs a query.
const kindsAge = time.Minute

const waitingQuery = "ExecutionStatus = 'Running' AND " + workflows.AttrWaiting + " IS NOT NULL"

// countWaiting looks at the runs that wait: their memos have the times. The index does
// not group by attributes of ours, so that kinds are counted one by one where there are
// too many runs for that.
func (l lists) countWaiting(ctx context.Context, counts *Counts) error {
	if counts.Status[Running] == 0 {
		return nil
	}
	var token []byte
	for seen := int64(0); ; {
		page, err := l.index.list(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: l.namespace, PageSize: lookPage, NextPageToken: token, Query: query(Filter{Query: waitingQuery}),
		})
		if err != nil {
			return err
		}
		for _, info := range page.Executions {
			l.lookAt(info, counts)
		}
		seen += int64(len(page.Executions))
		token = page.NextPageToken
		if len(token) == 0 {
			counts.waiting()
			return nil
		}
		if seen >= maxLookedAt {
			return l.countKinds(ctx, counts)
		}
	}
}

func (l lists) lookAt(info *workflowpb.WorkflowExecutionInfo, counts *Counts) {
	counts.Waiting[l.attribute(info, workflows.AttrWaiting)]++
	state, _ := history.State(l.converter, info.Memo)
	for _, e := range state.Elicitations {
		if e.State != workflows.ElicitationOpen {
			continue
		}
		kind := workflows.WaitsFor(e.Kind)
		g := counts.Gates[kind]
		if g.Open++; g.Open == 1 || e.Opened.Before(g.Oldest) {
			g.Oldest = e.Opened
		}
		counts.Gates[kind] = g
	}
}

func (l lists) countKinds(ctx context.Context, counts *Counts) error {
	for kind := range counts.Waiting {
		var err error
		if counts.Waiting[kind], err = l.countOf(ctx, "ExecutionStatus = 'Running' AND "+workflows.AttrWaiting+" = "+quote(kind), kindsAge); err != nil {
			return err
		}
		if g, ok := counts.Gates[kind]; ok {
			g.Open = max(g.Open, counts.Waiting[kind])
			counts.Gates[kind] = g
		}
	}
	counts.waiting()
	return nil
}

// waiting takes the runs that wait for a person from those that run. Those that are
// held back by the limits of a backend continue by themselves.
func (c *Counts) waiting() {
	for kind, n := range c.Waiting {
		if !slices.Contains(workflows.HeldKinds, kind) {
			c.Status[Waiting] += n
		}
	}
	c.Status[Running] = max(0, c.Status[Running]-c.Status[Waiting])
}
