package workflows_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows"
)

// TestLargeParallelResults: ten calls at a time give results of 1.8 MB, until history is
// full. Calls under way always fit, and the run fails with run_too_long and undoes what it
// can.
func TestLargeParallelResults(t *testing.T) {
	t.Parallel()
	undone := 0
	b := newBench(t, `{name: a, description: d, steps: [
		{id: first, tool: create, compensate: {tool: remove}},
		{id: each, type: forEach, collection: "{{json .params.items}}", maxParallel: 10, dependsOn: [first], step: {type: tool, tool: large, arguments: {n: "{{.forEach.index}}"}}}
	]}`, fmt.Sprintf(`{"items":[%s0]}`, strings.Repeat("0,", 59)), nil)
	large := b.largeResults(20 * time.Millisecond)
	b.tools = map[string]toolFunc{
		"create": func(workflows.ToolCall) (string, error) { return `{}`, nil },
		"remove": func(workflows.ToolCall) (string, error) { undone++; return `{}`, nil },
		"large":  large.call,
	}
	large.fill(t)
	if undone != 1 || large.history < 40<<20 {
		t.Errorf("undone %d times, after %d bytes of results", undone, large.history)
	}
}

// TestLargeParallelArguments: calls wait for a workflow task that has room for their
// arguments, and only then is it decided whether their results fit.
func TestLargeParallelArguments(t *testing.T) {
	t.Parallel()
	b := newBench(t, `{name: a, description: d, parameters: {type: object, properties: {items: {type: array}, text: {type: string}}}, steps: [
		{id: each, type: forEach, collection: "{{json .params.items}}", maxParallel: 40, step: {type: tool, tool: large, arguments: {text: "{{.params.text}}"}}}
	]}`, fmt.Sprintf(`{"items":[%s0],"text":%q}`, strings.Repeat("0,", 39), strings.Repeat("x", 1<<20)), nil)
	large := b.largeResults(300 * time.Millisecond)
	b.tools = map[string]toolFunc{"large": large.call}
	large.fill(t)
}

// largeResults is a tool with results of largeResult bytes, which counts them.
type largeResults struct {
	b                       *bench
	pause                   time.Duration // of each call
	mu                      sync.Mutex
	history, underWay, most int // bytes of results, calls, and the most bytes of both
}

const largeResult = 1800 << 10

func (b *bench) largeResults(pause time.Duration) *largeResults {
	return &largeResults{b: b, pause: pause}
}

func (l *largeResults) call(workflows.ToolCall) (string, error) {
	l.mu.Lock()
	l.underWay++
	l.most = max(l.most, l.history+l.underWay*largeResult)
	l.mu.Unlock()
	time.Sleep(l.pause)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.underWay--
	l.history += largeResult
	l.b.grows(l.history)
	return `{"text":"` + strings.Repeat("x", largeResult) + `"}`, nil
}

// fill runs the composite until its history is full, and checks that no more was ever
// under way than fits.
func (l *largeResults) fill(t *testing.T) {
	t.Helper()
	const limit = 50 << 20
	if _, failure := l.b.run(); failure == nil || failure.Error.Code != codes.RunTooLong {
		t.Fatalf("%+v", failure)
	}
	if l.most > limit {
		t.Errorf("at most %d bytes were recorded or under way; the limit is %d", l.most, limit)
	}
}

// TestManyLargeOutcomes: fifty called runs at a time end with 1.8 MB each. The run reads as
// many as its history has room for, fails with run_too_long, and undoes what it can; runs
// that have not ended occupy almost nothing.
func TestManyLargeOutcomes(t *testing.T) {
	t.Parallel()
	undone, beside := 0, 0
	b := newBench(t, `{name: a, description: d, steps: [
		{id: first, tool: create, compensate: {tool: remove}},
		{id: each, type: forEach, collection: "{{json (until 60)}}", maxParallel: 50, dependsOn: [first], step: {type: workflow, workflow: b}},
		{id: beside, tool: large, dependsOn: [first]}
	]}
---
{name: b, description: d, steps: [{id: pause, type: wait, for: 10s}, {id: s, type: script, dependsOn: [pause], script: 'return "x" * 1843200'}]}`, `{}`, nil)
	results := b.largeResults(20 * time.Millisecond)
	b.tools = map[string]toolFunc{
		"create": func(workflows.ToolCall) (string, error) { return `{}`, nil },
		"remove": func(workflows.ToolCall) (string, error) { undone++; return `{}`, nil },
		"large":  func(workflows.ToolCall) (string, error) { beside++; return `{}`, nil },
	}
	b.env.RegisterActivityWithOptions(func(context.Context, string) (*workflows.ChildOutcome, error) {
		text, err := results.call(workflows.ToolCall{})
		return &workflows.ChildOutcome{Result: &workflows.RunResult{Output: []byte(text)}}, err
	}, activity.RegisterOptions{Name: workflows.OutcomeName})
	results.fill(t)
	if undone != 1 || beside != 1 || results.history < 40<<20 {
		t.Errorf("undone %d times, called beside %d times, after %d bytes of results", undone, beside, results.history)
	}
}

// grows sets the size of the run's history.
func (b *bench) grows(size int) {
	b.env.RegisterDelayedCallback(func() { b.env.SetCurrentHistorySize(size) }, 0)
}

// A large result that does not fit into the history of its run is a failure that is
// not repeated, of a call that was executed.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	result := workflows.ToolResult{Output: []byte(`"` + strings.Repeat("x", 1<<20) + `"`)}
	a := workflows.Attempt{Call: workflows.ToolCall{StepPath: "s", Tool: "t"}, Number: 1}
	if e := a.NoRoom(40<<20, result); e != nil {
		t.Errorf("with room: %+v", e)
	}
	e := a.NoRoom(48<<20, result)
	if e == nil || e.Code != codes.OutputTooLarge || e.Category != codes.CategoryLimit || e.Retryable || !strings.Contains(e.Message, "the history of the run 50331648") {
		t.Errorf("without room: %+v", e)
	}
}
