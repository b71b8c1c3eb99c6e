package deftest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
)

// compare gives all differences between a run and what is expected of it.
func (c *Case) compare(t *Trace) []Problem {
	v := &verdict{c: c, t: t, e: &c.written.Expect, problems: slices.Clone(t.problems)}
	v.outcome()
	v.calls()
	v.order()
	v.steps()
	v.questions()
	v.answers()
	v.duration()
	return v.problems
}

// A verdict collects differences.
type verdict struct {
	c        *Case
	t        *Trace
	e        *expectation
	problems []Problem
}

func (v *verdict) failf(pos definitions.Position, format string, args ...any) {
	v.problems = append(v.problems, Problem{Pos: pos, Message: fmt.Sprintf(format, args...)})
}

// differ compares two values and shows their difference.
func (v *verdict) differ(pos definitions.Position, what string, want, got json.RawMessage, partial bool) {
	if d := difference(want, got, partial); d != "" {
		v.problems = append(v.problems, Problem{Pos: pos, Message: what, Diff: d})
	}
}

// outcome compares how the run ended.
func (v *verdict) outcome() {
	failure := v.t.Failure
	switch {
	case v.t.Output == nil && failure == nil:
		return // it did not end, which is reported already
	case v.e.Error != nil && failure == nil:
		v.failf(v.e.Error.Pos, "the run completed, with %s", brief(v.t.Output))
	case v.e.Error != nil:
		v.error()
	case failure != nil:
		v.failf(v.c.at("expect"), "the run failed (%s, %s): %s", failure.Error.Code, failure.Error.Category, failure.Error.Message)
	case v.e.Result != nil:
		v.differ(v.c.at("expect", "result"), "the result is another", v.e.Result, v.t.Output, false)
	case v.e.ResultIncludes != nil:
		v.differ(v.c.at("expect", "resultIncludes"), "the result does not include it", v.e.ResultIncludes, v.t.Output, true)
	}
	if failure != nil && v.e.Compensated != nil {
		v.differ(v.c.at("expect", "compensated"), "other steps were compensated, or in another order",
			encoded(v.e.Compensated), encoded(orEmpty(failure.Compensated)), false)
	} else if len(v.e.Compensated) > 0 {
		v.failf(v.c.at("expect", "compensated"), "nothing was compensated, since the run completed")
	}
}

func orEmpty(list []definitions.StepPath) []definitions.StepPath {
	if list == nil {
		return []definitions.StepPath{}
	}
	return list
}

func (v *verdict) error() {
	want, got := v.e.Error, v.t.Failure.Error
	for _, field := range []struct{ name, want, got string }{
		{"code", want.Code, string(got.Code)}, {"category", want.Category, string(got.Category)}, {"tool", v.c.named(want.Tool), got.Tool},
	} {
		if field.want != "" && field.want != field.got {
			v.failf(v.c.at("expect", "error", field.name), "the error has %s %s, not %s: %s", field.name, orNone(field.got), field.want, got.Message)
		}
	}
	if want.Step != "" && want.Step != got.StepID && want.Step != string(got.StepPath) {
		v.failf(v.c.at("expect", "error", "step"), "the error is of step %s, not %s: %s", orNone(string(got.StepPath)), want.Step, got.Message)
	}
	if !want.Message.matches(got.Message) {
		v.failf(v.c.at("expect", "error", "message"), "the message does not match %s: %s", want.Message, got.Message)
	}
}

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}

// calls compares the calls of each tool in expect.calls.
func (v *verdict) calls() {
	if n := v.e.TotalCalls; n != nil && *n != len(v.t.made()) {
		v.failf(v.c.at("expect", "totalCalls"), "tools were called %s, not %d", times(len(v.t.made())), *n)
	}
	for _, tool := range slices.Sorted(maps.Keys(v.e.Calls)) {
		node := v.e.Calls[tool]
		want, _ := readCalls(v.c.Pos.File, &node) // checked when the file was read
		var made []*Call
		for _, call := range v.t.made() {
			if call.Tool == v.c.named(tool) {
				made = append(made, call)
			}
		}
		v.callsOf(tool, want, made)
	}
}

func (v *verdict) callsOf(tool string, want callsOf, made []*Call) {
	at := v.c.at("expect", "calls", tool)
	if want.count != nil && *want.count != len(made) {
		v.failf(at, "%s was called %s, not %d", tool, times(len(made)), *want.count)
	}
	if want.each != nil {
		for _, call := range made {
			v.differ(v.c.at("expect", "calls", tool, "arguments"), "arguments of "+tool+" in step "+call.Step, want.each, call.Arguments, true)
		}
	}
	for i, w := range want.list {
		if i >= len(made) {
			break
		}
		if w.Step != "" && w.Step != made[i].Step {
			v.failf(w.Pos, "call %d of %s was of step %s, not %s", i+1, tool, made[i].Step, w.Step)
		}
		if w.Arguments != nil {
			v.differ(w.Pos, fmt.Sprintf("arguments of call %d of %s", i+1, tool), w.Arguments, made[i].Arguments, true)
		}
	}
}

func times(n int) string {
	if n == 1 {
		return "1 time"
	}
	return fmt.Sprintf("%d times", n)
}

// callsOf is the expectation for the calls of a tool.
type callsOf struct {
	count *int
	each  json.RawMessage // nil = anything
	list  []*expectedCall // call by call
}

// readCalls reads the entry of a tool in calls: a number, a mapping with count and
// arguments, or a list of calls.
func readCalls(file string, node *yaml.Node) (callsOf, definitions.Diagnostics) {
	var want callsOf
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch node.Kind {
	case yaml.ScalarNode:
		return want, definitions.Decode(file, node, &want.count)
	case yaml.SequenceNode:
		diags := definitions.Decode(file, node, &want.list)
		n := len(want.list)
		want.count = &n
		return want, diags
	default:
		var m expectedCalls
		diags := definitions.Decode(file, node, &m)
		want.count, want.each = m.Count, m.Arguments
		return want, diags
	}
}

// order compares the order of steps and tools.
func (v *verdict) order() {
	for i, order := range v.e.Order {
		at := v.c.at("expect", "order", i)
		names := strings.Split(order, before)
		for k := range len(names) - 1 {
			v.inOrder(at, names[k], names[k+1])
		}
	}
}

// inOrder checks that all of first ended before any of second began.
func (v *verdict) inOrder(at definitions.Position, first, second string) {
	_, end := v.extent(first)
	begin, _ := v.extent(second)
	switch {
	case end == 0:
		v.failf(at, "%s did not happen", first)
	case begin == 0:
		v.failf(at, "%s did not happen", second)
	case end > begin:
		v.failf(at, "%s had not ended when %s began", first, second)
	}
}

// extent gives when the first call or elicitation of a step or tool began and the
// last ended; 0 = none. One that never ended counts as the last of all.
func (v *verdict) extent(name string) (begin, end int) {
	const never = int(^uint(0) >> 1)
	add := func(moment, closed int) {
		if closed == 0 {
			closed = never
		}
		if begin == 0 || moment < begin {
			begin = moment
		}
		end = max(end, closed)
	}
	for _, call := range v.t.Calls {
		if call.Tool == v.c.named(name) || definitions.StepPath(name).Has(definitions.StepPath(call.Step)) {
			add(call.moment, call.closed)
		}
	}
	for _, a := range v.t.Asked {
		if definitions.StepPath(name).Has(a.StepPath) {
			add(a.moment, a.closed)
		}
	}
	return begin, end
}

// steps compares the states of the steps at the end.
func (v *verdict) steps() {
	for _, want := range []struct {
		status string
		ids    []string
	}{{"completed", v.e.Completed}, {"failed", v.e.Failed}, {"skipped", v.e.Skipped}} {
		for i, id := range want.ids {
			if got := v.t.status(id); got != want.status {
				v.failf(v.c.at("expect", want.status, i), "step %s is not %s: %s", id, want.status, v.stepState(id))
			}
		}
	}
}

func (v *verdict) stepState(id string) string {
	for _, s := range v.t.Steps {
		switch {
		case s.ID == id && s.Status == "pending" || s.ID == id && s.Status == "stopped":
			return "the run ended before it did"
		case s.ID == id && s.Error != "":
			return "it " + s.Status + ": " + s.Error
		case s.ID == id:
			return "it is " + s.Status
		}
	}
	return "the run did not start"
}

// questions compares the elicitations.
func (v *verdict) questions() {
	if v.e.Elicitations == nil {
		return
	}
	if len(v.e.Elicitations) != len(v.t.Asked) {
		v.failf(v.c.at("expect", "elicitations"), "asked %s, not %d%s", times(len(v.t.Asked)), len(v.e.Elicitations), v.askedBy())
	}
	for i, want := range v.e.Elicitations {
		if i < len(v.t.Asked) {
			v.question(want, v.t.Asked[i])
		}
	}
}

func (v *verdict) askedBy() string {
	var steps []string
	for _, a := range v.t.Asked {
		steps = append(steps, string(a.StepPath))
	}
	if steps == nil {
		return ""
	}
	return ": by step " + strings.Join(steps, ", ")
}

func (v *verdict) question(want *expectedQuestion, got *Asked) {
	if want.Step != "" && want.Step != got.StepID && want.Step != string(got.StepPath) {
		v.failf(want.Pos, "step %s asked, not %s", got.StepPath, want.Step)
	}
	if !want.Message.matches(got.Message) {
		v.failf(want.Pos, "the message does not match %s: %s", want.Message, got.Message)
	}
	if want.Schema != nil {
		schema := got.Schema
		if schema == nil {
			schema = json.RawMessage("null")
		}
		v.differ(want.Pos, "the schema does not include it", want.Schema, schema, true)
	}
	if want.State != "" && want.State != string(got.State) {
		v.failf(want.Pos, "the elicitation of step %s is %s, not %s", got.StepPath, got.State, want.State)
	}
	if want.Action != "" && want.Action != got.Action {
		v.failf(want.Pos, "the elicitation of step %s was answered with %s, not %s", got.StepPath, orNone(got.Action), want.Action)
	}
}

// answers reports those that no elicitation took.
func (v *verdict) answers() {
	for i, a := range v.c.written.Answers {
		if !v.t.answered[i] {
			v.failf(a.Pos, "nothing was asked that this answers%s", v.askedBy())
		}
	}
}

func (v *verdict) duration() {
	want := v.e.Duration
	if want == nil {
		return
	}
	if want.AtLeast != nil && v.t.Duration < time.Duration(*want.AtLeast) {
		v.failf(v.c.at("expect", "duration", "atLeast"), "the run took %s, less than %s", v.t.Duration, want.AtLeast)
	}
	if want.AtMost != nil && v.t.Duration > time.Duration(*want.AtMost) {
		v.failf(v.c.at("expect", "duration", "atMost"), "the run took %s, more than %s", v.t.Duration, want.AtMost)
	}
}

// brief is JSON on one line, cut to 200 letters.
func brief(raw json.RawMessage) string {
	const limit = 200
	text := []rune(string(raw))
	if len(text) > limit {
		return string(text[:limit]) + "…"
	}
	return string(text)
}
