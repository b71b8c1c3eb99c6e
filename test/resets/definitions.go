package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
)

type object = map[string]any

// An author writes random definitions. Names of steps are unique among all of them.
type author struct {
	rng      *rand.Rand
	callees  []string        // composite tools that the next one may call
	undoable map[string]bool // labels of steps that are undone; of items without their number
	thorough map[string]bool // composite tools that complete only if they have done all
}

// How many definitions of each kind there are: tools begins with those that are called.
const (
	leaves  = 5
	middles = 4
	tops    = 6
)

// write gives definitions by name, and the names of those that callers call.
func (a *author) write() (all []object, called []string) {
	add := func(names *[]string, kind string, n int) {
		for i := range n {
			name := fmt.Sprintf("%s%d", kind, i)
			d := a.definition(name)
			text, _ := json.Marshal(d) // as it is in the configuration
			a.thorough[name] = !lenient.Match(text)
			all = append(all, d)
			*names = append(*names, name)
		}
	}
	var low, middle, top []string
	add(&low, "leaf", leaves)
	a.callees = low
	add(&middle, "middle", middles)
	a.callees = append(middle, low...)
	add(&top, "top", tops)
	return all, append(append(top, middle...), low...)
}

// lenient is what lets a composite tool complete without all that it does.
var lenient = regexp.MustCompile(`"condition"|"action":"continue"|"failureMode"|attempt\(|try_call`)

func (a *author) chance(percent int) bool { return a.rng.IntN(100) < percent }

func (a *author) pick(from ...string) string { return from[a.rng.IntN(len(from))] }

func (a *author) definition(name string) object {
	d := object{
		"name": name, "description": "Of chance.", "timeout": "30m", "onDisconnect": "continue",
		"parameters": object{"type": "object", "properties": object{"about": object{"type": "string"}}, "required": []string{"about"}},
	}
	if a.chance(8) {
		d["timeout"] = "8s"
	}
	if a.chance(30) {
		d["script"] = a.script(name)
		return d
	}
	if a.chance(20) {
		d["failureMode"] = a.pick("best_effort", "continue")
	}
	var steps []object
	var reads []string // whose output others may read
	for i := range 3 + a.rng.IntN(4) {
		id := fmt.Sprintf("%s_%d", name, i)
		s := a.step(id, reads)
		var deps []string
		for _, before := range steps {
			if a.chance(40) {
				deps = append(deps, before["id"].(string))
			}
		}
		if deps != nil {
			s["dependsOn"] = deps
		}
		if s["tool"] == "be_look" && s["condition"] == nil && s["onError"] == nil {
			reads = append(reads, id)
		}
		steps = append(steps, s)
	}
	d["steps"] = steps
	d["output"] = object{"properties": object{"about": object{"type": "string", "description": "What it was about.", "value": "{{.params.about}}"}}}
	return d
}

// step is one that reads others.
func (a *author) step(id string, reads []string) object {
	s := object{"id": id}
	roll := a.rng.IntN(100)
	switch {
	case roll < 14:
		s["tool"], s["arguments"] = "be_look", arguments(id)
	case roll < 15:
		s["type"], s["arguments"] = "script", object{"about": "{{.params.about}}"}
		s["script"] = scriptHead + padding(id)
	case roll < 25:
		s["type"], s["message"], s["timeout"] = "elicitation", "Go on with "+id+"?", a.pick("20m", "20m", "2s")
		s["schema"] = object{"type": "object", "properties": object{}}
		if a.chance(40) {
			s["onDecline"] = object{"action": "continue"}
		}
	case roll < 40:
		s["type"], s["collection"], s["maxParallel"], s["timeout"] = "forEach", `["a", "b", "c"]`, 1+a.rng.IntN(3), "10m"
		s["step"] = a.work(id+"[{{.forEach.index}}]", reads)
	default:
		for k, v := range a.work(id, reads) {
			s[k] = v
		}
	}
	if len(reads) > 0 && a.chance(15) {
		s["condition"] = fmt.Sprintf("{{gt .steps.%s.output.n 3}}", reads[a.rng.IntN(len(reads))])
	}
	return s
}

// work is a call of a tool or of a composite tool, with a label for the backend.
func (a *author) work(label string, reads []string) object {
	if len(a.callees) > 0 && a.chance(35) {
		s := object{"type": "workflow", "workflow": a.pick(a.callees...), "arguments": object{"about": "{{.params.about}}"}}
		if a.chance(30) {
			s["onError"] = object{"action": "continue"}
		}
		if a.chance(10) {
			s["timeout"] = "4s"
		}
		if a.chance(25) {
			s["compensate"] = object{"tool": "be_" + a.pick("mend", "amend"), "arguments": arguments(label), "timeout": "20s", "onError": object{"action": "retry", "retryCount": 3, "retryDelay": "100ms"}}
		}
		return s
	}
	s := object{"tool": "be_" + a.pick("write", "write", "hold", "hold", "order", "reserve"), "timeout": "20s"}
	args := arguments(label)
	if len(reads) > 0 && strings.HasPrefix(s["tool"].(string), "be_w") && a.chance(30) {
		args["n"] = fmt.Sprintf("{{.steps.%s.output.n}}", reads[a.rng.IntN(len(reads))])
	}
	s["arguments"] = args
	undo := object{"arguments": arguments(label), "timeout": "20s", "onError": object{"action": "retry", "retryCount": 3, "retryDelay": "100ms"}}
	switch s["tool"] {
	case "be_hold", "be_reserve":
		undo["tool"], s["compensate"] = a.pick("be_undo", "be_release"), undo
		a.undoable[label] = true
	}
	switch roll := a.rng.IntN(100); {
	case roll < 30:
		s["onError"] = object{"action": "retry", "retryCount": 3, "retryDelay": "100ms"}
	case roll < 50:
		s["onError"] = object{"action": "continue"}
	}
	if a.chance(40) {
		s["onUnknown"] = "ask"
	}
	if a.chance(8) {
		s["timeout"] = "300ms"
	}
	if s["tool"] == "be_write" || s["tool"] == "be_hold" {
		if a.chance(20) {
			s["probe"] = object{"tool": "be_" + truth, "arguments": object{"run": "{{.call.arguments.run}}", "step": "{{.call.arguments.step}}"}, "delay": "1500ms",
				"happened": "{{and .output.done .output.quiet}}", "notHappened": "{{and (not .output.done) .output.quiet}}"}
		}
	}
	return s
}

func arguments(label string) object {
	return object{"about": "{{.params.about}}", "run": "{{.workflow.id}}", "step": label}
}

// A script begins with what makes the arguments of a call, and gives what it was about.
const (
	scriptHead = "def of(step):\n    return {\"about\": data[\"about\"], \"run\": run.id, \"step\": step}\n\n"
	scriptEnd  = "return {\"about\": data[\"about\"]}\n"
)

// padding fills the history of a run, which then continues as new.
func padding(label string) string {
	return fmt.Sprintf("for i in range(4):\n    call_tool(\"be_pad\", dict(of(\"%s_pad[%%d]\" %% i), pad = \"x\" * 1200000), \"20s\", policy(3, 0.1))\n", label)
}

// script is a text of statements, each with a label.
func (a *author) script(name string) string {
	var b strings.Builder
	b.WriteString(scriptHead)
	if a.chance(5) {
		b.WriteString(padding(name))
	}
	for i := range 3 + a.rng.IntN(4) {
		label := fmt.Sprintf("%s_%d", name, i)
		fmt.Fprintln(&b, a.statement(label))
	}
	b.WriteString(scriptEnd)
	return b.String()
}

func (a *author) statement(label string) string {
	undo := fmt.Sprintf(`undo("be_%s", of("%s"), retries = 3, delay = 0.1)`, a.pick("undo", "release"), label)
	unknown := a.pick("", `, on_unknown = "ask"`)
	if a.chance(15) {
		unknown += `, probe = probe("be_truth", lambda call: call["arguments"], "1.5s", happened = lambda call, out: out["done"] and out["quiet"], not_happened = lambda call, out: not out["done"] and out["quiet"])`
	}
	call := fmt.Sprintf(`call_tool("be_%s", of("%s"), "20s", policy(2, 0.1%s))`, a.pick("write", "order", "look"), label, unknown)
	held := fmt.Sprintf(`call_tool("be_%s", of("%s"), "20s", policy(2, 0.1, undo = %s%s))`, a.pick("hold", "reserve"), label, undo, unknown)
	switch roll := a.rng.IntN(100); {
	case roll < 25:
		return call
	case roll < 50:
		a.undoable[label] = true
		return held
	case roll < 58:
		return fmt.Sprintf(`approve("Go on with %s?")`, label)
	case roll < 68:
		return fmt.Sprintf(`try_call_tool("be_%s", of("%s"), "20s")`, a.pick("write", "hold"), label)
	case roll < 78:
		return fmt.Sprintf(`map_parallel(lambda i: call_tool("be_%s", of("%s[%%d]" %% i), "20s", policy(1, 0.1)), range(3), max = 2)`, a.pick("write", "order"), label)
	case roll < 80:
		return fmt.Sprintf(`attempt(lambda: within("400ms", lambda: call_tool("be_%s", of("%s"), "20s")))`, a.pick("write", "order"), label)
	case roll < 82:
		return fmt.Sprintf(`attempt(lambda: parallel([lambda: call_tool("be_write", of("%s_a"), "20s"), lambda: call_tool("be_hold", of("%s_b"), "20s", policy(undo = undo("be_undo", of("%s_b"), retries = 3, delay = 0.1)))]))`, label, label, label)
	case roll < 87:
		return fmt.Sprintf(`retry(lambda: call_tool("be_%s", of("%s"), "20s"), attempts = 3, delay = 0.1)`, a.pick("write", "hold"), label)
	case len(a.callees) == 0:
		a.undoable[label] = true
		return held
	case roll < 90:
		return fmt.Sprintf(`map_parallel(lambda i: call_workflow("%s", {"about": data["about"]}), range(2), max = %d)`, a.pick(a.callees...), 1+a.rng.IntN(2))
	case roll < 94:
		return fmt.Sprintf(`call_workflow("%s", {"about": data["about"]})`, a.pick(a.callees...))
	}
	return fmt.Sprintf(`attempt(lambda: call_workflow("%s", {"about": data["about"]}))`, a.pick(a.callees...))
}

// parsed are definitions as perdure reads them.
func parsed(list []object) (map[string]*definitions.Definition, error) {
	all := map[string]*definitions.Definition{}
	for _, o := range list {
		text, err := json.Marshal(o)
		if err != nil {
			return nil, err
		}
		defs, diags := definitions.Parse("resets.yaml", text)
		if err := diags.Err(); err != nil {
			return nil, fmt.Errorf("%w in %s", err, text)
		}
		all[defs[0].Name] = defs[0]
	}
	return all, nil
}

// changed is a definition in another state: with a further step, or with a step that has
// another argument.
func changed(list []object, name string, rng *rand.Rand) *definitions.Definition {
	for _, o := range list {
		if o["name"] != name {
			continue
		}
		other := maps.Clone(o)
		if text, ok := o["script"].(string); ok {
			other["script"] = strings.Replace(text, scriptEnd, fmt.Sprintf("call_tool(\"be_look\", of(\"%s_more\"), \"20s\")\n", name)+scriptEnd, 1)
		} else {
			other["steps"] = changedSteps(o["steps"].([]object), rng)
		}
		text, _ := json.Marshal(other) // as it is in the configuration
		defs, diags := definitions.Parse("changed.yaml", text)
		if diags.Err() == nil {
			return defs[0]
		}
	}
	return nil
}

func changedSteps(steps []object, rng *rand.Rand) []object {
	changed := slices.Clone(steps)
	last := steps[len(steps)-1]["id"].(string)
	if rng.IntN(2) == 0 {
		return append(changed, object{"id": last + "_more", "tool": "be_look", "arguments": arguments(last + "_more"), "dependsOn": []string{last}})
	}
	i := rng.IntN(len(changed))
	if args, ok := changed[i]["arguments"].(object); ok && changed[i]["tool"] != nil {
		changed[i] = maps.Clone(changed[i])
		args = maps.Clone(args)
		args["other"] = "x"
		changed[i]["arguments"] = args
	}
	return changed
}
