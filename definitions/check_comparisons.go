package definitions

import (
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions/template"
)

// comparison warns of a value that is compared with a text that it never has.
func (c *templateCheck) comparison(r read, compared template.Comparison) {
	values := c.possible(compared.Ref)
	if values == nil {
		return
	}
	for _, text := range compared.Texts {
		if slices.Contains(values, text) {
			continue
		}
		c.readf(r, SeverityWarning, "never-equal", "%s: %s compares .%s with %s, which it never is%s; its values are %s",
			r.label, r.field, strings.Join(append([]string{compared.Root}, compared.Path...), "."), template.Excerpt(text),
			template.DidYouMean(text, values), strings.Join(values, ", "))
	}
}

// possible are the texts that a place of the data may have; nil = not known.
func (c *templateCheck) possible(ref template.Ref) []string {
	switch {
	case ref.Root == "params" && len(ref.Path) == 1:
		properties, _ := c.def.Parameters["properties"].(map[string]any)
		return textsOf(properties[ref.Path[0]])
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
		return textsOf(properties[what[1]])
	}
	return nil
}

// textsOf are the values of an enum of texts; nil = the schema has none, or others.
func textsOf(schema any) (texts []string) {
	property, _ := schema.(map[string]any)
	enum, _ := property["enum"].([]any)
	for _, value := range enum {
		text, ok := value.(string)
		if !ok {
			return nil
		}
		texts = append(texts, text)
	}
	return texts
}
