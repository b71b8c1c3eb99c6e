package workflows_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/definitions"
)

// plan is the dry run of a case.
func (c *testCase) plan(t *testing.T) *definitions.Plan {
	t.Helper()
	program, err := definitions.Compile(c.def)
	if err != nil {
		t.Fatal(err)
	}
	effects := map[string]definitions.Effect{"read": definitions.Read, "write": definitions.Unsafe, "undo": definitions.Unsafe}
	plan, err := program.Plan(json.RawMessage(`{}`), func(name string) (definitions.Tool, bool) {
		return definitions.Tool{Name: name, Backend: "be", Effect: effects[name]}, effects[name] != ""
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// comparePlan says what a run did otherwise than its dry run had said.
func (c *testCase) comparePlan(plan *definitions.Plan, got *observed) (problems []string) {
	problem := func(format string, args ...any) {
		problems = append(problems, "the dry run is wrong: "+fmt.Sprintf(format, args...))
	}
	steps := map[string]definitions.PlannedStep{}
	for _, s := range plan.Steps {
		steps[s.Path] = s
	}
	if plan.Problem != "" && got.failure == nil {
		problem("the run was to fail: %s", plan.Problem)
	}
	c.comparePlannedCalls(plan, steps, got, problem)
	c.compareHolding(plan, got, problem)
	if got.failure == nil {
		c.comparePlannedStates(steps, got, problem)
	}
	for _, value := range plan.Output {
		if text, known := got.output[value.Name]; known && value.State == definitions.Known && string(value.Value) != strconv.Quote(text) {
			problem("output %s was to be %s, and is %q", value.Name, value.Value, text)
		}
	}
	return problems
}

// comparePlannedCalls compares what was called, with what, and how often.
func (c *testCase) comparePlannedCalls(plan *definitions.Plan, steps map[string]definitions.PlannedStep, got *observed, problem func(string, ...any)) {
	var paths, writes []string
	for _, call := range got.calls {
		path, arguments, _ := strings.Cut(call, " ")
		id, index, isItem := strings.Cut(strings.TrimSuffix(path, "]"), "[")
		step := steps[id]
		if isItem {
			i, _ := strconv.Atoi(index)
			if step.Loop.Count != nil && i >= *step.Loop.Count {
				problem("%s was called of %d items", path, *step.Loop.Count)
			}
			if i >= len(step.Loop.Items) {
				i = -1 // is not shown
			} else if step.Runs != definitions.No {
				step = step.Loop.Items[i].Step
			}
			if i < 0 {
				step.PlannedCall = nil
			}
		}
		if step.Runs == definitions.No {
			problem("%s was not to run", path)
		}
		if want, known := knownArguments(step); known && want != arguments {
			problem("%s was to be called with %s, not %s", path, want, arguments)
		}
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
			if c.calls(id) == "write" {
				writes = append(writes, id)
			}
		}
	}
	for _, id := range writes {
		if !slices.ContainsFunc(plan.Writes, func(w definitions.PlannedWrite) bool { return w.Step == id && w.Runs != definitions.No }) {
			problem("%s wrote, which no write of the plan is", id)
		}
	}
	most := plan.AtMost
	if int64(len(paths)) > most.Calls || int64(len(got.calls)) > most.Attempts || int64(len(writes)) > most.Writes {
		problem("%d calls, %d attempts and %d writes are more than %+v", len(paths), len(got.calls), len(writes), most)
	}
}

// knownArguments are those of a call, if the plan has all of them.
func knownArguments(step definitions.PlannedStep) (arguments string, known bool) {
	if step.PlannedCall == nil || len(step.Arguments) != 1 || step.Arguments[0].State != definitions.Known {
		return "", false
	}
	return `{"v":` + string(step.Arguments[0].Value) + `}`, true
}

// calls gives the tool that a step calls, itself or for each item.
func (c *testCase) calls(id string) string {
	for _, s := range c.def.Steps {
		switch {
		case s.ID == id && s.Step != nil:
			return s.Step.Tool
		case s.ID == id:
			return s.Tool
		}
	}
	return ""
}

// compareHolding holds that a write was made only if each gate that was to hold
// it was accepted.
func (c *testCase) compareHolding(plan *definitions.Plan, got *observed, problem func(string, ...any)) {
	for _, write := range plan.Writes {
		made := slices.ContainsFunc(got.calls, func(call string) bool {
			return strings.HasPrefix(call, write.Step+" ") || strings.HasPrefix(call, write.Step+"[")
		})
		for _, gate := range write.Gates {
			if made && gate.Holds == definitions.Yes && !c.accepted(gate.Step) {
				problem("%s wrote although %s was not accepted", write.Step, gate.Step)
			}
		}
	}
}

func (c *testCase) accepted(id string) bool {
	i := slices.IndexFunc(c.def.Steps, func(s *definitions.Step) bool { return s.ID == id })
	return c.answers[id] == "accept" && c.delays[id] < time.Duration(c.def.Steps[i].Timeout)
}

// comparePlannedStates compares what became of the steps of a run that
// completed.
func (c *testCase) comparePlannedStates(steps map[string]definitions.PlannedStep, got *observed, problem func(string, ...any)) {
	mayStop := c.def.FailureMode == definitions.BestEffort // and skip what waits for a failed step
	for _, s := range c.def.Steps {
		for _, h := range []*definitions.Handler{s.OnDecline, s.OnCancel} {
			mayStop = mayStop || h != nil && h.Action == definitions.SkipRemaining
		}
	}
	for id, step := range steps {
		status, _, _ := strings.Cut(strings.TrimSpace(got.output[id]), "/")
		switch {
		case step.Runs == definitions.No && status != "skipped":
			problem("%s was not to run, and is %s", id, status)
		case step.Runs == definitions.Yes && status == "skipped" && !mayStop:
			problem("%s was to run, and is skipped", id)
		}
	}
}
