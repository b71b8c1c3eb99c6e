package runs_test

import (
	"testing"
	"time"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// A run that was terminated is said to be, with its cause, wherever runs are shown,
// and never that it was cancelled.
func TestTerminated(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	req := request(t, gated)
	req.Caller.Subject = t.Name()
	id := start(t, c, req)
	followTo(t, c, id, 0, runs.EventOpened)
	perduretest.NoError(t, c.Terminate(t.Context(), id, "it is in the way"))
	check := func(where string, run runs.Run) {
		t.Helper()
		if run.Status != runs.Terminated || run.Cause != "it is in the way" || run.Closed == nil || len(run.Open()) > 0 {
			t.Errorf("%s: %+v", where, run)
		}
	}
	run := perduretest.Must(c.Get(t.Context(), id))(t)
	check("get", *run)
	shown := perduretest.Must(c.Show(t.Context(), id))(t)
	check("show", shown.Run)
	if last := shown.Steps[len(shown.Steps)-1]; last.Status != "terminated" {
		t.Errorf("the step under way is shown as %+v", last)
	}
	events := followTo(t, c, id, 0, runs.EventDone)
	result := perduretest.Must(c.Result(t.Context(), id))(t)
	for where, o := range map[string]*runs.Outcome{"show": shown.Outcome, "follow": events[len(events)-1].Outcome, "result": result} {
		if e := o.Failure.Error; o.Status != runs.Terminated || e.Code != codes.Terminated || e.Category != codes.CategoryTerminated || e.Message != "the run was terminated: it is in the way" {
			t.Errorf("%s: %+v", where, o)
		}
	}
	log := logOf(t, c, id, false)
	if got, want := log[len(log)-1], "run_ended terminated: the run was terminated: it is in the way"; got != want {
		t.Errorf("the log ends with %q, want %q", got, want)
	}
	list := awaitListed(t, c, runs.Filter{Caller: t.Name(), Status: runs.Terminated})
	check("list", list[0])
	if cancelled := ids(t, c, runs.Filter{Caller: t.Name(), Status: runs.Cancelled}); len(cancelled) > 0 {
		t.Errorf("%v are listed as cancelled", cancelled)
	}
	counts, err := c.Count(t.Context())
	if err != nil || counts.Status[runs.Terminated] == 0 {
		t.Errorf("counted are %v, %v", counts.Status, err)
	}
}

// A called run that was terminated fails the step that has called it, which says so.
func TestCalledRunIsTerminated(t *testing.T) {
	t.Parallel()
	c, _ := compose(t)
	note(t, "a", "b")
	id := start(t, c, composition(t, source(t, parentAndChild)))
	called := opened(t, c, id).Run
	perduretest.NoError(t, c.Terminate(t.Context(), runs.RunID(called), "test"))
	events := followTo(t, c, id, 0, runs.EventDone)
	e := events[len(events)-1].Outcome.Failure.Error
	want := "step review: testcalledrunisterminated_b failed: the run was terminated"
	if e.Code != codes.WorkflowTerminated || e.Category != codes.CategoryTool || e.Message != want {
		t.Errorf("the run failed with %+v, want %q", e, want)
	}
	shown := perduretest.Must(c.Show(t.Context(), id))(t)
	if r := shown.Steps[0]; r.Status != "failed" || r.Error != "the run was terminated" {
		t.Errorf("the step is shown as %+v", r)
	}
}

// A run that has continued, or was resumed, is shown with its first start.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	t.Run("continued", func(t *testing.T) {
		t.Parallel()
		c, temporal := compose(t)
		note(t, "a", "b")
		req := composition(t, source(t, busyParent))
		req.Caller.Subject = t.Name()
		began := time.Now()
		id := start(t, c, req)
		gate := opened(t, c, id)
		awaitContinued(t, c, temporal, id)
		checkStart(t, c, id, runs.Filter{Caller: t.Name()}, began)
		answer(t, c, id, runs.Answer{ElicitationID: gate.ID, Action: "decline", By: "bob"})
		followTo(t, c, id, 0, runs.EventDone)
		checkStart(t, c, id, runs.Filter{Caller: t.Name(), Status: runs.Failed}, began)
	})
	t.Run("resumed", func(t *testing.T) {
		t.Parallel()
		c, _ := connect(t)
		s := newScript(t)
		s.fail("only", failing)
		req := request(t, `
name: started
description: One step.
parameters: {type: object, properties: {as: {type: string}}}
steps: [{id: only, tool: write, arguments: {as: "{{.params.as}}"}}]
`)
		req.Caller.Subject = t.Name()
		began := time.Now()
		id := start(t, c, req)
		followTo(t, c, id, 0, runs.EventDone)
		resumeRun(t, c, id, history.ResumeRequest{})
		followTo(t, c, id, 0, runs.EventDone)
		s.fail("only", nil)
		again := time.Now()
		resumeRun(t, c, id, history.ResumeRequest{})
		followTo(t, c, id, 0, runs.EventDone)
		checkStart(t, c, id, runs.Filter{Caller: t.Name(), Status: workflows.Completed}, began)
		if listed := ids(t, c, runs.Filter{Caller: t.Name(), Since: again}); len(listed) > 0 {
			t.Errorf("%v are listed, which have not begun since", listed)
		}
	})
}

// checkStart looks that a run began within a second of a time, wherever it is shown.
func checkStart(t *testing.T, c *runs.Client, id runs.RunID, f runs.Filter, began time.Time) {
	t.Helper()
	run := perduretest.Must(c.Get(t.Context(), id))(t)
	shown := perduretest.Must(c.Show(t.Context(), id))(t)
	listed := awaitListed(t, c, f)[0]
	if !run.Started.Equal(listed.Started) || !run.Started.Equal(shown.Started) || run.Started.Sub(began).Abs() > time.Second {
		t.Errorf("begun at %s, it is told to have at %s, listed at %s, shown at %s", began.UTC(), run.Started, listed.Started, shown.Started)
	}
}

// awaitListed waits until the index has a run that matches.
func awaitListed(t *testing.T, c *runs.Client, f runs.Filter) []runs.Run {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		list := perduretest.Must(c.List(t.Context(), f))(t)
		if len(list) > 0 {
			return list
		}
	}
	t.Fatalf("no run matches %+v", f)
	return nil
}
