package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/test/topology/clients"
	"github.com/perdure/perdure/workflows"
)

// A call is one call of a composite tool, and what operators do to its run and to those
// below, one thing after the other.
type call struct {
	w     *world
	rng   *rand.Rand
	about string
	tool  string
	id    string // of the run

	deeds  []deed
	risk   map[string]int // by label of a step: how often a plan has said that it may be done twice
	status runs.Status    // in the end
	// statuses are those of all its runs in the end.
	statuses map[string]runs.Status
	suspect  bool // something is found
}

// A deed is what an operator did.
type deed struct {
	At             time.Time // when it began
	Done           time.Time
	What, Run, How string
}

func newCall(w *world, n int) *call {
	rng := w.rng(1000 + n)
	return &call{w: w, rng: rng, about: fmt.Sprintf("c%d", n), tool: w.called[rng.IntN(len(w.called))], risk: map[string]int{}}
}

// live is the life of a call, from its beginning until its run, and all that it called, has ended.
func (c *call) live(ctx context.Context) {
	if !c.begin(ctx) {
		return
	}
	for range 1 + c.rng.IntN(6) {
		if !pause(ctx, time.Duration(c.rng.IntN(1500))*time.Millisecond) {
			return
		}
		c.harm(ctx)
	}
	c.w.backend.calmDown(c.about)
	for resumed := 0; ; resumed++ {
		if !c.settle(ctx) {
			return
		}
		run, err := c.w.door.Get(ctx, runs.RunID(c.id))
		for err != nil && pause(ctx, time.Second) {
			run, err = c.w.door.Get(ctx, runs.RunID(c.id))
		}
		if err != nil {
			return
		}
		c.status = run.Status
		c.noteStatuses(ctx)
		if !run.EndedEarly() || resumed > 3 || c.rng.IntN(4) == 0 {
			break
		}
		c.resume(ctx, c.id, false)
	}
	c.w.count("ended " + string(c.status))
}

// noteStatuses notes what has become of all runs.
func (c *call) noteStatuses(ctx context.Context) {
	c.statuses = map[string]runs.Status{}
	tree, _ := c.w.tree(c.id)
	for _, s := range tree {
		if run, err := c.w.door.Get(ctx, runs.RunID(s.id)); err == nil {
			c.statuses[s.id] = run.Status
		}
	}
}

// begin calls the tool, again with its key until there is a run.
func (c *call) begin(ctx context.Context) bool {
	s := clients.Sessionless{URL: "http://" + c.w.dev.Address + "/mcp"}
	params := fmt.Sprintf(`"_meta":{"perdure/idempotency-key":%q},"name":%q,"arguments":{"about":%q}`, c.about, c.tool, c.about)
	for ctx.Err() == nil {
		try, done := context.WithTimeout(ctx, 20*time.Second)
		raw, err := s.Request(try, 1, "tools/call", c.tool, params)
		done()
		var told struct {
			Meta struct {
				Run struct{ ID string } `json:"perdure/run"`
			} `json:"_meta"`
		}
		if err == nil && json.Unmarshal(raw, &told) == nil && told.Meta.Run.ID != "" {
			c.id = told.Meta.Run.ID
			c.w.logf("%s %s is %s", c.about, c.tool, c.id)
			return true
		}
		pause(ctx, 200*time.Millisecond)
	}
	return false
}

// did notes what was done; what failed was not.
func (c *call) did(began time.Time, what, run, how string, err error) {
	if err != nil {
		text := err.Error()
		c.w.count(what + " refused")
		c.w.logf("%s %s %s %s: %s", c.about, what, run, how, text)
		how += "; refused: " + text
		what += " refused"
	} else {
		c.w.count(what)
		c.w.logf("%s %s %s %s", c.about, what, run, how)
	}
	c.deeds = append(c.deeds, deed{At: began, Done: time.Now(), What: what, Run: run, How: how})
}

// harm does one thing to one of the runs.
func (c *call) harm(ctx context.Context) {
	ctx, done := context.WithTimeout(ctx, 20*time.Second)
	defer done()
	tree, _ := c.w.tree(c.id)
	if len(tree) == 0 {
		return // the index is behind
	}
	s, began := tree[0], time.Now()
	if c.rng.IntN(2) == 0 {
		s = tree[c.rng.IntN(len(tree))]
	}
	switch roll := c.rng.IntN(100); {
	case roll < 55:
		c.reset(ctx, s)
	case roll < 80 && len(s.open) == 0:
		c.resume(ctx, s.id, c.rng.IntN(3) == 0)
	case roll < 80: // there is nothing to resume
	case roll < 88:
		c.cancel(ctx, c.id, "")
	case roll < 92:
		c.did(began, "cancel below", s.id, "", c.w.door.Cancel(ctx, runs.RunID(s.id), "by chance"))
	case roll < 96:
		c.did(began, "terminate", s.id, "", c.w.door.Terminate(ctx, runs.RunID(s.id), "by chance"))
	default:
		c.did(began, "terminate one", s.id, "at Temporal", c.w.temporal.TerminateWorkflow(ctx, s.id, "", "by chance"))
	}
}

// cancel cancels the run, which then sends nothing more.
func (c *call) cancel(ctx context.Context, id, why string) bool {
	began := time.Now()
	err := c.w.door.Cancel(ctx, runs.RunID(id), "by chance")
	c.did(began, "cancel", id, why, err)
	return err == nil
}

// reset resets the last execution of a run, or one before, to a random workflow task.
func (c *call) reset(ctx context.Context, s seen) {
	began, execution := time.Now(), s.executions[len(s.executions)-1]
	if c.rng.IntN(4) == 0 {
		execution = s.executions[c.rng.IntN(len(s.executions))]
	}
	events, err := c.w.history(ctx, s.id, execution)
	if err != nil {
		c.did(began, "reset", s.id, execution, err)
		return
	}
	var points []int64
	for _, e := range events {
		switch e.EventType {
		case enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, enums.EVENT_TYPE_WORKFLOW_TASK_FAILED, enums.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
			points = append(points, e.EventId)
		}
	}
	if len(points) == 0 {
		return
	}
	point := points[c.rng.IntN(len(points))]
	var exclude []enums.ResetReapplyExcludeType // what is not applied again
	if c.rng.IntN(8) == 0 {
		exclude = []enums.ResetReapplyExcludeType{enums.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL}
	}
	r, err := c.w.temporal.ResetWorkflowExecution(ctx, &workflowservice.ResetWorkflowExecutionRequest{
		ResetReapplyExcludeTypes: exclude,
		Namespace:                "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: s.id, RunId: execution},
		Reason: "by chance", RequestId: fmt.Sprintf("%s-%d", c.about, time.Now().UnixNano()), WorkflowTaskFinishEventId: point,
	})
	what := "reset"
	if execution != s.executions[len(s.executions)-1] {
		what = "reset of an older one"
	}
	if s.id != c.id {
		what += " below"
	}
	how := fmt.Sprintf("%s to event %d, as %s", execution, point, r.GetRunId())
	if exclude != nil {
		how += ", without signals"
	}
	c.did(began, what, s.id, how, err)
}

func (w *world) history(ctx context.Context, id, execution string) (events []*historypb.HistoryEvent, err error) {
	all := w.temporal.GetWorkflowHistory(ctx, id, execution, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for all.HasNext() {
		e, err := all.Next()
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}

// resume resumes a run that has ended early, and says what is true of calls of unknown outcome.
func (c *call) resume(ctx context.Context, id string, other bool) {
	ctx, done := context.WithTimeout(ctx, 20*time.Second)
	defer done()
	began, how := time.Now(), "as it was"
	req := history.ResumeRequest{By: "op", Unknown: map[workflows.StepPath]string{}}
	if other {
		tool, _, _ := strings.Cut(id, "/")
		if req.Definition = changed(c.w.list, tool, c.rng); req.Definition != nil {
			how = "with another definition"
		}
	}
	plan, err := c.w.door.Resumptions().Plan(ctx, runs.RunID(id), req)
	if err == nil && len(plan.OutcomeUnknown) > 0 {
		for _, u := range plan.OutcomeUnknown {
			req.Unknown[u.Path] = c.outcome(ctx, id, u)
			how += fmt.Sprintf("; %s %s", u.Path, req.Unknown[u.Path])
		}
		plan, err = c.w.door.Resumptions().Plan(ctx, runs.RunID(id), req)
	}
	if err == nil {
		for _, s := range plan.AtRisk() {
			how += fmt.Sprintf("; %s may be done twice", s.Path)
			c.risk[label(string(s.Path))]++
		}
		err = c.w.door.Resumptions().Execute(ctx, plan)
	}
	c.did(began, "resume", id, how, err)
}

// label is the name of a step in its path, as the backend has it; "" = it is that of a
// script, which has others.
func label(path string) string {
	path = path[strings.LastIndex(path, "/")+1:]
	if strings.Contains(path, ":") {
		return ""
	}
	return path
}

// outcome says what became of a call, as the backend knows it, once nothing is on its way.
func (c *call) outcome(ctx context.Context, id string, u history.PlannedUnknown) string {
	path := string(u.Path)
	undone, _, undoes := strings.Cut(path, "/compensate")
	if undoes {
		path = undone
	}
	p, ok := c.place(u.Sent(), path)
	if !ok {
		return history.AskAgain
	}
	done, ok := c.w.backend.truth(p)
	for !ok && pause(ctx, 100*time.Millisecond) {
		done, ok = c.w.backend.truth(p)
	}
	if done != undoes {
		return workflows.Happened
	}
	return workflows.NotHappened
}

// place is what a call was about, by its arguments or by its path.
func (c *call) place(args json.RawMessage, path string) (place, bool) {
	var a struct{ Run, Step string }
	if json.Unmarshal(args, &a) == nil && a.Step != "" {
		return place(a), true
	}
	return c.w.backend.only(c.about, label(path))
}

// settle waits until the run and all below have ended, and reports whether they have. What
// hangs is cancelled; what hangs then is a finding.
func (c *call) settle(ctx context.Context) bool {
	began, stage := time.Now(), 0
	for pause(ctx, 300*time.Millisecond) {
		tree, polled := c.w.tree(c.id)
		closed := func(s seen) bool { return len(s.open) == 0 }
		if polled.After(began.Add(time.Second)) && len(tree) > 0 && len(slices.DeleteFunc(slices.Clone(tree), closed)) == 0 {
			return true
		}
		if time.Since(later(began, c.w.backend.latest(c.about))) < hangs {
			continue
		}
		why := c.w.waits(ctx, tree)
		if why == "" {
			continue // the process is being started
		}
		above := c.w.open(ctx, c.id)
		if stage++; stage == 1 && (above || !c.harmed("terminate one")) {
			c.w.count("hung")
			fmt.Printf("hung: %s of %s: %s\n", c.about, c.id, why)
			c.suspect = above
			if !c.cancel(ctx, c.id, why) {
				stage-- // the process is being started
				continue
			}
			began = time.Now()
			continue
		}
		if stage <= 2 && !above { // Temporal tells nobody below a run that is terminated there
			for _, s := range tree[1:] {
				c.did(time.Now(), "cancel below", s.id, "nobody waits for it", c.w.door.Cancel(ctx, runs.RunID(s.id), "it hangs"))
			}
			began, stage = time.Now(), 2
			continue
		}
		c.suspect = true
		for _, s := range slices.DeleteFunc(tree, closed) {
			if run, err := c.w.door.Get(ctx, runs.RunID(s.id)); err == nil && run.Closed == nil {
				c.w.find("%s: %s has not ended: %s, waits for %q, %d elicitations are open", c.about, s.id, run.Status, run.WaitingFor, len(run.Open()))
			}
		}
		for _, s := range tree {
			_ = c.w.door.Terminate(ctx, runs.RunID(s.id), "it hangs")
		}
		return false
	}
	return false
}

// open reports whether a run has not ended.
func (w *world) open(ctx context.Context, id string) bool {
	run, err := w.door.Get(ctx, runs.RunID(id))
	return err == nil && run.Closed == nil
}

// waits says for what those runs of a tree wait that have not ended.
func (w *world) waits(ctx context.Context, tree []seen) (text string) {
	for _, s := range tree {
		if run, err := w.door.Get(ctx, runs.RunID(s.id)); err == nil && run.Closed == nil {
			text += fmt.Sprintf("%s %s %s %d; ", s.id, run.Status, run.WaitingFor, len(run.Open()))
		}
	}
	return text
}

// hangs is after how long without a call a run hangs: how another has ended is read again a
// minute after the process was killed that read it.
const hangs = 75 * time.Second

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
