package definitions

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions/template"
)

// The limits of ToolHive's vMCP that definitions run into.
const (
	peerGateTimeout = 10 * time.Minute // of an elicitation, whatever it says
	peerCallTimeout = 30 * time.Second // of a call of a composite, on the wire
)

// Notes says where definitions behave differently here than in ToolHive's vMCP, for
// authors who move them: notes, sorted by place. It notes only what the definitions
// use; none of it is a mistake.
func Notes(defs []*Definition) Diagnostics {
	var notes Diagnostics
	for _, d := range defs {
		if d == nil || len(d.Steps) > MaxSteps {
			continue
		}
		c := &checker{newSubject(d), &surroundings{}}
		c.allSteps()
		(&templateCheck{c.subject}).references()
		n := &noter{checker: c, noted: make(map[string]bool)}
		c.diags = nil // Check reports them
		n.definition()
		notes = append(notes, c.diags...)
	}
	notes.Sort()
	return notes
}

// A noter writes the notes for one definition.
type noter struct {
	*checker
	noted map[string]bool // notes made only once in a definition
}

func (n *noter) notef(path, check, format string, args ...any) {
	n.report(path, n.def.At(path), SeverityNote, check, format, args...)
}

func (n *noter) definition() {
	for _, at := range n.nodes {
		n.handlers(at)
		n.errors(at)
		n.gate(at)
		n.innerStep(at)
	}
	n.levels()
	n.duration()
	for _, t := range n.placed {
		n.template(t)
	}
}

// handlers notes skip_remaining.
func (n *noter) handlers(at node) {
	handlers := []struct {
		name    string
		handler *Handler
	}{{"onDecline", at.step.OnDecline}, {"onCancel", at.step.OnCancel}}
	for _, h := range handlers {
		if h.handler != nil && h.handler.Action == SkipRemaining {
			n.notef(template.AtMember(at.path, h.name+".action"), "skip-remaining",
				"%s: skip_remaining skips the steps that have not started; ToolHive runs them all the same", at.label)
		}
	}
}

// errors notes what onError and defaultResults do.
func (n *noter) errors(at node) {
	s := at.step
	e := s.OnError
	if e == nil {
		return
	}
	composed := s.Step != nil || s.Type.Traits().Asks
	switch {
	case e.Action == Retry && s.Step != nil:
		n.notef(template.AtMember(at.path, "onError.action"), "retry", "%s: retry does nothing on a forEach; its inner step has an onError of its own", at.label)
	case e.Action != Continue || !s.DefaultResults.Given || at.inner():
	case composed:
		n.notef(template.AtMember(at.path, "defaultResults"), "default-results", "%s: defaultResults stand in when the step fails; ToolHive uses them for failed calls of tools only, not for a step of type %s", at.label, s.Type)
	case s.Condition != "" || holdsTemplate(s.Arguments):
		n.notef(template.AtMember(at.path, "defaultResults"), "default-results", "%s: defaultResults stand in also when a template of the step fails; ToolHive uses them for failed calls only", at.label)
	}
}

// gate notes elicitations that wait longer than in the peer.
func (n *noter) gate(at node) {
	if at.step.Type.Traits().Asks && at.step.Timeout > Duration(peerGateTimeout) {
		n.notef(template.AtMember(at.path, "timeout"), "timeout", "%s: the answer is awaited for %s; ToolHive waits for %s at most",
			at.label, at.step.Timeout.Brief(), Duration(peerGateTimeout).Brief())
	}
}

// innerStep notes keys of an inner step that the peer ignores.
func (n *noter) innerStep(at node) {
	if !at.inner() {
		return
	}
	keys := []struct {
		name string
		set  bool
	}{
		{"condition", at.step.Condition != ""},
		{"timeout", at.step.Timeout != 0},
		{"defaultResults", at.step.DefaultResults.Given},
	}
	for _, key := range keys {
		if key.set {
			n.notef(template.AtMember(at.path, key.name), "inner-step", "%s: %s has an effect; ToolHive ignores it here", at.label, key.name)
		}
	}
}

// levels notes steps that start earlier than in the peer, which waits for the whole
// level before, and steps that wait for others which they only read.
func (n *noter) levels() {
	levels := n.peerLevels()
	before := n.ancestors()
	for i, s := range n.def.Steps {
		for _, other := range n.def.Steps {
			if levels[other.ID] < levels[s.ID] && !before[s.ID][other.ID] && !n.once("levels") {
				n.notef(fmt.Sprintf("steps[%d]", i), "levels",
					"step %q starts as soon as what it depends on has ended; ToolHive waits for all steps of the level before, %q among them", s.ID, other.ID)
			}
		}
	}
	for _, r := range n.reads {
		if r.by != "" && r.by != r.step && levels[r.step] >= levels[r.by] && !n.once("reads "+r.by+" "+r.step) {
			n.readf(r, SeverityNote, "levels", "%s: %s waits for step %q, which it reads; in ToolHive that step has not ended then, and the value is missing", r.label, r.field, r.step)
		}
	}
}

// peerLevels gives the level in which the peer runs each step: after all that
// dependsOn names.
func (n *noter) peerLevels() map[string]int {
	levels := make(map[string]int, len(n.steps))
	for range n.def.Steps { // as often as levels can rise
		for _, s := range n.def.Steps {
			for _, id := range s.DependsOn {
				if n.steps[id] != nil && levels[id] < len(n.def.Steps) { // a cycle ends there
					levels[s.ID] = max(levels[s.ID], levels[id]+1)
				}
			}
		}
	}
	return levels
}

// ancestors gives all steps that each step waits for here.
func (n *noter) ancestors() map[string]map[string]bool {
	edges := (&graphCheck{n.subject}).edges()
	all := make(map[string]map[string]bool, len(n.steps))
	for id := range n.steps {
		seen := make(map[string]bool)
		var walk func(id string)
		walk = func(id string) {
			for _, e := range edges[id] {
				if !seen[e.to] {
					seen[e.to] = true
					walk(e.to)
				}
			}
		}
		walk(id)
		all[id] = seen
	}
	n.diags = slices.DeleteFunc(n.diags, func(d Diagnostic) bool { return d.Severity != SeverityNote }) // of edges
	return all
}

// duration notes that a call may outlive the peer's connections.
func (n *noter) duration() {
	for _, at := range n.nodes {
		field := ""
		switch {
		case at.step.Type.Traits().Asks:
			field = "type"
		case at.step.Timeout > Duration(peerCallTimeout):
			field = "timeout"
		default:
			continue
		}
		n.notef(template.AtMember(at.path, field), "long-calls", "%s: the call may take longer than %s and its client gets the result; ToolHive closes the connection then",
			at.label, Duration(peerCallTimeout).Brief())
		return
	}
}

// template notes values that a template prints differently.
func (n *noter) template(t placedTemplate) {
	if i := strings.Index(t.text, "<no value>"); i >= 0 && t.template.HasActions() {
		t.at = i
		n.readf(t.read, SeverityNote, "no-value", "%s: %s: nothing prints as <no value> here: a missing value prints as nothing; compare it with an empty text", t.label, t.field)
	}
	if strings.Contains(t.field, "arguments") && slices.Contains([]string{"json", "toJson"}, t.template.LastFunction()) {
		n.readf(t.read, SeverityNote, "native-values", "%s: %s is passed as an array or object where the tool's schema asks for one; ToolHive passes JSON text", t.label, t.field)
	}
	for _, ref := range t.template.Refs() {
		if ref.Root == "params" && len(ref.Path) > 0 {
			t.at = ref.Offset
			n.parameter(t.read, ref.Path[0])
		}
	}
}

// parameter notes numbers and missing values of a parameter, once.
func (n *noter) parameter(r read, name string) {
	properties, _ := n.def.Parameters["properties"].(map[string]any)
	schema, ok := properties[name].(map[string]any)
	if !ok || n.once("parameter "+name) {
		return
	}
	types := template.TypesOf(schema)
	if slices.Contains(types, "integer") || slices.Contains(types, "number") {
		n.readf(r, SeverityNote, "numbers", "parameter %q is a number, and exact; ToolHive prints it with an exponent from 1000000 on (1e+06) and does not compare it with integers", name)
	}
	required, _ := n.def.Parameters["required"].([]any)
	if _, hasDefault := schema["default"]; !hasDefault && !slices.Contains(required, any(name)) {
		n.readf(r, SeverityNote, "no-value", "parameter %q may be missing, and prints as nothing then; ToolHive prints <no value>", name)
	}
}

// once reports whether a note was made before, and marks it as made.
func (n *noter) once(what string) bool {
	before := n.noted[what]
	n.noted[what] = true
	return before
}
