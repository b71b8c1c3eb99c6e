//go:build !nodev

package program_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/enums/v1"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/runs/history"
)

// A run that was reset ends before it comes again to a run that it had called: that one
// sends nothing more, and is undone.
func TestResetLeavesNoCalledRun(t *testing.T) {
	t.Parallel()
	l := newStopLab(t)
	l.called["below"] = define(t, "below", `steps: [{id: a, tool: write_1, OF, compensate: {tool: undo_1, OF}},
		{id: b, tool: write_4000, OF, dependsOn: [a]}, {id: c, tool: write_2, OF, dependsOn: [b]}]`)
	id := l.start(t, define(t, "above", "steps: [{id: g, type: elicitation, message: Go on?, timeout: 24h}, {id: c, type: workflow, workflow: below, dependsOn: [g]}]"))
	var seq int64
	asked := nextEvent(t, l.door, id, &seq, runs.EventOpened)
	if _, err := l.door.Answer(t.Context(), id, runs.Answer{ElicitationID: asked.Elicitation.ID, Action: "accept", By: "ada"}); err != nil {
		t.Fatal(err)
	}
	l.backend.await("below", "write_4000")
	resetTo(t, l.temporal, string(id), "", "after the question")
	perduretest.NoError(t, l.door.Cancel(t.Context(), id, ""))
	if outcome := l.end(t, id); outcome.Status != runs.Cancelled {
		t.Fatalf("the run above is %s", outcome.Status)
	}
	list, err := l.door.List(t.Context(), runs.Filter{Called: true, Tool: "below", Limit: 1})
	if err != nil || len(list) != 1 {
		t.Fatalf("%d called runs, %v", len(list), err)
	}
	if outcome := l.end(t, list[0].ID); outcome.Status != runs.Cancelled || outcome.Failure == nil || outcome.Failure.Error.Code != "parent_gone" {
		t.Errorf("the called run ended with %+v", outcome)
	}
	var calls []string
	for _, call := range l.backend.of("below", "") {
		calls = append(calls, call.tool)
	}
	if diff := cmp.Diff([]string{"write_1", "write_4000", "undo_1"}, calls); diff != "" {
		t.Errorf("its calls (-want +got): %s", diff)
	}
}

// What a called run asks is asked also after the run above was reset to before its call,
// whether or not its reports are applied again.
func TestResetWhileACalledRunAsks(t *testing.T) {
	t.Parallel()
	l := newStopLab(t)
	for name, exclude := range map[string][]enums.ResetReapplyExcludeType{
		"applying": nil,
		"leaving":  {enums.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL},
	} {
		l.called[name+"below"] = define(t, name+"below", "steps: [{id: q, type: elicitation, message: Below?, timeout: 24h}, {id: w, tool: write_1, OF, dependsOn: [q]}]")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := l.start(t, define(t, name, "steps: [{id: g, type: elicitation, message: Go on?, timeout: 24h}, {id: c, type: workflow, workflow: "+name+"below, dependsOn: [g]}]"))
			var seq int64
			asked := func(message string) runs.Elicitation {
				t.Helper()
				for {
					if e := nextEvent(t, l.door, id, &seq, runs.EventOpened).Elicitation; e.Message == message {
						return *e
					}
				}
			}
			accept := func(e runs.Elicitation) {
				t.Helper()
				if _, err := l.door.Answer(t.Context(), id, runs.Answer{ElicitationID: e.ID, Action: "accept", By: "ada"}); err != nil {
					t.Fatal(err)
				}
			}
			accept(asked("Go on?"))
			asked("Below?")
			resetApplying(t, l.temporal, string(id), "", "first task", exclude...)
			accept(asked("Go on?"))
			accept(asked("Below?"))
			if outcome := l.end(t, id); outcome.Status != runs.Completed || len(l.backend.of(name+"below", "write")) != 1 {
				t.Errorf("it ended with %+v, and wrote %v", outcome, l.backend.of(name+"below", "write"))
			}
		})
	}
}

// A called run that was reset asks again what it had asked before. The run above asks that,
// and no more what was open; also where it was reset itself since, and Temporal tells it
// anew what the executions before had asked.
func TestResetOfACalledRunThatAsks(t *testing.T) {
	t.Parallel()
	l := newStopLab(t)
	for _, both := range []bool{false, true} {
		name := fmt.Sprint("reset", both)
		l.called[name+"below"] = define(t, name+"below", `steps: [{id: q, type: elicitation, message: First?, timeout: 24h},
			{id: r, type: elicitation, message: Second?, timeout: 24h, dependsOn: [q]}, {id: w, tool: write_1, OF, dependsOn: [r]}]`)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := l.start(t, define(t, name, "steps: [{id: c, type: workflow, workflow: "+name+"below}]"))
			asks := func(message string) (e runs.Elicitation) {
				t.Helper()
				until(t, "it asks "+message+" alone", func() bool {
					run, err := l.door.Get(t.Context(), id)
					if err != nil || len(run.Open()) != 1 {
						return false
					}
					e = run.Open()[0]
					return e.Message == message
				})
				return e
			}
			accept := func(message string) {
				t.Helper()
				if d, err := l.door.Answer(t.Context(), id, runs.Answer{ElicitationID: asks(message).ID, Action: "accept", By: "ada"}); err != nil || !d.Won {
					t.Fatal(d, err)
				}
			}
			accept("First?")
			asks("Second?")
			list, err := l.door.List(t.Context(), runs.Filter{Called: true, Tool: name + "below", Limit: 1})
			if err != nil || len(list) != 1 {
				t.Fatalf("%d called runs, %v", len(list), err)
			}
			resetApplying(t, l.temporal, string(list[0].ID), "", "first task")
			if both {
				resetApplying(t, l.temporal, string(id), "", "first task")
			}
			accept("First?")
			accept("Second?")
			if outcome := l.end(t, id); outcome.Status != runs.Completed || len(l.backend.of(name+"below", "write")) != 1 {
				t.Errorf("it ended with %+v, and wrote %v", outcome, l.backend.of(name+"below", "write"))
			}
		})
	}
}

// A resumption was reset to the task in which it resumes a called run, after it had found
// that nobody else has: what that run has done meanwhile is not done again.
func TestAttackResetOfAResumptionAsItCalls(t *testing.T) {
	t.Parallel()
	l := newStopLab(t)
	l.called["below"] = define(t, "below", `steps: [{id: q, type: elicitation, message: Write?, timeout: 24h}, {id: w, tool: write_1, OF, dependsOn: [q]},
		{id: f, tool: fail_1, OF, dependsOn: [w]}]`)
	id := l.start(t, define(t, "above", "steps: [{id: c, type: workflow, workflow: below}]"))
	var seq int64
	answer := func(action string) {
		t.Helper()
		asked := nextEvent(t, l.door, id, &seq, runs.EventOpened)
		if _, err := l.door.Answer(t.Context(), id, runs.Answer{ElicitationID: asked.Elicitation.ID, Action: action, By: "ada"}); err != nil {
			t.Fatal(err)
		}
		nextEvent(t, l.door, id, &seq, runs.EventDone)
	}
	answer("decline")
	plan, err := l.door.Resumptions().Plan(t.Context(), id, history.ResumeRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.door.Resumptions().Execute(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	answer("accept")
	resetTo(t, l.temporal, string(id), "", "the call")
	answer("accept")
	if writes := l.backend.of("below", "write"); len(writes) != 1 {
		t.Errorf("written %d times", len(writes))
	}
}

// A run that ended before a worker had taken up its last execution, which resumes it or
// was reset to its beginning, is resumed by what that began with.
func TestResumeOfAnExecutionThatNobodyTookUp(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(t *testing.T, l *stopLab, id runs.RunID, plan *history.ResumePlan){
		"resumed": func(t *testing.T, l *stopLab, _ runs.RunID, plan *history.ResumePlan) {
			if err := l.door.Resumptions().Execute(t.Context(), plan); err != nil {
				t.Fatal(err)
			}
		},
		"reset": func(t *testing.T, l *stopLab, id runs.RunID, _ *history.ResumePlan) {
			resetTo(t, l.temporal, string(id), "", "first task")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newStopLab(t)
			id := l.start(t, define(t, name, "steps: [{id: w, tool: write_1, OF}, {id: f, tool: fail_1, OF, dependsOn: [w]}]"))
			l.end(t, id)
			plan, err := l.door.Resumptions().Plan(t.Context(), id, history.ResumeRequest{})
			if err != nil {
				t.Fatal(err)
			}
			l.worker.Stop()
			again(t, l, id, plan)
			if err := l.door.Terminate(t.Context(), id, "not now"); err != nil {
				t.Fatal(err)
			}
			l.work(t)
			if plan, err = l.door.Resumptions().Plan(t.Context(), id, history.ResumeRequest{}); err != nil {
				t.Fatal(err)
			}
			if err := l.door.Resumptions().Execute(t.Context(), plan); err != nil {
				t.Fatal(err)
			}
			if outcome := l.end(t, id); outcome.Status != runs.Failed || outcome.Failure.Error.StepID != "f" {
				t.Errorf("it ended with %+v", outcome.Failure)
			}
			if writes, fails := l.backend.of(name, "write"), l.backend.of(name, "fail"); len(writes) != 1 || len(fails) != 2 {
				t.Errorf("%d writes, %d failing calls", len(writes), len(fails))
			}
		})
	}
}

// A run was terminated, and with it the run that it had called, and is reset to a time at
// which that one was under way. Temporal does not tell it how that has ended. It is stopped
// and resumed nevertheless, and does nothing twice.
func TestAttackResetAfterTheCalledRunEnded(t *testing.T) {
	t.Parallel()
	l := newStopLab(t)
	l.called["below"] = define(t, "below", `steps: [{id: w, tool: write_1, OF}, {id: q, type: elicitation, message: Below?, timeout: 24h, dependsOn: [w]}]`)
	id := l.start(t, define(t, "above", "steps: [{id: c, type: workflow, workflow: below}]"))
	var seq int64
	asked := nextEvent(t, l.door, id, &seq, runs.EventOpened)
	perduretest.NoError(t, l.door.Terminate(t.Context(), id, "stuck"))
	l.end(t, id)
	l.end(t, runs.RunID(asked.Elicitation.Run))
	resetTo(t, l.temporal, string(id), "", "the question")
	perduretest.NoError(t, l.door.Cancel(t.Context(), id, ""))
	if outcome := l.end(t, id); outcome.Status != runs.Cancelled {
		t.Fatalf("it is %s", outcome.Status)
	}
	l.replay(t, id)
	plan, err := l.door.Resumptions().Plan(t.Context(), id, history.ResumeRequest{})
	perduretest.NoError(t, err)
	perduretest.NoError(t, l.door.Resumptions().Execute(t.Context(), plan))
	until(t, "the question", func() bool {
		run, err := l.door.Get(t.Context(), id)
		perduretest.NoError(t, err)
		if len(run.Open()) == 0 {
			return false
		}
		_, err = l.door.Answer(t.Context(), id, runs.Answer{ElicitationID: run.Open()[0].ID, Action: "accept", By: "ada"})
		perduretest.NoError(t, err)
		return true
	})
	if outcome := l.end(t, id); outcome.Status != runs.Completed || len(l.backend.of("below", "write")) != 1 {
		t.Errorf("it ended with %+v, and wrote %v", outcome, l.backend.of("below", "write"))
	}
}

// Such a run still asks what the called run had asked. With an answer it hears that this one
// has ended.
func TestResetOfARunThatAsksForOneThatHasEnded(t *testing.T) {
	t.Parallel()
	l := newStopLab(t)
	l.called["below"] = define(t, "below", "steps: [{id: q, type: elicitation, message: Below?, timeout: 24h}]")
	id := l.start(t, define(t, "above", "steps: [{id: c, type: workflow, workflow: below}]"))
	asked := l.asked(t, id, "")
	var seq int64
	perduretest.NoError(t, l.door.Terminate(t.Context(), id, "stuck"))
	nextEvent(t, l.door, id, &seq, runs.EventDone)
	l.end(t, runs.RunID(asked.Run))
	resetTo(t, l.temporal, string(id), "", "the question")
	until(t, "the question", func() bool {
		run := perduretest.Must(l.door.Get(t.Context(), id))(t)
		return run.Closed == nil && len(run.Open()) == 1
	})
	answered, done := context.WithTimeout(t.Context(), 5*time.Second)
	defer done()
	_, _ = l.door.Answer(answered, id, runs.Answer{ElicitationID: asked.ID, Action: "accept", By: "ada"}) // nobody takes it
	if outcome := nextEvent(t, l.door, id, &seq, runs.EventDone).Outcome; outcome.Failure == nil || outcome.Failure.Error.Code != "workflow_terminated" {
		t.Errorf("it ended with %+v", outcome.Failure)
	}
	l.replay(t, id)
}

// A run waits for a run that it has called, and of which somebody resets an execution that
// came before: Temporal tells neither of the other. The run above hears how that ends, and
// takes it along when it is cancelled.
func TestAttackResetOfACalledRunBefore(t *testing.T) {
	t.Parallel()
	for action, want := range map[string]runs.Status{"accept": runs.Completed, "cancel": runs.Cancelled} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			l := newStopLab(t)
			l.called["below"] = define(t, "below", `steps: [{id: w, tool: write_1, OF}, {id: q, type: elicitation, message: Below?, timeout: 24h, dependsOn: [w]}]`)
			id := l.start(t, define(t, "above", "steps: [{id: c, type: workflow, workflow: below}]"))
			asked := l.asked(t, id, "")
			below := runs.RunID(asked.Run)
			first := l.execution(t, below)
			perduretest.Must(l.door.Answer(t.Context(), id, runs.Answer{ElicitationID: asked.ID, Action: "decline", By: "ada"}))(t)
			l.end(t, id)
			plan := perduretest.Must(l.door.Resumptions().Plan(t.Context(), id, history.ResumeRequest{}))(t)
			perduretest.NoError(t, l.door.Resumptions().Execute(t.Context(), plan))
			asked = l.asked(t, id, asked.ID)
			resetTo(t, l.temporal, string(below), first, "first task")
			if action == "cancel" {
				perduretest.NoError(t, l.door.Cancel(t.Context(), id, ""))
			} else {
				until(t, "the question of the execution that was reset", func() bool {
					run := perduretest.Must(l.door.Get(t.Context(), below))(t)
					return len(run.Open()) > 0
				})
				perduretest.Must(l.door.Answer(t.Context(), below, runs.Answer{ElicitationID: "q#1", Action: action, By: "ada"}))(t)
			}
			for _, run := range []runs.RunID{below, id} {
				if outcome := l.end(t, run); outcome.Status != want {
					t.Errorf("%s ended with %+v", run, outcome)
				}
				l.replay(t, run)
			}
			if writes := l.backend.of("below", "write"); len(writes) != 1 {
				t.Errorf("written %d times", len(writes))
			}
		})
	}
}

// A run that was reset takes for open what a called run had asked and has closed since: the
// first answer tells it so.
func TestResetOfARunThatTakesAnElicitationForOpen(t *testing.T) {
	t.Parallel()
	l := newStopLab(t)
	l.called["below"] = define(t, "below", `steps: [{id: q, type: elicitation, message: First?, timeout: 24h}, {id: r, type: elicitation, message: Second?, timeout: 24h, dependsOn: [q]}]`)
	id := l.start(t, define(t, "above", "steps: [{id: c, type: workflow, workflow: below}]"))
	first := l.asked(t, id, "")
	perduretest.Must(l.door.Answer(t.Context(), id, runs.Answer{ElicitationID: first.ID, Action: "accept", By: "ada"}))(t)
	l.asked(t, id, first.ID)
	resetTo(t, l.temporal, string(id), "", "after the question")
	until(t, "the first question", func() bool {
		return len(perduretest.Must(l.door.Get(t.Context(), id))(t).Open()) == 1
	})
	d := perduretest.Must(l.door.Answer(t.Context(), id, runs.Answer{ElicitationID: first.ID, Action: "decline", By: "bob"}))(t)
	if d.Won || d.Action != "accept" || d.By != "ada" {
		t.Errorf("the second answer came to %+v", d)
	}
	perduretest.NoError(t, l.door.Cancel(t.Context(), id, ""))
	l.end(t, id)
	l.replay(t, id)
}

// What a called run did was undone, and the run above is reset to before it called: another
// run does it again, and that is undone again, or stays.
func TestAttackResetOfAnUndoneCalledRun(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]string{
		"a step":   "steps: [{id: c, type: workflow, workflow: below, compensate: {tool: undo_1, OF}}, {id: g, type: elicitation, message: Go on?, timeout: 24h, dependsOn: [c]}]",
		"a script": `script: "call_workflow('below', {}, None, policy(undo = undo('undo_1', {'of': 'above'})))\napprove('Go on?')"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newStopLab(t)
			l.called["below"] = define(t, "below", "steps: [{id: w, tool: write_1, OF}]")
			id := l.start(t, define(t, "above", step))
			answer := func(action string) {
				t.Helper()
				asked := l.asked(t, id, "")
				perduretest.Must(l.door.Answer(t.Context(), id, runs.Answer{ElicitationID: asked.ID, Action: action, By: "ada"}))(t)
				l.end(t, id)
			}
			count := func(writes, undos int) {
				t.Helper()
				if w, u := len(l.backend.of("below", "write")), len(l.backend.of("above", "undo")); w != writes || u != undos {
					t.Errorf("%d writes, %d undone; want %d, %d", w, u, writes, undos)
				}
			}
			answer("decline")
			count(1, 1)
			resetTo(t, l.temporal, string(id), "", "first task")
			answer("decline")
			count(2, 2)
			resetTo(t, l.temporal, string(id), "", "first task")
			answer("accept")
			count(3, 2)
			resetTo(t, l.temporal, string(id), "", "first task") // takes up the called run
			answer("decline")
			count(3, 3)
			resetTo(t, l.temporal, string(id), "", "after the question")
			answer("decline")
			count(3, 3)
			l.replay(t, id)
		})
	}
}

// A called run is reset to before what people have answered, and asks it again: through the
// run above, as the first time.
func TestResetOfACalledRunAsksAgain(t *testing.T) {
	t.Parallel()
	l := newStopLab(t)
	l.called["below"] = define(t, "below", `steps: [{id: q, type: elicitation, message: First?, timeout: 24h}, {id: w, tool: write_1, OF, dependsOn: [q]},
		{id: r, type: elicitation, message: Second?, timeout: 24h, dependsOn: [w]}]`)
	id := l.start(t, define(t, "above", "steps: [{id: c, type: workflow, workflow: below}]"))
	asks := func(run runs.RunID, message string) *runs.Elicitation {
		open := perduretest.Must(l.door.Get(t.Context(), run))(t).Open()
		if i := slices.IndexFunc(open, func(e runs.Elicitation) bool { return e.Message == message }); i >= 0 {
			return &open[i]
		}
		return nil
	}
	accept := func(message string) (below runs.RunID) {
		t.Helper()
		until(t, message, func() bool {
			e := asks(id, message)
			if e == nil || asks(runs.RunID(e.Run), message) == nil { // of before the reset
				return false
			}
			below = runs.RunID(e.Run)
			perduretest.Must(l.door.Answer(t.Context(), id, runs.Answer{ElicitationID: e.ID, Action: "accept", By: "ada"}))(t)
			return true
		})
		return below
	}
	below := accept("First?")
	l.asked(t, id, "c/q#1")
	resetTo(t, l.temporal, string(below), "", "first task")
	accept("First?")
	accept("Second?")
	if outcome := l.end(t, id); outcome.Status != runs.Completed || len(l.backend.of("below", "write")) != 1 {
		t.Errorf("it ended with %+v, and wrote %v", outcome, l.backend.of("below", "write"))
	}
	l.replay(t, id)
}

// A called run that somebody resets or resumes after the run above has ended does not wait for
// that: it makes its calls, and ends.
func TestAttackCalledRunAfterTheEndAbove(t *testing.T) {
	t.Parallel()
	l := newStopLab(t)
	l.called["below"] = define(t, "below", "steps: [{id: w, tool: write_1, OF}, {id: f, tool: fail_1, OF, dependsOn: [w]}]")
	if outcome := l.end(t, l.start(t, define(t, "above", "steps: [{id: c, type: workflow, workflow: below, onError: {action: continue}}]"))); outcome.Status != runs.Completed {
		t.Fatalf("the run above ended with %+v", outcome.Failure)
	}
	below := perduretest.Must(l.door.List(t.Context(), runs.Filter{Called: true, Tool: "below", Limit: 1}))(t)[0].ID
	var seq int64
	ended := func(fails int) {
		t.Helper()
		if outcome := nextEvent(t, l.door, below, &seq, runs.EventDone).Outcome; outcome.Failure == nil || outcome.Failure.Error.StepID != "f" {
			t.Errorf("it ended with %+v", outcome.Failure)
		}
		if w, f := len(l.backend.of("below", "write")), len(l.backend.of("below", "fail")); w != 1 || f != fails {
			t.Errorf("%d writes, %d failing calls; want 1, %d", w, f, fails)
		}
	}
	ended(1)
	resetTo(t, l.temporal, string(below), "", "first task")
	ended(2)
	plan := perduretest.Must(l.door.Resumptions().Plan(t.Context(), below, history.ResumeRequest{}))(t)
	perduretest.NoError(t, l.door.Resumptions().Execute(t.Context(), plan))
	ended(3)
}

// asked is the first open elicitation of a run but for the one with an ID.
func (l *stopLab) asked(t *testing.T, id runs.RunID, but string) (asked runs.Elicitation) {
	t.Helper()
	until(t, "the question", func() bool {
		run := perduretest.Must(l.door.Get(t.Context(), id))(t)
		open := slices.DeleteFunc(run.Open(), func(e runs.Elicitation) bool { return e.ID == but })
		if len(open) > 0 {
			asked = open[0]
		}
		return len(open) > 0
	})
	return asked
}

// execution is the ID of the execution of a run that was started last.
func (l *stopLab) execution(t *testing.T, id runs.RunID) string {
	t.Helper()
	d := perduretest.Must(l.temporal.DescribeWorkflowExecution(t.Context(), string(id), ""))(t)
	return d.WorkflowExecutionInfo.Execution.RunId
}
