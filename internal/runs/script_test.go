package runs_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/client"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/workflows"
)

// A run and Temporal say at which line a script waits, in each branch, and for
// what; once that is over they do not.
func TestLineAtWhichAScriptWaits(t *testing.T) {
	t.Parallel()
	c, temporal := connect(t)
	id := start(t, c, request(t, `
name: waits
description: Waits at three lines.
timeout: 24h
script: |
  def ask():
      return elicit("Sure?", timeout="10h").action
  r = parallel([
      ask,
      lambda: sleep("10h"),
      lambda: busy(as_="x"),
  ], on_error="collect")
`))
	var details string
	wants := []string{
		"**script, line 2 of script**: waits for an answer", "**script, line 5 of script**: sleeps until ",
		"**script, line 6 of script**: calls busy", "**script/main:3[0]/ask:2 waits for an answer**",
	}
	await(t, "the lines in Temporal's details", func() bool {
		details = currentDetails(t, temporal, id)
		return !slices.ContainsFunc(wants, func(want string) bool { return !strings.Contains(details, want) })
	})
	shown := perduretest.Must(c.Show(t.Context(), id))(t)
	waiting := map[string]bool{}
	for _, step := range shown.Steps {
		waiting[string(step.Path)] = step.Ended == nil
	}
	for _, path := range []string{"script/main:3[0]/ask:2", "script/main:3[1]/lambda:5", "script/main:3[2]/lambda:6"} {
		if !waiting[path] {
			t.Errorf("the run does not say that it waits at %s: %+v", path, shown.Steps)
		}
	}
	answer(t, c, id, runs.Answer{ElicitationID: "script/main:3[0]/ask:2#1", Action: "accept", By: "ada"})
	await(t, "the answered line to be gone", func() bool { return !strings.Contains(currentDetails(t, temporal, id), "line 2 of script") })
	perduretest.NoError(t, c.Cancel(t.Context(), id, "the test is over"))
	followTo(t, c, id, 0, runs.EventDone)
}

// currentDetails is what Temporal's Web UI shows of a run under way.
func currentDetails(t *testing.T, temporal client.Client, id runs.RunID) string {
	t.Helper()
	answer, err := temporal.QueryWorkflow(t.Context(), string(id), "", "__temporal_workflow_metadata")
	if err != nil {
		t.Fatal(err)
	}
	var metadata sdkpb.WorkflowMetadata
	perduretest.NoError(t, answer.Get(&metadata))
	return metadata.GetCurrentDetails()
}

// A script that computes without end gives the other runs of its worker their
// turn, and no workflow task of it fails or runs out of time: Temporal never
// takes it for stuck. A cancel ends it.
func TestComputingScriptLetsOthersPass(t *testing.T) {
	t.Parallel()
	c, temporal := connect(t)
	long := request(t, "name: computes\ndescription: Computes.\ntimeout: 24h\nscript: |\n  x = 0\n  while True:\n      x = (x * 31 + 7) % 1000003\n")
	long.ScriptLimits = &runs.ScriptLimits{}
	long.ScriptLimits.Steps, long.ScriptLimits.Memory = 1<<40, 1<<60
	computing := []runs.RunID{start(t, c, long), start(t, c, long)}
	others := make([]runs.RunID, 20)
	for i := range others {
		others[i] = start(t, c, request(t, plain))
	}
	for _, id := range others {
		followTo(t, c, id, 0, runs.EventDone)
	}
	for _, id := range computing {
		run, err := c.Get(t.Context(), id)
		if err != nil || run.Status != workflows.Running {
			t.Fatalf("the script is %+v, %v", run, err)
		}
		await(t, "the script to compute for long", func() bool { return len(timersOf(t, temporal, id)) > 3 })
		perduretest.NoError(t, c.Cancel(t.Context(), id, "the test is over"))
		followTo(t, c, id, 0, runs.EventDone)
		for event := range eventsOf(t, temporal, id) {
			switch event.EventType {
			case enums.EVENT_TYPE_WORKFLOW_TASK_FAILED, enums.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
				t.Errorf("a workflow task has not gone well: %v", event)
			}
		}
	}
}

// timersOf are the timers of a run that have fired.
func timersOf(t *testing.T, temporal client.Client, id runs.RunID) (fired []*historypb.HistoryEvent) {
	for event := range eventsOf(t, temporal, id) {
		if event.EventType == enums.EVENT_TYPE_TIMER_FIRED {
			fired = append(fired, event)
		}
	}
	return fired
}

// eventsOf iterates over the events of a run.
func eventsOf(t *testing.T, temporal client.Client, id runs.RunID) func(yield func(*historypb.HistoryEvent) bool) {
	return func(yield func(*historypb.HistoryEvent) bool) {
		events := temporal.GetWorkflowHistory(t.Context(), string(id), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event := perduretest.Must(events.Next())(t)
			if !yield(event) {
				return
			}
		}
	}
}

// await waits until something is as it should be.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for !ok() {
		select {
		case <-pause.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
