package runs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// The log is in the order of time and names who acted: calls and their attempts,
// questions, answers that were not taken, a cancel, and a resumption.
func TestLog(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	s := newScript(t)
	tries := 0
	s.fail("one", func(call workflows.ToolCall) error {
		if tries++; tries < 2 {
			return workflows.Report(workflows.Attempt{Call: call, Number: tries}.Answered("not yet"))
		}
		return nil
	})
	id := start(t, c, request(t, `
name: log
description: Has something to tell.
parameters: {type: object, properties: {as: {type: string}}}
steps:
  - {id: one, tool: write, arguments: {as: "{{.params.as}}"}, onError: {action: retry, retryCount: 2, retryDelay: 10ms}}
  - {id: pause, type: wait, for: 10ms, dependsOn: [one]}
  - {id: two, type: elicitation, dependsOn: [pause], message: Go on?, schema: {type: object, properties: {n: {type: integer}}, required: [n]}}
  - {id: three, tool: write, dependsOn: [two], arguments: {as: "{{.params.as}}"}}
  - {id: four, type: elicitation, dependsOn: [three], message: And now?}
`))
	following := make(chan []string, 1)
	go func() { following <- logOf(t, c, id, true) }()

	opened := followTo(t, c, id, 0, runs.EventOpened)
	two := opened[len(opened)-1].Elicitation.ID
	signal(t, id, workflows.Answer{ElicitationID: two, Action: "accept", Content: json.RawMessage(`{"n":"x"}`), AnsweredBy: "eve", AnswerID: "1"})
	answer(t, c, id, runs.Answer{ElicitationID: two, Action: "accept", Content: json.RawMessage(`{"n":1}`), By: "ada"})
	for e, err := range c.Follow(t.Context(), id, 0, runs.AllEvents) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == runs.EventOpened && e.Elicitation.StepPath == "four" {
			break
		}
	}
	signal(t, id, workflows.Answer{ElicitationID: two, Action: "decline", AnsweredBy: "bob", AnswerID: "2"})
	awaitLog(t, c, id, func(e runs.LogEntry) bool { return e.Kind == runs.LogUntaken && e.By == "bob" })
	perduretest.NoError(t, c.Cancel(t.Context(), id, "by carol"))
	followTo(t, c, id, 0, runs.EventDone)
	want := []string{
		"run_started log sha256: was called by alice",
		"call_started one calls write",
		"call_attempt one attempt 2, as attempt 1 failed: step one: write failed: not yet",
		"call_ended one write completed",
		"step_waits pause waits until",
		"question_opened two asks: Go on? (until",
		"answer_not_taken two eve answers accept, which is not taken: it does not fit:",
		`question_closed two accepted by ada: {"n":1}`,
		"call_started three calls write",
		"call_ended three write completed",
		"question_opened four asks: And now? (until",
		"answer_not_taken two bob answers decline, which is not taken: it comes too late",
		"cancel_requested cancellation requested: by carol",
		"question_closed four closed without an answer",
		"run_ended cancelled: log was cancelled in step four",
	}
	got := logOf(t, c, id, false)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the log (-want +got):\n%s", diff)
	}
	select {
	case followed := <-following:
		slices.Sort(followed) // the attempt is told when the call has ended
		slices.Sort(got)
		if diff := cmp.Diff(got, followed); diff != "" {
			t.Errorf("what was told meanwhile (-log +told):\n%s", diff)
		}
	case <-time.After(time.Minute):
		t.Fatal("the log does not end with the run")
	}

	resumeRun(t, c, id, history.ResumeRequest{By: "dora"})
	for e, err := range c.Follow(t.Context(), id, 0, runs.AllEvents) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == runs.EventOpened && e.Elicitation.ID == "four#2" {
			break
		}
	}
	want = append(want, "run_resumed resumption 1 by dora: resumed", "question_opened four asks: And now? (until")
	if diff := cmp.Diff(want, logOf(t, c, id, false)); diff != "" {
		t.Errorf("the log after a resumption (-want +got):\n%s", diff)
	}
}

// The log has what scripts say, whether the script is in a definition, in a step, or in
// a run that a step has called.
func TestLogOfScripts(t *testing.T) {
	t.Parallel()
	c, _ := compose(t)
	id := start(t, c, composition(t, `
name: saying
description: Says how far it is.
script: |
  print("begins")
  r = call_workflow("NAME")
  progress(1, 2, "called")
  return r
---
name: NAME
description: Has a step that is a script.
steps:
  - {id: one, tool: write}
  - id: two
    type: script
    dependsOn: [one]
    script: |
      log("hello", 1)
      progress(3)
      progress(0)
      return 7
`))
	followTo(t, c, id, 0, runs.EventDone)
	begun, err := c.CalledWith(t.Context(), id)
	if shown, err := c.Show(t.Context(), id); err != nil || !strings.HasPrefix(begun.Script, "print(\"begins\")\nr = ") || shown.Script != begun.Script {
		t.Errorf("the script is shown as %q, %v, and read as %q", shown.Script, err, begun.Script)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"run_started saying sha256: was called by alice",
		"script_said script/main:1 begins",
		"call_started script/main:2 calls testlogofscripts",
		"call_ended script/main:2 testlogofscripts completed",
		"script_said script/main:3 called (1 of 2)",
		"run_ended completed",
	}
	if diff := cmp.Diff(want, logOf(t, c, id, false)); diff != "" {
		t.Errorf("the log (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, logOf(t, c, id, true)); diff != "" {
		t.Errorf("the log that is followed (-want +got):\n%s", diff)
	}
	shown := perduretest.Must(c.Show(t.Context(), id))(t)
	want = []string{
		"run_started testlogofscripts sha256: was called by alice",
		"call_started one calls write",
		"call_ended one write completed",
		"script_said two/main:1 hello 1",
		"script_said two/main:2 3",
		"script_said two/main:3 0",
		"run_ended completed",
	}
	if diff := cmp.Diff(want, logOf(t, c, shown.Steps[0].Run, false)); diff != "" {
		t.Errorf("the log of the called run (-want +got):\n%s", diff)
	}
}

// The error of a script names the lines of the script that it has called, too.
func TestWhereACalledScriptFailed(t *testing.T) {
	t.Parallel()
	c, _ := compose(t)
	id := start(t, c, composition(t, `
name: above
description: Calls a script that fails.
script: |
  def f(n):
    return call_workflow("NAME", n=n)
  return map_parallel(f, [1])
---
name: NAME
description: Fails.
parameters: {type: object, properties: {n: {type: integer}}}
script: |
  x = data["n"]
  return [][x]
`))
	events := followTo(t, c, id, 0, runs.EventDone)
	e := events[len(events)-1].Outcome.Failure.Error
	want := "Traceback (most recent call last):\n  script:3:20: in main\n  script:2:23: in f\nIn testwhereacalledscriptfailed:\n  script:2:10: in main"
	if e.Backtrace != want || e.Tool != "testwhereacalledscriptfailed" {
		t.Errorf("of %s:\n%s\nwant\n%s", e.Tool, e.Backtrace, want)
	}
}

// A script says itself how far the run is; one that counts anew continues after what it
// has counted.
func TestScriptsSayHowFar(t *testing.T) {
	t.Parallel()
	c, _ := connect(t)
	id := start(t, c, request(t, `
name: counting
description: Counts.
script: |
  log("a")
  progress(1, 4, "one")
  log("b")
  progress(4, 4)
  progress(1, 2)
  progress(2)
`))
	var got []string
	for _, e := range followTo(t, c, id, 0, runs.EventDone) {
		if !e.ByScript {
			t.Errorf("%s is counted by steps", e.Kind)
		}
		got = append(got, fmt.Sprintf("%s %g/%g", e.What, e.Done, e.Total))
	}
	want := []string{"a 0/0", "one (1 of 4) 1/4", "b 1/4", "4 of 4 4/4", "1 of 2 5/6", "2 6/0", " 6/0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// logOf is a line for each entry, without what is different each time.
func logOf(t *testing.T, c *runs.Client, id runs.RunID, follow bool) []string {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var lines []string
	last := time.Time{}
	for e, err := range c.Log(ctx, id, follow) {
		if err != nil {
			t.Error(err)
			return lines
		}
		if !follow && e.At.Before(last) {
			t.Errorf("%s comes before what is told before", e.Text)
		}
		last = e.At
		line := strings.Join(strings.Fields(fmt.Sprint(e.Kind, " ", e.Step, " ", e.Text)), " ")
		for _, varies := range []string{"waits until", "(until", "it does not fit:"} {
			if before, _, ok := strings.Cut(line, varies); ok {
				line = before + varies
			}
		}
		if before, after, ok := strings.Cut(line, "sha256:"); ok {
			_, after, _ = strings.Cut(after, " ")
			line = before + "sha256: " + after
		}
		lines = append(lines, line)
	}
	return lines
}

// awaitLog waits until the log of a run has an entry, and gives it.
func awaitLog(t *testing.T, c *runs.Client, id runs.RunID, wanted func(runs.LogEntry) bool) runs.LogEntry {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for e, err := range c.Log(ctx, id, true) {
		if err != nil {
			t.Fatal(err)
		}
		if wanted(e) {
			return e
		}
	}
	t.Fatalf("the log of %s ends without what is wanted", id)
	return runs.LogEntry{}
}

func signal(t *testing.T, id runs.RunID, a workflows.Answer) {
	t.Helper()
	_, tc := connect(t)
	if err := tc.SignalWorkflow(t.Context(), string(id), "", workflows.AnswerSignal, signed(workflows.AnswerSignal, string(id), a)); err != nil {
		t.Fatal(err)
	}
}
