package workflows_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/view"
)

// plan is the dry run of a case.
func (c *testCase) plan(t *testing.T) *view.Plan {
	t.Helper()
	defs, diags := definitions.Parse("test.yaml", []byte(c.source()))
	program, err := definitions.Compile(c.def)
	if err = errors.Join(err, diags.Err()); err != nil {
		t.Fatal(err)
	}
	effects := map[string]definitions.Effect{"read": definitions.Read, "write": definitions.Unsafe, "undo": definitions.Unsafe}
	plan, err := view.NewPlan(program, json.RawMessage(`{}`), view.PlanOptions{Definitions: definitions.Among(defs), Tools: func(name string) (definitions.Tool, bool) {
		return definitions.Tool{Name: name, Backend: "be", Effect: effects[name]}, effects[name] != ""
	}})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// comparePlan reports what a run did otherwise than its dry run had said.
func (c *testCase) comparePlan(plan *view.Plan, got *observed) (problems []string) {
	problem := func(format string, args ...any) {
		problems = append(problems, "the dry run is wrong: "+fmt.Sprintf(format, args...))
	}
	steps := map[string]view.PlannedStep{}
	for _, s := range plan.Steps {
		steps[s.Path] = s
	}
	if plan.Problem != "" && got.failure == nil {
		problem("the run was to fail: %s", plan.Problem)
	}
	c.comparePlannedCalls(plan, got, problem)
	c.compareHolding(plan, got, problem)
	if got.failure == nil {
		c.comparePlannedStates(steps, got, problem)
	}
	for _, value := range plan.Output {
		if text, known := got.output[value.Name]; known && value.State == view.Known && string(value.Value) != strconv.Quote(text) {
			problem("output %s was to be %s, and is %q", value.Name, value.Value, text)
		}
	}
	return problems
}

// comparePlannedCalls compares what was called, with what, and how often.
func (c *testCase) comparePlannedCalls(plan *view.Plan, got *observed, problem func(string, ...any)) {
	var paths, writes []string
	for _, call := range got.calls {
		path, arguments, _ := strings.Cut(call, " ")
		step, known := plannedStep(plan.Steps, path, problem)
		if known && step.Runs == view.No {
			problem("%s was not to run", path)
		}
		if want, known := knownArguments(step); known && want != arguments {
			problem("%s was to be called with %s, not %s", path, want, arguments)
		}
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
			if c.toolOf(path) == "write" {
				writes = append(writes, index.ReplaceAllString(path, ""))
			}
		}
	}
	for _, id := range writes {
		if !slices.ContainsFunc(plan.Writes, func(w view.PlannedWrite) bool { return w.Step == id && w.Runs != view.No }) {
			problem("%s wrote, which no write of the plan is", id)
		}
	}
	most := plan.AtMost
	if int64(len(paths)) > most.Calls || int64(len(got.calls)) > most.Attempts || int64(len(writes)) > most.Writes {
		problem("%d calls, %d attempts and %d writes are more than %+v", len(paths), len(got.calls), len(writes), most)
	}
}

// index is that of an item in a path.
var index = regexp.MustCompile(`\[\d+\]`)

// plannedStep finds what is planned for a path, also in what steps call; not known
// are items that are not shown.
func plannedStep(steps []view.PlannedStep, path string, problem func(string, ...any)) (step view.PlannedStep, known bool) {
	at, rest, isBelow := strings.Cut(path, "/")
	id, index, isItem := strings.Cut(strings.TrimSuffix(at, "]"), "[")
	if i := slices.IndexFunc(steps, func(s view.PlannedStep) bool { return s.Path == id }); i >= 0 {
		step, known = steps[i], true
	}
	if isItem && known {
		i, _ := strconv.Atoi(index)
		if step.Loop.Count != nil && i >= *step.Loop.Count {
			problem("%s was called of %d items", path, *step.Loop.Count)
		}
		switch {
		case step.Runs == view.No:
		case i < len(step.Loop.Items):
			step = step.Loop.Items[i].Step
		default:
			return view.PlannedStep{}, false
		}
	}
	if isBelow && step.Called != nil && step.Runs != view.No {
		return plannedStep(step.Called.Steps, rest, problem)
	}
	return step, known
}

// knownArguments are those of a call, if the plan has all of them.
func knownArguments(step view.PlannedStep) (arguments string, known bool) {
	if step.PlannedCall == nil || len(step.Arguments) != 1 || step.Arguments[0].State != view.Known {
		return "", false
	}
	return `{"v":` + string(step.Arguments[0].Value) + `}`, true
}

// toolOf gives the tool that a step calls, itself or for each item.
func (c *testCase) toolOf(path string) string {
	id, below, isBelow := strings.Cut(path, "/")
	id, _, _ = strings.Cut(id, "[")
	if isBelow {
		return c.calls[id].toolOf(below)
	}
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
func (c *testCase) compareHolding(plan *view.Plan, got *observed, problem func(string, ...any)) {
	for _, write := range plan.Writes {
		made := slices.ContainsFunc(got.calls, func(call string) bool {
			path, _, _ := strings.Cut(call, " ")
			return index.ReplaceAllString(path, "") == write.Step
		})
		for _, gate := range write.Approvals {
			if made && gate.Holds == view.Yes && !c.accepted(gate.Step) {
				problem("%s wrote although %s was not accepted", write.Step, gate.Step)
			}
		}
	}
}

func (c *testCase) accepted(path string) bool {
	in, id := c, path
	for {
		call, below, ok := strings.Cut(id, "/")
		if !ok {
			break
		}
		in, id = in.calls[call], below
	}
	i := slices.IndexFunc(in.def.Steps, func(s *definitions.Step) bool { return s.ID == id })
	return c.answers[path] == "accept" && c.delays[path] < time.Duration(in.def.Steps[i].Timeout)
}

// comparePlannedStates compares what became of the steps of a run that
// completed.
func (c *testCase) comparePlannedStates(steps map[string]view.PlannedStep, got *observed, problem func(string, ...any)) {
	mayStop := c.def.FailureMode == definitions.BestEffort // and skip what waits for a failed step
	for _, s := range c.def.Steps {
		for _, h := range []*definitions.Handler{s.OnDecline, s.OnCancel} {
			mayStop = mayStop || h != nil && h.Action == definitions.SkipRemaining
		}
	}
	for id, step := range steps {
		status, _, _ := strings.Cut(strings.TrimSpace(got.output[id]), "/")
		switch {
		case step.Runs == view.No && status != "skipped":
			problem("%s was not to run, and is %s", id, status)
		case step.Runs == view.Yes && status == "skipped" && !mayStop:
			problem("%s was to run, and is skipped", id)
		}
	}
}
