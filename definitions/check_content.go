package definitions

import (
	"errors"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions/template"
)

// contents checks what templates read of answers: fields that the elicitation does not
// have, and conditions on fields that may be left out.
func (c *graphCheck) contents() {
	reported := make(map[string]bool)
	once := func(r read, parts ...string) bool {
		key := strings.Join(append([]string{r.path, r.step}, parts...), "\x00")
		defer func() { reported[key] = true }()
		return !reported[key]
	}
	for _, r := range c.reads {
		s, field := c.steps[r.step], r.contentField()
		if !s.Type.Traits().Asks || field == "" || !once(r, field) {
			continue
		}
		c.contentField(r, s, field)
	}
	for _, p := range c.placed {
		if p.field == "condition" || p.property != nil && !p.optional {
			c.refused(p, once)
		}
	}
}

// contentField is the field of an elicitation's content that is read; "" = none.
func (r read) contentField() string {
	what := r.what
	if len(what) > 0 && what[0] == "output" {
		what = what[1:]
	}
	if len(what) < 2 || what[0] != "content" {
		return ""
	}
	return what[1]
}

func (c *graphCheck) contentField(r read, s *Step, field string) {
	schema := s.Schema.members()
	properties, _ := schema["properties"].(map[string]any)
	property, known := properties[field].(map[string]any)
	required, _ := schema["required"].([]any)
	_, standard := property["default"]
	switch {
	case known && (standard || slices.Contains(required, any(field))):
	case known && r.field == "condition" && !r.lenient:
		c.readf(r, SeverityWarning, "content", "%s: %s reads content.%s of step %q, which people may leave out, so that there is nothing to decide by; give the field a default, or require it",
			r.label, r.field, field, r.step)
	case !known && s.Schema == nil:
		c.readf(r, SeverityWarning, "content", "%s: %s reads content.%s of step %q, which has no schema, so that nobody is asked for it", r.label, r.field, field, r.step)
	case !known && !s.contentHasDefault(field):
		c.readf(r, SeverityWarning, "content", "%s: %s reads content.%s of step %q, but its schema has no such field%s", r.label, r.field, field, r.step, template.DidYouMean(field, template.SortedKeys(properties)))
	}
}

// contentHasDefault reports whether the defaultResults have a field of the content.
func (s *Step) contentHasDefault(field string) bool {
	members, _ := s.DefaultResults.Value.(map[string]any)
	content, _ := members["content"].(map[string]any)
	_, ok := content[field]
	return ok
}

// refused warns of a condition, or a property of the output, that fails if the run
// continues after an elicitation that was not accepted. It does not guess: unknown data
// means no warning.
func (c *graphCheck) refused(p placedTemplate, once func(r read, parts ...string) bool) {
	otherwise := "look first whether its action is accept"
	if p.property != nil {
		otherwise = "the property a default"
	}
	for _, ref := range p.template.Refs() {
		if ref.Root != "steps" || len(ref.Path) == 0 {
			continue
		}
		r := p.read
		r.step, r.at = ref.Path[0], ref.Offset
		s := c.steps[r.step]
		if s == nil || !s.Type.Traits().Asks || !once(r, "refused") {
			continue
		}
		for _, outcome := range s.Refusals() {
			if err := p.fails(c.after(r.step, outcome)); err != nil && !errors.Is(err, template.ErrNotKnown) {
				c.readf(r, SeverityWarning, "content", "%s: %s fails when step %q was not accepted and the run continues (%s); give that step defaultResults with content, or %s",
					r.label, r.field, r.step, err, otherwise)
				break
			}
		}
	}
}

// fails is the error with which a condition or a property of the output ends the run, or
// its step.
func (p placedTemplate) fails(data map[string]any) error {
	if p.property != nil {
		_, err := (&OutputProperty{Property: p.property, Template: p.template}).own(data, nil)
		if p.property.Type == "string" && errors.Is(err, ErrMissing) {
			return nil
		}
		return err
	}
	text, err := p.template.Text(data)
	if err == nil {
		_, err = Truth(text)
	}
	return err
}

// after is the data of templates when one step has ended and nothing else is known.
func (c *graphCheck) after(step string, outcome any) map[string]any {
	steps := template.Partial{}
	for id := range c.steps {
		steps[id] = template.Unknown{}
	}
	steps[step] = outcome
	return map[string]any{"params": template.Unknown{}, "steps": steps, "vars": map[string]any{}, "workflow": template.Unknown{}, "forEach": template.Unknown{}}
}

// meantData says what to write for data that a template takes for a function, since it
// has no dot before it; "" = no data of the definition has this name.
func (c *subject) meantData(name string) string {
	switch {
	case name == "":
		return ""
	case slices.Contains(c.parameterNames(), name):
		return ".params." + name
	case c.steps[name] != nil:
		return ".steps." + name
	}
	return ""
}
