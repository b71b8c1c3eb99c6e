package view

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
)

// firstItems is how many items of a forEach a plan shows; of a nested one it shows the
// first.
const firstItems = 3

// step plans one execution of a step at a path; shown is how many items of a forEach
// it shows.
func (pl *planner) step(n *definitions.Node, path string, d data, shown int) (PlannedStep, PlanLimits) {
	s := n.Step
	step := PlannedStep{Path: path, Type: s.Type, OnError: s.OnError, Timeout: cmp.Or(s.Timeout, definitions.Duration(definitions.DefaultStepTimeout))}
	if s.Type == "" {
		step.Type = definitions.ToolStep
	}
	if !pl.extent.add() { // NewPlan gives ErrTooLarge
		return step, PlanLimits{}
	}
	var err error
	step.Runs, step.Condition, err = pl.condition(n, d)
	if err != nil {
		step.Problem = "condition: " + err.Error()
	}
	limits := PlanLimits{}
	if kind, known := KindOf(s.Type); known {
		limits = kind.Plan(StepPlan{Step: &step, Node: n, planner: pl, path: path, data: d, shown: shown})
	} else {
		step.Problem = fmt.Sprintf("steps of type %s are not known here", s.Type)
	}
	pl.compensation(n, d, &step, &limits)
	for _, call := range []*PlannedCall{step.PlannedCall, step.Compensate} {
		if call != nil {
			pl.extent.take(call.Arguments)
		}
	}
	pl.extent.take(step.WorkflowArguments)
	if step.Runs == No {
		step.Problem = "" // the step is skipped
	}
	if step.Runs == No || step.Problem != "" {
		limits = PlanLimits{}
	}
	return step, limits
}

// blame makes a value that is certain to fail a problem of the step.
func (s *PlannedStep) blame(field string, value PlannedValue) {
	if value.State == Fails && s.Problem == "" {
		s.Problem = field + ": " + value.Error
	}
}

// call plans a call of a tool; a mistake in it is a problem of step.
func (pl *planner) call(name string, arguments template.Argument, field string, d data, step *PlannedStep) *PlannedCall {
	call := &PlannedCall{Tool: name, Effect: definitions.Unsafe}
	tool, ok := pl.Tools(name)
	if !ok && step.Problem == "" {
		step.Problem = fmt.Sprintf("no backend offers the tool %s", name)
	}
	if ok {
		call.Tool, call.Backend = tool.Name, tool.Backend
	}
	if tool.Effect != "" {
		call.Effect = tool.Effect
	}
	schema, err := template.SchemaOf(tool.InputSchema)
	if err != nil && step.Problem == "" {
		step.Problem = err.Error()
	}
	for _, m := range arguments.Members {
		call.Arguments = append(call.Arguments, plannedArgument(m.Value, m.Name, d, schema.Property(m.Name))...)
	}
	for _, value := range call.Arguments {
		step.blame(template.AtMember(field, value.Name), value)
	}
	return call
}

func callLimits(call *PlannedCall, onError *definitions.OnError) PlanLimits {
	limits := PlanLimits{Calls: 1, Attempts: 1}
	if onError != nil && onError.Action == definitions.Retry {
		limits.Attempts += int64(onError.RetryCount)
	}
	if call.Effect != definitions.Read {
		limits.Writes = 1
	}
	return limits
}

// plannedArgument gives the value of an argument at a path if all of it is known, else
// each of its parts.
func plannedArgument(a template.Argument, path string, d data, schema template.Schema) []PlannedValue {
	if a.Template != nil {
		value := plannedAs(a.Template, d, schema.Kinds())
		value.Name = path
		return []PlannedValue{value}
	}
	var parts []PlannedValue
	known := true
	add := func(values []PlannedValue) {
		for _, value := range values {
			known = known && (value.State == Known || value.State == LeftOut)
			parts = append(parts, value)
		}
	}
	for i, elem := range a.Elements {
		add(plannedArgument(elem, template.AtElement(path, i), d, schema.Item(i)))
	}
	for _, m := range a.Members {
		add(plannedArgument(m.Value, template.AtMember(path, m.Name), d, schema.Property(m.Name)))
	}
	if !known {
		return parts
	}
	v, _, err := a.Expand(map[string]any(d), schema, path)
	if err == nil {
		var encoded json.RawMessage
		if encoded, err = template.EncodeValue(v); err == nil {
			return []PlannedValue{{Name: path, State: Known, Value: encoded}}
		}
	}
	return []PlannedValue{{Name: path, State: Fails, Error: err.Error()}}
}

// compensation plans the call that undoes a step. It sees the data of the step and
// its output.
func (pl *planner) compensation(n *definitions.Node, d data, step *PlannedStep, limits *PlanLimits) {
	undo := n.Step.Compensate
	if undo == nil {
		return
	}
	after := maps.Clone(d)
	after["output"] = template.Unknown{}
	steps := maps.Clone(d["steps"].(template.Partial))
	steps[n.ID] = template.Unknown{}
	after["steps"] = steps
	var apart PlannedStep // a mistake in it shows only when it is needed
	step.Compensate = pl.call(undo.Tool, n.Templates.Compensation, "compensate.arguments", after, &apart)
	limits.Compensations = 1
}

// loop plans a forEach; a mistake in it is a problem of step.
func (pl *planner) loop(n *definitions.Node, path string, d data, shown int, step *PlannedStep) (*PlannedLoop, PlanLimits) {
	loop := &PlannedLoop{
		Most:     cmp.Or(n.Step.MaxIterations, definitions.DefaultIterations),
		Parallel: min(cmp.Or(n.Step.MaxParallel, definitions.DefaultParallel), definitions.MaxParallel),
	}
	items, err := n.Collection(d)
	loop.Collection = planned(n.Templates.Collection, d, nil, true, err)
	loop.Collection.Value = nil
	var limits PlanLimits
	switch {
	case n.Inner == nil: // Check refuses it
		step.Problem = "it has no step to do for each item"
		return loop, limits
	case errors.Is(err, template.ErrNotKnown):
		inner, each := pl.unknownItem(n, path, d)
		loop.Items = []PlannedItem{{Step: inner}}
		limits.add(int64(loop.Most), each)
		return loop, limits
	case err != nil:
		step.blame("collection", loop.Collection)
		return loop, limits
	}
	count := len(items)
	loop.Count = &count
	if count > loop.Most && step.Problem == "" {
		step.Problem = fmt.Sprintf("the collection has %d items, maxIterations is %d", count, loop.Most)
	}
	loop.Most = min(loop.Most, count)
	for i, item := range items[:min(shown, count)] {
		planned, each := pl.item(n, path, d, i, item)
		loop.Items = append(loop.Items, planned)
		limits.add(1, each)
	}
	if rest := count - len(loop.Items); rest > 0 {
		_, each := pl.unknownItem(n, path, d)
		limits.add(int64(rest), each)
	}
	return loop, limits
}

// item plans the inner step of a forEach for an item that is known.
func (pl *planner) item(n *definitions.Node, path string, d data, i int, item definitions.Item) (PlannedItem, PlanLimits) {
	members := map[string]any{n.Step.ItemName(): item.Value, "index": int64(i)}
	if item.Named {
		members["key"] = item.Key
	}
	inner, limits := pl.step(n.Inner, innerPath(n, path, fmt.Sprint(i)), within(d, members, false), 1)
	planned := PlannedItem{Key: item.Key, Step: inner}
	encoded, err := template.EncodeValue(item.Value)
	if err == nil {
		planned.Value = encoded
	}
	return planned, limits
}

// unknownItem plans the inner step of a forEach for any item.
func (pl *planner) unknownItem(n *definitions.Node, path string, d data) (PlannedStep, PlanLimits) {
	return pl.step(n.Inner, innerPath(n, path, "*"), withinAny(n, d), 1)
}

// withinAny is the data of a forEach's inner step for any item.
func withinAny(n *definitions.Node, d data) data {
	return within(d, map[string]any{n.Step.ItemName(): template.Unknown{}, "index": template.Unknown{}, "key": template.Unknown{}}, true)
}

// within is the data of a forEach's inner step: its own item, and those around it.
func within(d data, members map[string]any, isPartial bool) data {
	forEach := map[string]any{}
	switch outer := d["forEach"].(type) {
	case map[string]any:
		maps.Copy(forEach, outer)
	case template.Partial:
		maps.Copy(forEach, outer)
		isPartial = true
	}
	maps.Copy(forEach, members)
	d = maps.Clone(d)
	d["forEach"] = forEach
	if isPartial {
		d["forEach"] = template.Partial(forEach)
	}
	return d
}

// innerPath is the step path of an item.
func innerPath(n *definitions.Node, path, index string) string {
	path = fmt.Sprintf("%s[%s]", path, index)
	if n.Inner.Inner == nil {
		return path
	}
	if n.Inner.ID == "" {
		return path + "/step"
	}
	return path + "/" + n.Inner.ID
}

// output plans the properties of an output block.
func (pl *planner) output(properties []definitions.OutputProperty, d data) []PlannedValue {
	var values []PlannedValue
	for _, p := range properties {
		if p.Template == nil && p.Default == nil {
			values = append(values, pl.output(p.Inner, d)...)
			continue
		}
		value := pl.property(p, d)
		value.Name, value.Type, value.Description = p.Path[len("output."):], p.Type, p.Description
		values = append(values, value)
	}
	return values
}

func (pl *planner) property(p definitions.OutputProperty, d data) PlannedValue {
	var waitsFor []string
	for _, inner := range pl.output(p.Inner, d) {
		waitsFor = append(waitsFor, inner.WaitsFor...)
	}
	if waitsFor != nil {
		slices.Sort(waitsFor)
		return PlannedValue{State: Waits, WaitsFor: slices.Compact(waitsFor)}
	}
	if p.Template != nil {
		if value := plannedAs(p.Template, d, []string{p.Type}); value.State == Waits {
			return value
		}
	}
	v, err := p.Expand(d, nil)
	switch {
	case errors.Is(err, definitions.ErrMissing):
		return PlannedValue{State: LeftOut, Template: p.Value}
	case err != nil:
		return PlannedValue{State: Fails, Template: p.Value, Error: err.Error()}
	}
	encoded, err := template.EncodeValue(v)
	if err != nil {
		return PlannedValue{State: Fails, Template: p.Value, Error: err.Error()}
	}
	return PlannedValue{State: Known, Value: encoded}
}
