package definitions

import (
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions/template"
)

// comparison warns of a value that is compared with a text that it never has.
func (c *templateCheck) comparison(r read, compared template.Comparison) {
	where := strings.Join(append([]string{compared.Root}, compared.Path...), ".")
	if types := valueTypes(c.parameter(compared.Ref)); len(types) == 1 && len(compared.Texts) > 0 {
		if write := comparedByText[types[0]]; write != "" {
			c.readf(r, SeverityWarning, "never-equal", "%s: %s compares .%s, of type %s, with the text %s, which fails: %s",
				r.label, r.field, where, types[0], template.Excerpt(compared.Texts[0]), strings.ReplaceAll(write, "VALUE", "."+where))
			return
		}
	}
	values := c.possible(compared.Ref)
	if values == nil {
		return
	}
	for _, text := range compared.Texts {
		if slices.Contains(values, text) {
			continue
		}
		c.readf(r, SeverityWarning, "never-equal", "%s: %s compares .%s with %s, which it never is%s; its values are %s",
			r.label, r.field, where, template.Excerpt(text),
			template.DidYouMean(text, values), strings.Join(values, ", "))
	}
}

// comparedByText is what to write where a value that is no text is compared with one, by
// its type.
var comparedByText = map[string]string{
	"boolean": "write {{VALUE}} or {{not VALUE}}",
	"number":  "write the number without quotes",
	"integer": "write the number without quotes",
	"array":   `write {{has "x" VALUE}}, or compare one of its elements`,
	"object":  "compare one of its properties",
}

// parameter is the schema of the parameter, or the field of one, that a reference reads;
// nil = none is known.
func (c *templateCheck) parameter(ref template.Ref) map[string]any {
	if ref.Root != "params" || len(ref.Path) == 0 {
		return nil
	}
	schema := c.def.Parameters
	for _, name := range ref.Path {
		properties, _ := schema["properties"].(map[string]any)
		schema, _ = properties[name].(map[string]any)
	}
	return schema
}

// possible are the texts that a place of the data may have; nil = not known.
func (c *templateCheck) possible(ref template.Ref) []string {
	switch {
	case c.parameter(ref) != nil:
		return textsOf(c.parameter(ref))
	case ref.Root != "steps" || len(ref.Path) < 2:
		return nil
	}
	s, what := c.steps[ref.Path[0]], ref.Path[1:]
	if s == nil {
		return nil
	}
	if what[0] == "output" && s.Type.Traits().Asks {
		what = what[1:]
	}
	switch {
	case len(what) == 1 && what[0] == "status" && len(ref.Path) == 2:
		return []string{"completed", "failed", "skipped"}
	case len(what) == 1 && what[0] == "action" && s.Type.Traits().Asks:
		return []string{"accept", "decline", "cancel"}
	case len(what) == 2 && what[0] == "content" && s.Type.Traits().Asks && s.DefaultResults.Value == nil:
		properties, _ := s.Schema.members()["properties"].(map[string]any)
		property, _ := properties[what[1]].(map[string]any)
		return textsOf(property)
	}
	return nil
}
