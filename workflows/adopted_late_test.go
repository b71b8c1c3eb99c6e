package workflows_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/workflows"
)

// TestAdoptedWhileItEnds: the run above continues as new while a called run, which has
// told all there was, waits for a workflow task that has room for its outcome. It tells
// that it ends nevertheless.
func TestAdoptedWhileItEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t, `{name: a, description: d, steps: [
		{id: each, type: forEach, collection: "{{json .params.items}}", maxParallel: 40, step: {type: tool, tool: read_page}}
	], output: {properties: {pages: {type: array, description: d, value: "{{json .steps.each.output.iterations}}"}}}}`, fmt.Sprintf(`{"items":[%s0]}`, strings.Repeat("0,", 33)),
		map[string]toolFunc{"read_page": func(workflows.ToolCall) (string, error) {
			return `{"text":"` + strings.Repeat("x", 50<<10) + `"}`, nil
		}})
	b.input.Parent = &workflows.Parent{RunID: "above/1", StepPath: "call"}
	waits, ends := false, false
	b.env.SetOnTimerScheduledListener(func(_ string, d time.Duration) {
		if d == time.Millisecond && !waits {
			waits = true
			b.env.RegisterDelayedCallback(func() { b.signal(workflows.AdoptSignal, workflows.Adopted{StepPath: "call"}) }, 0)
		}
	})
	b.env.OnSignalExternalWorkflow(anything, "above/1", anything, workflows.ChildSignal, anything).Return(
		func(_, _, _, _ string, body any) error {
			var told workflows.ChildReport
			if s, ok := body.(workflows.Signal); ok && json.Unmarshal(s.Body, &told) == nil {
				ends = ends || told.Ends
			}
			return nil
		})
	if _, failure := b.run(); failure != nil {
		t.Fatal(failure.Error)
	}
	if !waits || !ends {
		t.Errorf("waited %t, told that it ends %t", waits, ends)
	}
}

// TestAdoptedAfterItsParentWasGone: the run above has ended, so that a called run stops,
// and waits for a person since it cannot undo something; then the run above is resumed and
// waits for it. It tells that it ends.
func TestAdoptedAfterItsParentWasGone(t *testing.T) {
	t.Parallel()
	b := newBench(t, `{name: a, description: d, timeout: 100h, steps: [
		{id: w, tool: write, compensate: {tool: undo}},
		{id: g, type: elicitation, message: m, timeout: 50h, dependsOn: [w]}
	]}`, `{}`, map[string]toolFunc{"undo": failing})
	b.input.Parent = &workflows.Parent{RunID: "above/1", StepPath: "call"}
	resumed, ends := false, 0
	b.env.OnSignalExternalWorkflow(anything, "above/1", anything, workflows.ChildSignal, anything).Return(
		func(_, _, _, _ string, body any) error {
			if !resumed {
				return errors.New("it has ended")
			}
			var told workflows.ChildReport
			if s, ok := body.(workflows.Signal); ok && json.Unmarshal(s.Body, &told) == nil && told.Ends {
				ends++
			}
			return nil
		})
	b.env.RegisterDelayedCallback(func() {
		resumed = true
		b.signal(workflows.AdoptSignal, workflows.Adopted{StepPath: "call", Lacks: true})
	}, time.Hour)
	b.answer(2*time.Hour, "w/compensate#1", "accept", "")
	if _, failure := b.run(); failure == nil || failure.Error.Code != "parent_gone" {
		t.Fatalf("it ended with %+v", failure)
	}
	if ends != 1 {
		t.Errorf("it told %d times that it ends", ends)
	}
}
