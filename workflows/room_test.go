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

// TestLargeParallelResults has ten calls at a time give results of 1.8 MB, until
// history has no room for more: what is under way always fits, the run fails with
// what it is, and undoes what can be undone.
func TestLargeParallelResults(t *testing.T) {
	t.Parallel()
	const size, limit = 1800 << 10, 50 << 20
	var mu sync.Mutex
	var history, underWay, most int
	undone := 0
	b := newBench(t, `{name: a, description: d, steps: [
		{id: first, tool: create, compensate: {tool: remove}},
		{id: each, type: forEach, collection: "{{json .params.items}}", maxParallel: 10, dependsOn: [first], step: {type: tool, tool: large, arguments: {n: "{{.forEach.index}}"}}}
	]}`, fmt.Sprintf(`{"items":[%s0]}`, strings.Repeat("0,", 59)), nil)
	b.tools = map[string]toolFunc{
		"create": func(workflows.ToolCall) (string, error) { return `{}`, nil },
		"remove": func(workflows.ToolCall) (string, error) { undone++; return `{}`, nil },
		"large": func(workflows.ToolCall) (string, error) {
			mu.Lock()
			underWay++
			most = max(most, history+underWay*size)
			mu.Unlock()
			time.Sleep(20 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			underWay--
			history += size
			b.grows(history)
			return `{"text":"` + strings.Repeat("x", size) + `"}`, nil
		},
	}
	_, failure := b.run()
	if failure == nil || failure.Error.Code != codes.RunTooLong || undone != 1 {
		t.Fatalf("undone %d times, %+v", undone, failure)
	}
	if most > limit || history < 40<<20 {
		t.Errorf("at most %d bytes were there or under way, and %d came; the limit is %d", most, history, limit)
	}
}

// TestLargeParallelArguments has calls wait for a workflow task that has room for what
// they send: whether their results fit is known when it is their turn.
func TestLargeParallelArguments(t *testing.T) {
	t.Parallel()
	const size, limit = 1800 << 10, 50 << 20
	var mu sync.Mutex
	var history, underWay, most int
	b := newBench(t, `{name: a, description: d, parameters: {type: object, properties: {items: {type: array}, text: {type: string}}}, steps: [
		{id: each, type: forEach, collection: "{{json .params.items}}", maxParallel: 40, step: {type: tool, tool: large, arguments: {text: "{{.params.text}}"}}}
	]}`, fmt.Sprintf(`{"items":[%s0],"text":%q}`, strings.Repeat("0,", 39), strings.Repeat("x", 1<<20)), nil)
	b.tools = map[string]toolFunc{"large": func(workflows.ToolCall) (string, error) {
		mu.Lock()
		underWay++
		most = max(most, history+underWay*size)
		mu.Unlock()
		time.Sleep(300 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		underWay--
		history += size
		b.grows(history)
		return `{"text":"` + strings.Repeat("x", size) + `"}`, nil
	}}
	_, failure := b.run()
	if failure == nil || failure.Error.Code != codes.RunTooLong {
		t.Fatalf("%+v", failure)
	}
	if most > limit {
		t.Errorf("at most %d bytes were there or under way; the limit is %d", most, limit)
	}
}

// TestManyLargeOutcomes has fifty called runs at a time end with 1.8 MB each: the run reads
// as many as its history has room for, fails with what it is, and undoes what can be
// undone; runs that have not ended occupy next to nothing.
func TestManyLargeOutcomes(t *testing.T) {
	t.Parallel()
	const size, limit = 1800 << 10, 50 << 20
	var mu sync.Mutex
	var history, underWay, most int
	undone := 0
	b := newBench(t, `{name: a, description: d, steps: [
		{id: first, tool: create, compensate: {tool: remove}},
		{id: each, type: forEach, collection: "{{json (until 60)}}", maxParallel: 50, dependsOn: [first], step: {type: workflow, workflow: b}},
		{id: beside, tool: large, dependsOn: [first]}
	]}
---
{name: b, description: d, steps: [{id: pause, type: wait, for: 10s}, {id: s, type: script, dependsOn: [pause], script: 'return "x" * 1843200'}]}`, `{}`, nil)
	beside := 0
	b.tools = map[string]toolFunc{
		"create": func(workflows.ToolCall) (string, error) { return `{}`, nil },
		"remove": func(workflows.ToolCall) (string, error) { undone++; return `{}`, nil },
		"large":  func(workflows.ToolCall) (string, error) { beside++; return `{}`, nil },
	}
	b.env.RegisterActivityWithOptions(func(context.Context, string) (*workflows.ChildOutcome, error) {
		mu.Lock()
		underWay++
		most = max(most, history+underWay*size)
		mu.Unlock()
		time.Sleep(20 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		underWay--
		history += size
		b.grows(history)
		return &workflows.ChildOutcome{Result: &workflows.RunResult{Output: []byte(`"` + strings.Repeat("x", size) + `"`)}}, nil
	}, activity.RegisterOptions{Name: workflows.OutcomeName})
	_, failure := b.run()
	if failure == nil || failure.Error.Code != codes.RunTooLong || undone != 1 || beside != 1 {
		t.Fatalf("undone %d times, called beside %d times, %+v", undone, beside, failure)
	}
	if most > limit || history < 40<<20 {
		t.Errorf("at most %d bytes were there or under way, and %d came; the limit is %d", most, history, limit)
	}
}

// grows has the run see a history of a size, before what comes next.
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
