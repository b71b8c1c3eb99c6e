package definitions

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// firstItems is how many items of a forEach a plan shows; of one within
// another it shows the first.
const firstItems = 3

// step plans one execution of a step at a path; shown is how many items it
// shows if it is a forEach.
func (pl *planner) step(n *Node, path string, data map[string]any, shown int) (PlannedStep, PlanLimits) {
	s := n.Step
	step := PlannedStep{Path: path, Type: s.Type, OnError: s.OnError, Timeout: cmp.Or(s.Timeout, Duration(DefaultStepTimeout))}
	if s.Type == "" {
		step.Type = ToolStep
	}
	var err error
	step.Runs, step.Condition, err = pl.condition(n, data)
	if err != nil {
		step.Problem = "condition: " + err.Error()
	}
	var limits PlanLimits
	switch s.Type {
	case ForEachStep:
		step.Loop, limits = pl.loop(n, path, data, shown, &step)
	case ElicitationStep:
		question := n.message.plannedText("", data, nil)
		step.Question, limits.Questions = &question, 1
		step.blame("message", question)
	case WaitStep:
		step.planWait(n, data)
	case WorkflowStep:
		limits = pl.workflow(n, data, &step)
	case ScriptStep:
		limits = pl.script(n, data, &step)
	default:
		step.PlannedCall = pl.call(s.Tool, &n.arguments, &n.schema, "arguments", data, &step)
		limits = callLimits(step.PlannedCall, s.OnError)
	}
	pl.compensation(n, data, &step, &limits)
	if step.Runs == No {
		step.Problem = "" // it never comes to it
	}
	if step.Runs == No || step.Problem != "" {
		limits = PlanLimits{}
	}
	return step, limits
}

// blame makes what is certain to fail a problem of the step.
func (s *PlannedStep) blame(field string, value PlannedValue) {
	if value.State == Fails && s.Problem == "" {
		s.Problem = field + ": " + value.Error
	}
}

func (s *PlannedStep) planWait(n *Node, data map[string]any) {
	name, t, parse := "for", n.duration, parseWaitFor
	if n.Step.Until != "" {
		name, t, parse = "until", n.until, parseWaitUntil
	}
	value := t.plannedText(name, data, func(text string) error {
		start := time.Unix(0, 0)
		end, err := parse(text, start)
		if err == nil && name == "for" && end.After(start.Add(MaxWait)) {
			err = fmt.Errorf("%s is more than ten years (limit MaxWait)", excerpt(text))
		}
		return err
	})
	s.Wait, s.Timeout = &value, 0
	s.blame(name, value)
}

// call plans a call of a tool; what is wrong with it is a problem of step.
func (pl *planner) call(name string, arguments *argument, cache *schemaCache, field string, data map[string]any, step *PlannedStep) *PlannedCall {
	call := &PlannedCall{Tool: name, Effect: Unsafe}
	tool, ok := pl.tools(name)
	if !ok && step.Problem == "" {
		step.Problem = fmt.Sprintf("no backend offers the tool %s", name)
	}
	if ok {
		call.Tool, call.Backend = tool.Name, tool.Backend
	}
	if tool.Effect != "" {
		call.Effect = tool.Effect
	}
	schema, err := cache.place(tool.InputSchema)
	if err != nil && step.Problem == "" {
		step.Problem = err.Error()
	}
	for _, m := range arguments.object {
		call.Arguments = append(call.Arguments, m.value.planned(m.name, data, schema.property(m.name))...)
	}
	for _, value := range call.Arguments {
		step.blame(join(field, value.Name), value)
	}
	return call
}

func callLimits(call *PlannedCall, onError *OnError) PlanLimits {
	limits := PlanLimits{Calls: 1, Attempts: 1}
	if onError != nil && onError.Action == Retry {
		limits.Attempts += int64(onError.RetryCount)
	}
	if call.Effect != Read {
		limits.Writes = 1
	}
	return limits
}

// planned gives the value of an argument at a path if all of it is known, and
// otherwise each of its parts.
func (a argument) planned(path string, data map[string]any, schema schemaPlace) []PlannedValue {
	if a.template != nil {
		return []PlannedValue{a.plannedTemplate(path, data, schema)}
	}
	var parts []PlannedValue
	known := true
	add := func(values []PlannedValue) {
		for _, value := range values {
			known = known && (value.State == Known || value.State == LeftOut)
			parts = append(parts, value)
		}
	}
	for i, elem := range a.array {
		add(elem.planned(element(path, i), data, schema.item(i)))
	}
	for _, m := range a.object {
		add(m.value.planned(join(path, m.name), data, schema.property(m.name)))
	}
	if !known {
		return parts
	}
	v, _, err := a.expand(data, schema, path)
	if err != nil {
		return []PlannedValue{{Name: path, State: Fails, Error: err.Error()}}
	}
	encoded, err := EncodeValue(v)
	if err != nil {
		return []PlannedValue{{Name: path, State: Fails, Error: err.Error()}}
	}
	return []PlannedValue{{Name: path, State: Known, Value: encoded}}
}

func (a argument) plannedTemplate(path string, data map[string]any, schema schemaPlace) PlannedValue {
	value := a.template.plannedFor(data, schema.kinds())
	value.Name = path
	return value
}

// plannedFor is what a template comes to for a place that takes kinds.
func (t *Template) plannedFor(data map[string]any, kinds []string) PlannedValue {
	type expanded struct {
		value any
		ok    bool
	}
	e, err := partly(t, data, func(data map[string]any) (e expanded, err error) {
		e.value, e.ok, err = expandFor(t, data, kinds)
		return e, err
	})
	return t.planned(data, e.value, e.ok, err)
}

// compensation plans the call that undoes a step, which sees what the step saw
// and what came of it.
func (pl *planner) compensation(n *Node, data map[string]any, step *PlannedStep, limits *PlanLimits) {
	undo := n.Step.Compensate
	if undo == nil {
		return
	}
	after := maps.Clone(data)
	after["output"] = unknown{}
	steps := maps.Clone(data["steps"].(partial))
	steps[n.ID] = unknown{}
	after["steps"] = steps
	var apart PlannedStep // what is wrong with it shows only when it is needed
	step.Compensate = pl.call(undo.Tool, &n.compensation, &n.compensationSchema, "compensate.arguments", after, &apart)
	limits.Compensations = 1
}

// loop plans a forEach; what is wrong with it is a problem of step.
func (pl *planner) loop(n *Node, path string, data map[string]any, shown int, step *PlannedStep) (*PlannedLoop, PlanLimits) {
	loop := &PlannedLoop{
		Most:     cmp.Or(n.Step.MaxIterations, DefaultIterations),
		Parallel: min(cmp.Or(n.Step.MaxParallel, DefaultParallel), MaxParallel),
	}
	items, err := partly(n.collection, data, func(data map[string]any) ([]Item, error) { return n.items(data) })
	loop.Collection = n.collection.planned(data, nil, true, err)
	loop.Collection.Value = nil
	var limits PlanLimits
	switch {
	case n.Inner == nil: // Check refuses it
		step.Problem = "it has no step to do for each item"
		return loop, limits
	case errors.Is(err, errNotKnown):
		inner, each := pl.unknownItem(n, path, data)
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
		planned, each := pl.item(n, path, data, i, item)
		loop.Items = append(loop.Items, planned)
		limits.add(1, each)
	}
	if rest := count - len(loop.Items); rest > 0 {
		_, each := pl.unknownItem(n, path, data)
		limits.add(int64(rest), each)
	}
	return loop, limits
}

// item plans the inner step of a forEach for an item that is known.
func (pl *planner) item(n *Node, path string, data map[string]any, i int, item Item) (PlannedItem, PlanLimits) {
	members := map[string]any{itemVar(n.Step): item.Value, "index": int64(i)}
	if item.Named {
		members["key"] = item.Key
	}
	inner, limits := pl.step(n.Inner, n.innerPath(path, fmt.Sprint(i)), within(data, members, false), 1)
	planned := PlannedItem{Key: item.Key, Step: inner}
	encoded, err := EncodeValue(item.Value)
	if err == nil {
		planned.Value = encoded
	}
	return planned, limits
}

// unknownItem plans the inner step of a forEach for any item.
func (pl *planner) unknownItem(n *Node, path string, data map[string]any) (PlannedStep, PlanLimits) {
	return pl.step(n.Inner, n.innerPath(path, "*"), withinAny(n, data), 1)
}

// withinAny is what the inner step of a forEach sees for any item.
func withinAny(n *Node, data map[string]any) map[string]any {
	return within(data, map[string]any{itemVar(n.Step): unknown{}, "index": unknown{}, "key": unknown{}}, true)
}

// within is what the inner step of a forEach sees: the items around it, and
// its own.
func within(data map[string]any, members map[string]any, isPartial bool) map[string]any {
	forEach := map[string]any{}
	switch outer := data["forEach"].(type) {
	case map[string]any:
		maps.Copy(forEach, outer)
	case partial:
		maps.Copy(forEach, outer)
		isPartial = true
	}
	maps.Copy(forEach, members)
	data = maps.Clone(data)
	data["forEach"] = forEach
	if isPartial {
		data["forEach"] = partial(forEach)
	}
	return data
}

// innerPath is the step path of an item.
func (n *Node) innerPath(path, index string) string {
	path = fmt.Sprintf("%s[%s]", path, index)
	if n.Inner.Step.Type != ForEachStep {
		return path
	}
	if n.Inner.ID == "" {
		return path + "/step"
	}
	return path + "/" + n.Inner.ID
}

// output plans the properties of an output block.
func (pl *planner) output(properties []outputProperty, data map[string]any) []PlannedValue {
	var values []PlannedValue
	for _, p := range properties {
		if p.template == nil && p.Default == nil {
			values = append(values, pl.output(p.inner, data)...)
			continue
		}
		value := pl.property(p, data)
		value.Name, value.Type, value.Description = p.path[len("output."):], p.Type, p.Description
		values = append(values, value)
	}
	return values
}

func (pl *planner) property(p outputProperty, data map[string]any) PlannedValue {
	var waitsFor []string
	for _, inner := range pl.output(p.inner, data) {
		waitsFor = append(waitsFor, inner.WaitsFor...)
	}
	if waitsFor != nil {
		slices.Sort(waitsFor)
		return PlannedValue{State: Waits, WaitsFor: slices.Compact(waitsFor)}
	}
	if p.template != nil {
		if value := p.template.plannedFor(data, []string{p.Type}); value.State == Waits {
			return value
		}
	}
	v, err := p.value(data)
	switch {
	case errors.Is(err, errMissing):
		return PlannedValue{State: LeftOut, Template: p.Value}
	case err != nil:
		return PlannedValue{State: Fails, Template: p.Value, Error: err.Error()}
	}
	encoded, err := EncodeValue(v)
	if err != nil {
		return PlannedValue{State: Fails, Template: p.Value, Error: err.Error()}
	}
	return PlannedValue{State: Known, Value: encoded}
}
