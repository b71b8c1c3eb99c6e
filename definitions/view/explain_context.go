package view

import (
	"slices"

	"github.com/perdure/perdure/definitions/template"
)

// Context is a form to fill in: the data that the explained templates read, as
// DecodeScope takes it, null for each value. nil = they read none.
func (x *Explanation) Context() map[string]any {
	var context map[string]any
	for _, field := range x.Fields {
		t, err := template.Parse(field.Template)
		if err != nil {
			continue // never: it has been compiled
		}
		for _, ref := range t.Refs() {
			if !slices.Contains([]string{"params", "steps", "forEach", "workflow", "output"}, ref.Root) {
				continue
			}
			if context == nil {
				context = map[string]any{}
			}
			open := context
			for _, name := range append([]string{ref.Root}, ref.Path...) {
				within, ok := open[name].(map[string]any)
				if !ok {
					within = map[string]any{}
					open[name] = within
				}
				open = within
			}
		}
	}
	return toFill(context)
}

// toFill puts null for each unknown value.
func toFill(members map[string]any) map[string]any {
	for name, member := range members {
		if within, ok := member.(map[string]any); ok && len(within) == 0 {
			members[name] = nil
		} else if ok {
			toFill(within)
		}
	}
	return members
}
