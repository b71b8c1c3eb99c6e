package workflows_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows"
)

var (
	caseCount = flag.Int("cases", 50, "random definitions that TestRandomDefinitions, TestResumeOfRandomRuns and TestRandomRunsInTrouble run")
	caseSeed  = flag.Uint64("case", 0, "seed of the only case that they run; 0 = all")
)

// Random definitions, with random tools and people, come to what a sequential
// reading of the rules says (see reference_test.go), and do nothing that their
// dry run says otherwise (see plan_test.go). Calls take no time there;
// people, waits and the pauses between attempts do, and no two of them end in
// the same moment, so nearly everything is decided. What is not, because it
// happens in the very moment in which the run fails, may go either way.
func TestRandomDefinitions(t *testing.T) {
	t.Parallel()
	forRandomCases(t, func(t *testing.T, c *testCase) {
		want := c.reference()
		got := c.run(t, want)
		for _, problem := range slices.Concat(want.compare(c, got), c.comparePlan(c.plan(t), got)) {
			t.Error(problem)
		}
	})
}

// forRandomCases runs a test with as many cases as -cases says, or with that of
// -case.
func forRandomCases(t *testing.T, test func(*testing.T, *testCase)) {
	forSeeds(t, func(t *testing.T, seed uint64) {
		c := randomCase(seed)
		defer func() {
			if t.Failed() {
				t.Log(c.source())
			}
		}()
		test(t, c)
	})
}

// forSeeds runs a test with each seed, and says of one that fails how to repeat it.
func forSeeds(t *testing.T, test func(t *testing.T, seed uint64)) {
	first, last := uint64(1), uint64(*caseCount)
	if *caseSeed > 0 {
		first, last = *caseSeed, *caseSeed
	}
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			defer func() {
				if t.Failed() {
					t.Logf("repeat it with: go test ./workflows -run %s -case %d", strings.TrimSuffix(t.Name(), "/"+fmt.Sprint(seed)), seed)
				}
			}()
			test(t, seed)
		})
	}
}

// A randomCase is a definition and all that it meets.
type testCase struct {
	def      *definitions.Definition
	failures map[string]int           // by step path: attempts that fail before one succeeds; missing = 0
	answers  map[string]string        // by step: how a person answers; "" = nobody
	delays   map[string]time.Duration // by step: after which the person answers
	cancel   time.Duration            // when somebody cancels the run; 0 = never
	suggest  []time.Duration          // when Temporal suggests to continue as new, in each execution
	input    *workflows.RunInput      // of a run that is resumed, in which every question is accepted; nil = of a new one
	began    time.Time                // when that is

	calls map[string]*testCase // by step: the definition that it calls, and what is in that; paths are those seen from the run above
	quick bool                 // nothing in it takes time
}

// always is more failures than there are attempts.
const always = 100

func randomCase(seed uint64) *testCase {
	rnd := rand.New(rand.NewPCG(seed, 1))
	c := &testCase{failures: map[string]int{}, answers: map[string]string{}, delays: map[string]time.Duration{}, calls: map[string]*testCase{}}
	c.def = &definitions.Definition{
		Name: "random", Description: "d", Timeout: definitions.Duration(100_000 * time.Hour),
		FailureMode: pick(rnd, "", definitions.FailLate, definitions.BestEffort),
	}
	if rnd.IntN(4) == 0 {
		for range 1 + rnd.IntN(2) {
			c.suggest = append(c.suggest, moment(rnd))
		}
	} else if rnd.IntN(6) == 0 {
		c.cancel = moment(rnd)
	}
	c.steps(rnd, "", 1+rnd.IntN(9), 0)
	c.output()
	return c
}

// steps adds random steps. What is known by path begins with that of the step
// that calls the definition; depth is how many do.
func (c *testCase) steps(rnd *rand.Rand, within string, n, depth int) {
	for i := range n {
		s := &definitions.Step{ID: fmt.Sprintf("s%d", i)}
		for _, before := range c.def.Steps {
			if rnd.IntN(3) == 0 {
				s.DependsOn = append(s.DependsOn, before.ID)
			}
		}
		switch kind := rnd.IntN(10); {
		case kind < 2 && !c.quick:
			c.elicitation(rnd, s, within)
		case kind < 4:
			c.forEach(rnd, s, within, depth)
		case kind == 4 && !c.quick:
			s.Type, s.For = definitions.WaitStep, moment(rnd).String()
		case kind < 7 && depth < maxCalled:
			s.OnError = pick(rnd, nil, &definitions.OnError{Action: definitions.Continue})
			c.workflow(rnd, s, s, within+s.ID+"/", depth, c.quick || c.suggest != nil)
		default:
			c.tool(rnd, s, within)
		}
		if (s.Tool != "" || s.Workflow != "") && rnd.IntN(3) == 0 {
			s.Compensate = &definitions.Compensation{Tool: "undo"}
		}
		s.DefaultResults = definitions.Give(map[string]any{"v": pick(rnd, "", "default of "+s.ID), "action": "", "completed": "", "failed": ""})
		if rnd.IntN(5) == 0 {
			s.Condition = "false"
			if len(s.DependsOn) > 0 {
				s.Condition = fmt.Sprintf(`{{eq .steps.%s.status %q}}`, pick(rnd, s.DependsOn...), pick(rnd, "completed", "failed", "skipped"))
			}
		}
		if gate := c.gateBefore(s); gate != "" && rnd.IntN(2) == 0 {
			s.Condition = fmt.Sprintf(`{{eq .steps.%s.action "accept"}}`, gate)
		}
		c.def.Steps = append(c.def.Steps, s)
	}
}

// gateBefore is the first elicitation that a step depends on; "" if there is
// none.
func (c *testCase) gateBefore(s *definitions.Step) string {
	for _, before := range c.def.Steps {
		if before.Type == definitions.ElicitationStep && slices.Contains(s.DependsOn, before.ID) {
			return before.ID
		}
	}
	return ""
}

func pick[T any](rnd *rand.Rand, from ...T) T { return from[rnd.IntN(len(from))] }

// moment is a time that no other equals.
func moment(rnd *rand.Rand) time.Duration {
	return time.Minute + time.Duration(rnd.Int64N(int64(10*time.Hour))).Truncate(time.Microsecond)
}

func (c *testCase) tool(rnd *rand.Rand, s *definitions.Step, within string) {
	path := within + s.ID
	s.Tool = pick(rnd, "read", "write")
	s.Arguments = map[string]any{"v": reading(s.ID, s.DependsOn)}
	s.OnError = pick(rnd, nil, &definitions.OnError{Action: definitions.Continue})
	if rnd.IntN(4) == 0 {
		c.failures[path] = always
	}
	if rnd.IntN(5) == 0 && c.suggest == nil && !c.quick { // a run continues only between calls
		delay := time.Second + time.Duration(rnd.Int64N(int64(time.Second))).Truncate(time.Microsecond)
		s.OnError = &definitions.OnError{Action: definitions.Retry, RetryCount: 1 + rnd.IntN(3), RetryDelay: definitions.Duration(delay)}
		c.failures[path] = rnd.IntN(5)
	}
}

// reading is a template that shows what a step has seen.
func reading(path string, deps []string) string {
	var b strings.Builder
	b.WriteString(path)
	for _, id := range deps {
		fmt.Fprintf(&b, " {{.steps.%[1]s.status}}/{{.steps.%[1]s.output.v}}/{{.steps.%[1]s.output.action}}", id)
	}
	return b.String()
}

func (c *testCase) elicitation(rnd *rand.Rand, s *definitions.Step, within string) {
	s.Type, s.Message = definitions.ElicitationStep, "Go on?"
	s.Timeout = definitions.Duration(moment(rnd))
	handlers := []*definitions.Handler{nil, {Action: definitions.Continue}, {Action: definitions.SkipRemaining}, {Action: definitions.Abort}}
	s.OnDecline, s.OnCancel = pick(rnd, handlers...), pick(rnd, handlers...)
	s.OnError = pick(rnd, nil, nil, &definitions.OnError{Action: definitions.Continue})
	c.answers[within+s.ID] = pick(rnd, "accept", "accept", "decline", "cancel", "")
	c.delays[within+s.ID] = moment(rnd) / 2
}

func (c *testCase) forEach(rnd *rand.Rand, s *definitions.Step, within string, depth int) {
	items := rnd.IntN(6)
	list, _ := json.Marshal(make([]int, items))
	s.Type, s.Collection, s.MaxParallel = definitions.ForEachStep, string(list), 1+rnd.IntN(4)
	s.OnError = pick(rnd, nil, &definitions.OnError{Action: definitions.Continue})
	s.Step = &definitions.Step{Tool: pick(rnd, "read", "write"), Arguments: map[string]any{"v": "item {{.forEach.index}}"}}
	s.Step.OnError = pick(rnd, nil, &definitions.OnError{Action: definitions.Continue})
	if rnd.IntN(5) == 0 {
		s.Step.Condition = `{{ne .forEach.index 1}}`
	}
	if rnd.IntN(4) == 0 && depth < maxCalled {
		s.Step.Tool, s.Step.Arguments = "", nil
		c.workflow(rnd, s, s.Step, within+s.ID+"[0]/", depth, true)
		c.spread(rnd, within+s.ID, items)
		return
	}
	for i := range items {
		if rnd.IntN(6) == 0 {
			c.failures[fmt.Sprintf("%s%s[%d]", within, s.ID, i)] = always
		}
	}
}

// output is a block that shows all steps.
func (c *testCase) output() {
	properties := map[string]*definitions.Property{}
	for _, s := range c.def.Steps {
		value := reading("", []string{s.ID})
		if s.Type == definitions.ForEachStep {
			value += fmt.Sprintf(" {{.steps.%[1]s.output.completed}}/{{.steps.%[1]s.output.failed}}", s.ID)
		}
		properties[s.ID] = &definitions.Property{Type: "string", Description: "d", Value: value}
	}
	c.def.Output = &definitions.Output{Properties: properties}
}

// observed is what came of running a case.
type observed struct {
	calls   []string // "PATH ARGUMENTS" in the order of arrival, undoing omitted
	undone  []string // paths of steps of called runs, in the order of undoing
	output  map[string]string
	errors  []workflows.Error
	failure *workflows.Failure
	done    map[string]bool // paths of calls that succeeded
	last    *bench          // of the last execution
}

// run executes a case in as many executions as it takes.
func (c *testCase) run(t *testing.T, want *expected) *observed {
	t.Helper()
	got := &observed{done: map[string]bool{}}
	attempts := map[string]int{}
	tool := func(path string, call workflows.ToolCall) (string, error) {
		if call.Tool != "undo" {
			got.calls = append(got.calls, path+" "+string(call.Arguments))
		} else if undone, _, _ := strings.Cut(path, "/compensate#"); strings.Contains(undone, "/") {
			got.undone = append(got.undone, undone)
		}
		attempts[path]++
		if attempts[path] <= c.failures[path] {
			return "", toolError(call, attempts[path], call.MaxAttempts-1, "planned failure")
		}
		got.done[path] = true
		return string(call.Arguments), nil
	}
	b := newBench(t, c.source(), `{}`, nil)
	if c.input != nil {
		b.input = *c.input
		b.env.SetStartTime(c.began)
		b.acceptAll()
	}
	began := b.env.Now()
	for execution := 0; ; execution++ {
		b.tools = map[string]toolFunc{"read": b.locked(tool), "write": b.locked(tool), "undo": b.locked(tool)}
		if c.input == nil {
			c.schedule(b, want, began, execution)
		}
		b.env.ExecuteWorkflow(b.input.WorkflowType(), b.input)
		next := b.continued(t, c.source())
		if next == nil {
			break
		}
		b = next
	}
	output, failure := b.result()
	got.failure, got.last = failure, b
	if failure == nil {
		var res workflows.RunResult
		perduretest.NoError(t, b.env.GetWorkflowResult(&res))
		got.errors = res.Errors
		perduretest.NoError(t, json.Unmarshal([]byte(output), &got.output))
	}
	return got
}

// continued is the next execution of a run that has continued as new; nil if it
// has ended.
func (b *bench) continued(t *testing.T, source string) *bench {
	t.Helper()
	var as *workflow.ContinueAsNewError
	if !errors.As(b.env.GetWorkflowError(), &as) {
		return nil
	}
	next := newBench(t, source, `{}`, nil)
	next.before = b
	perduretest.NoError(t, converter.GetDefaultDataConverter().FromPayloads(as.Input, &next.input))
	next.env.SetStartTime(b.env.Now())
	return next
}

// locked lets one call be made at a time. f gets the path of the step as the run above
// sees it.
func (b *bench) locked(f func(path string, call workflows.ToolCall) (string, error)) toolFunc {
	return func(call workflows.ToolCall) (string, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		return f(b.within[call.RunID]+string(call.StepPath), call)
	}
}

// schedule lets happen what comes from outside, as far as it is still to come.
func (c *testCase) schedule(b *bench, want *expected, began time.Time, execution int) {
	at := func(when time.Duration, f func()) {
		if left := began.Add(when).Sub(b.env.Now()); left > 0 {
			b.env.RegisterDelayedCallback(f, left)
		}
	}
	if c.cancel > 0 {
		at(c.cancel, b.env.CancelWorkflow)
	}
	if execution < len(c.suggest) {
		at(c.suggest[execution], func() {
			b.env.SetContinueAsNewSuggested(true)
			b.env.SignalWorkflow("wake", nil)
		})
	}
	for id, action := range c.answers {
		answer := workflows.Answer{ElicitationID: id + "#1", Action: action, AnswerID: id, Content: []byte(`{}`)}
		send := func() { b.signal(workflows.AnswerSignal, answer) }
		step := want.at(id)
		if step == nil {
			continue // in a run that is not called
		}
		opened := step.start
		if opened > time.Second {
			at(opened-time.Second, send) // too early: nothing is asked yet
		}
		if action != "" {
			at(opened+c.delays[id], send)
			at(opened+c.delays[id]+time.Second, func() { // too late
				b.signal(workflows.AnswerSignal, workflows.Answer{ElicitationID: id + "#1", Action: "decline"})
			})
		}
	}
}

// compare reports what is not as it is expected.
func (w *expected) compare(c *testCase, got *observed) (problems []string) {
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	w.compareCalls(got.calls, problem)
	switch {
	case w.ended == endCompleted:
		if got.failure != nil {
			problem("failed: %+v", got.failure.Error)
			return problems
		}
		if diff := cmp.Diff(w.output(c), got.output); diff != "" {
			problem("output: %s", diff)
		}
		if diff := cmp.Diff(w.brokenSteps(), stepsOf(got.errors)); diff != "" {
			problem("errors: %s", diff)
		}
		w.undoneBelow(c, got.undone, w.stopped, problem)
		return problems
	case got.failure == nil:
		problem("completed with %v; want it %s by %v", got.output, w.ended, w.culprits)
		return problems
	case w.ended == endCancelled && got.failure.Error.Category != codes.CategoryCancelled:
		problem("failed with %+v; want it cancelled", got.failure.Error)
	case w.ended == endFailed && !slices.Contains(w.culprits, got.failure.Error.StepID):
		problem("failed with %+v; want one of %v", got.failure.Error, w.culprits)
	}
	var own []string
	for _, path := range got.failure.Compensated {
		if !strings.Contains(string(path), "/") {
			own = append(own, string(path))
		}
	}
	w.compareUndone(c, own, problem)
	w.undoneBelow(c, got.undone, w.stopped, problem)
	return problems
}

func stepsOf(errors []workflows.Error) []string {
	var ids []string
	for _, e := range errors {
		ids = append(ids, e.StepID)
	}
	slices.Sort(ids)
	return ids
}
