package definitions

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions/template"
)

// A read is a step's output or state that a template reads.
type read struct {
	by    string   // id of the step that reads; "" = the output block
	label string   // of the reader, in messages
	field string   // of the reader, e.g. arguments.title
	path  string   // where the template is
	text  string   // the template
	at    int      // where in it, in bytes
	step  string   // id of the step that is read
	what  []string // its fields, e.g. output, text

	optional bool // the reader has a fallback
	lenient  bool // the template accepts a missing value
	own      bool // the template may read .output, that of the step or item
	probes   bool // it belongs to a probe, which reads .call, too
	undoes   bool // it belongs to a compensation, which runs after its step

	property *Property // of the output block, whose value it is; nil = it is of a step

	outermost bool // the reader is a top-level step, not one within a forEach
}

// An ownRead is a read of .output: in compensate, of the step, in collect, of
// the inner step for one item.
type ownRead struct {
	read
	step *Step
}

// A placedTemplate is a template and where it is.
type placedTemplate struct {
	read
	template *template.Template
}

// A templateCheck checks templates, and finds what they read.
type templateCheck struct{ *subject }

// references parses every template and checks what they read.
func (c *templateCheck) references() {
	for _, n := range c.nodes {
		c.stepTemplates(n)
	}
	if c.def.Output != nil {
		c.outputTemplates("output.properties", c.def.Output.Properties, false)
	}
}

func (c *templateCheck) stepTemplates(n node) {
	c.condition(n)
	c.text(n, read{field: "message", text: n.step.Message})
	c.collection(n)
	c.texts(n, read{field: "arguments"}, n.step.Arguments)
	c.text(n, read{field: "for", text: n.step.For})
	c.text(n, read{field: "until", text: n.step.Until})
	if p := n.step.Probe; p != nil {
		c.texts(n, read{field: "probe.arguments", probes: true}, p.Arguments)
		c.text(n, read{field: "probe.happened", text: p.Happened, own: true, probes: true})
		c.text(n, read{field: "probe.notHappened", text: p.NotHappened, own: true, probes: true})
		c.text(n, read{field: "probe.result", text: p.Result, own: true, probes: true})
	}
	if undo := n.step.Compensate; undo != nil {
		c.texts(n, read{field: "compensate.arguments", own: true, undoes: true}, undo.Arguments)
	}
	c.collect(n)
	c.ignoredTemplates(template.AtMember(n.path, "defaultResults"), n.label+": defaultResults", n.step.DefaultResults.Value)
	c.ignoredTemplates(template.AtMember(n.path, "schema"), n.label+": schema", n.step.Schema.members())
}

func (c *templateCheck) collection(n node) {
	text := n.step.Collection
	t := c.text(n, read{field: "collection", text: text})
	if t == nil || t.HasActions() || strings.TrimSpace(text) == "" {
		return
	}
	value, err := template.DecodeValue([]byte(text))
	if err != nil || !template.IsKind(value, "array") && !template.IsKind(value, "object") {
		_, write := t.Foreign()
		c.neverRuns(n, "collection", "collection", "the collection is the text %s, which is no JSON array or object; %s", template.Excerpt(text), cmp.Or(write, "templates stand in {{ }}"))
	}
}

// collect checks the template collect of a forEach, which reads the item as the inner
// step does.
func (c *templateCheck) collect(n node) {
	n.vars = n.itemVars()
	t := c.text(n, read{field: "collect", text: n.step.Collect, own: true})
	if t != nil && n.step.Collect != "" && !t.HasActions() {
		c.stepWarnf(n, "collect", "collect", "collect gives %s for each item, whatever it is; templates stand in {{ }}", template.Excerpt(n.step.Collect))
	}
}

// neverRuns reports a field with which a step always fails: an error unless the step
// continues.
func (c *subject) neverRuns(n node, field, check, format string, args ...any) {
	path := template.AtMember(n.path, field)
	c.report(path, c.def.At(path), fatalUnless(n.step.Continues()), check, "%s: %s", n.label, fmt.Sprintf(format, args...))
}

func fatalUnless(continues bool) Severity {
	if continues {
		return SeverityWarning
	}
	return SeverityError
}

// texts checks the templates in a value: strings at any depth.
func (c *templateCheck) texts(n node, r read, value any) {
	field := r.field
	switch value := value.(type) {
	case string:
		r.text = value
		c.text(n, r)
	case []any:
		for i, elem := range value {
			r.field = template.AtElement(field, i)
			c.texts(n, r, elem)
		}
	case map[string]any:
		for _, name := range template.SortedKeys(value) {
			r.field = template.AtMember(field, name)
			c.texts(n, r, value[name])
		}
	}
}

// text checks one template of a step and gives it; nil if it has mistakes. The caller
// sets field and text of r, and its flags.
func (c *templateCheck) text(n node, r read) *template.Template {
	r.label, r.path = n.label, template.AtMember(n.path, r.field)
	if n.outer != nil {
		r.by, r.outermost = n.outer.ID, !n.inner()
	}
	t := c.parse(r)
	if t == nil {
		return nil
	}
	if found, write := t.Foreign(); found != "" && r.field != "collection" { // which says it itself
		c.readf(r, SeverityWarning, "not-a-template", "%s: %s: %s is taken as text; %s", r.label, r.field, template.Excerpt(found), write)
	}
	if found, offset := t.Character(); found != "" {
		r.at = offset
		c.readf(r, SeverityWarning, "character", "%s: %s: %s is the number of a character; a text stands in double quotes, or in backquotes: `%s`", r.label, r.field, found, strings.Trim(found, "'"))
	}
	c.placed = append(c.placed, placedTemplate{r, t})
	for _, ref := range t.Refs() {
		r.at, r.lenient = ref.Offset, ref.Lenient
		c.reference(n, r, ref)
	}
	for _, compared := range t.Comparisons() {
		r.at = compared.Offset
		c.comparison(r, compared)
	}
	return t
}

// parse parses a template, and reports its mistake.
func (c *subject) parse(r read) *template.Template {
	t, err := template.Parse(r.text)
	if err == nil {
		return t
	}
	r.at = -1
	if syntax, ok := errors.AsType[*template.SyntaxError](err); ok {
		r.at = syntax.Offset
		if meant := c.meantData(syntax.Word); meant != "" {
			err = fmt.Errorf("%q is read as a function: write %s", syntax.Word, meant)
		}
	}
	where := r.label
	if r.field != "" {
		where += ": " + r.field
	}
	c.readf(r, SeverityError, "template", "%s: %s", where, err)
	return nil
}

func (c *templateCheck) outputTemplates(path string, properties map[string]*Property, optional bool) {
	for _, name := range template.SortedKeys(properties) {
		p := properties[name]
		if p == nil {
			continue
		}
		at := template.AtMember(path, name)
		fallback := optional || p.Default != nil
		c.text(node{path: at, label: propertyLabel(at)}, read{field: "value", text: p.Value, optional: fallback, property: p})
		c.ignoredTemplates(template.AtMember(at, "default"), propertyLabel(at)+": default", p.Default)
		c.outputTemplates(template.AtMember(at, "properties"), p.Properties, fallback)
	}
}

// ignoredTemplates warns of texts that look like templates where none is expanded.
func (c *templateCheck) ignoredTemplates(path, label string, value any) {
	switch value := value.(type) {
	case string:
		if strings.Contains(value, "{{") {
			c.warnf(path, "not-a-template", "%s is taken as it is: %s is not expanded here", label, template.Excerpt(value))
		}
	case []any:
		for i, elem := range value {
			c.ignoredTemplates(template.AtElement(path, i), label, elem)
		}
	case map[string]any:
		for _, name := range template.SortedKeys(value) {
			c.ignoredTemplates(template.AtMember(path, name), label, value[name])
		}
	}
}

var (
	roots          = template.Roots
	stepFields     = []string{"status", "output", "action", "content", "by", "at", "error", "reason"}
	answerFields   = []string{"action", "content", "by", "at"} // of elicitations
	callFields     = []string{"key", "arguments", "sent"}
	workflowFields = []string{"id", "status", "step_count", "duration_ms", "start_time"}
)

// reference checks one place that a template reads.
func (c *templateCheck) reference(n node, r read, ref template.Ref) {
	warn := func(check, format string, args ...any) {
		c.readf(r, SeverityWarning, check, "%s: %s: %s", r.label, r.field, fmt.Sprintf(format, args...))
	}
	switch ref.Root {
	case "steps":
		c.stepReference(r, ref)
	case "params":
		if known := c.parameterNames(); len(ref.Path) > 0 && known != nil && !slices.Contains(known, ref.Path[0]) {
			warn("unknown-parameter", "parameter %q is not declared%s", ref.Path[0], template.DidYouMean(ref.Path[0], known))
		} else if len(ref.Path) > 1 {
			name := "params." + ref.Path[0]
			if why := lackedField(name, c.parameter(template.Ref{Root: ref.Root, Path: ref.Path[:1]}), ref.Path[1:]); why != "" {
				warn("unknown-field", "reads .params.%s, but %s", strings.Join(ref.Path, "."), why)
			}
		}
	case "forEach":
		c.forEachReference(n, r, ref)
	case "workflow":
		if len(ref.Path) > 0 && !slices.Contains(workflowFields, ref.Path[0]) {
			warn("unknown-field", "a workflow has no %q%s; known fields: %s", ref.Path[0], template.DidYouMean(ref.Path[0], workflowFields), strings.Join(workflowFields, ", "))
		}
	case "vars":
		warn("unknown-field", ".vars is always empty")
	case "output":
		c.ownOutput(n, r, ref)
	case "call":
		if !r.probes {
			warn("unknown-field", ".call is known in a probe only")
		} else if len(ref.Path) > 0 && !slices.Contains(callFields, ref.Path[0]) {
			warn("unknown-field", "a call has no %q%s; known fields: %s", ref.Path[0], template.DidYouMean(ref.Path[0], callFields), strings.Join(callFields, ", "))
		}
	default:
		warn("unknown-field", "unknown name .%s%s; known names: .%s", ref.Root, c.meantRoot(n, ref.Root), strings.Join(roots, ", ."))
	}
}

// meantRoot says what may be meant by a name that is no root of the data.
func (c *templateCheck) meantRoot(n node, name string) string {
	switch {
	case slices.Contains(n.vars, name):
		return ": write .forEach." + name
	case slices.Contains(c.parameterNames(), name):
		return ": write .params." + name
	case c.steps[name] != nil:
		return ": write .steps." + name
	}
	return cmp.Or(template.MeantRoot(name), template.DidYouMean(name, roots))
}

// meantField says what may be meant by a field that no step has.
func meantField(field, step string, s *Step) string {
	hint := template.DidYouMean(field, stepFields)
	switch {
	case hint != "":
		return hint
	case s.Type.Traits().Asks && slices.Contains([]string{"approved", "accepted", "answer", "answered", "declined", "response", "decision"}, field):
		return fmt.Sprintf(`: write {{eq .steps.%s.action "accept"}}`, step)
	case s.Type.Traits().Asks:
		return fmt.Sprintf(": write .steps.%s.content.%s", step, field)
	}
	return fmt.Sprintf(": write .steps.%s.output.%s", step, field)
}

// ownOutput checks a template that reads .output.
func (c *templateCheck) ownOutput(n node, r read, ref template.Ref) {
	if !r.own {
		c.readf(r, SeverityWarning, "unknown-field", "%s: %s reads .output, which only collect, compensate and probe have; others read .steps.ID.output", r.label, r.field)
		return
	}
	if r.probes {
		return // the output of another tool than the step's
	}
	r.what = append([]string{"output"}, ref.Path...)
	own := ownRead{r, n.step}
	if !r.undoes {
		own.step = n.step.Step
	}
	if own.step != nil {
		c.owns = append(c.owns, own)
	}
}

// readf reports a mistake in a read of a template.
func (c *subject) readf(r read, severity Severity, check, format string, args ...any) {
	c.report(r.path, c.def.within(r.path, r.text, r.at), severity, check, format, args...)
}

// parameterNames gives the parameters that a call can have; nil = any.
func (c *subject) parameterNames() []string {
	p := c.def.Parameters
	if !closed(p) {
		return nil
	}
	properties, _ := p["properties"].(map[string]any)
	return template.SortedKeys(properties)
}

func (c *templateCheck) forEachReference(n node, r read, ref template.Ref) {
	if len(n.vars) == 0 {
		c.readf(r, SeverityError, "for-each", "%s: %s reads .forEach, which only the inner step of a forEach has", r.label, r.field)
		return
	}
	if len(ref.Path) > 0 && !slices.Contains(n.vars, ref.Path[0]) {
		c.readf(r, SeverityError, "for-each", "%s: %s reads .forEach.%s, but here are only .forEach.%s",
			r.label, r.field, ref.Path[0], strings.Join(n.vars, ", .forEach."))
	}
}

func (c *templateCheck) stepReference(r read, ref template.Ref) {
	if len(ref.Path) == 0 {
		return
	}
	r.step, r.what = ref.Path[0], ref.Path[1:]
	if c.steps[r.step] == nil {
		c.readf(r, SeverityError, "unknown-step", "%s: %s reads step %q, which does not exist%s", r.label, r.field, r.step, c.hint(r.step))
		return
	}
	if len(r.what) > 0 && !slices.Contains(stepFields, r.what[0]) {
		c.readf(r, SeverityWarning, "unknown-field", "%s: %s reads %q of step %q, but a step has %s%s",
			r.label, r.field, r.what[0], r.step, strings.Join(stepFields, ", "), meantField(r.what[0], r.step, c.steps[r.step]))
	}
	switch s := c.steps[r.step]; {
	case len(r.what) == 0 || s.Type.Traits().Asks || !slices.Contains(answerFields, r.what[0]):
	case r.what[0] == "content" && s.Type.Traits().Blocks:
		if len(r.what) > 1 && contentName.MatchString(r.what[1]) {
			r.what = append([]string{"output"}, r.what[1:]...)
		} else {
			c.readf(r, SeverityWarning, "unknown-field", "%s: %s reads the content of step %q, which has only the blocks that templates name, such as .steps.ID.content.text; read one of those, or the output", r.label, r.field, r.step)
		}
	default:
		c.readf(r, SeverityWarning, "unknown-field", "%s: %s reads %q of step %q, which only a step of type elicitation has", r.label, r.field, r.what[0], r.step)
	}
	c.knownOutput(r, c.steps[r.step])
	c.reads = append(c.reads, r)
}

// knownOutput warns of fields that the output of a step cannot have.
func (c *templateCheck) knownOutput(r read, s *Step) {
	var known []string
	if kind, ok := KindOf(s.Type); ok {
		known = kind.Output(s)
	}
	if known == nil || len(r.what) < 2 || r.what[0] != "output" || slices.Contains(known, r.what[1]) {
		return
	}
	if s.hasDefault(r.what[1]) {
		return
	}
	hint := template.DidYouMean(r.what[1], known)
	switch {
	case r.what[1] == "collected":
		hint = " without collect"
	case s.Type.Traits().Asks:
		hint = fmt.Sprintf(": write .steps.%s.content.%s", r.step, r.what[1])
	}
	c.readf(r, SeverityWarning, "unknown-output", "%s: %s reads output.%s of step %q, but a step of type %s has no such output%s; known outputs: %s",
		r.label, r.field, r.what[1], r.step, s.Type, hint, strings.Join(known, ", "))
}

// hint suggests the id of a step, for an unknown one.
func (c *subject) hint(id string) string {
	for _, n := range c.nodes {
		if n.inner() && n.step.ID == id {
			return fmt.Sprintf(": it is the inner step of %q; read .steps.%[1]s.output.iterations", n.outer.ID)
		}
	}
	return template.DidYouMean(id, template.SortedKeys(c.steps))
}
