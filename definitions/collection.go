package definitions

import (
	"errors"
	"fmt"
	"strings"

	"github.com/perdure/perdure/definitions/template"
)

// An Item is one element of a forEach's collection.
type Item struct {
	Key   string // name of an object's member
	Named bool   // it has a Key: it is a member of an object, not an element of an array
	Value any
}

// Collection gives the items of a forEach: the elements of an array, or the
// members of an object sorted by name. The collection renders to one of them
// as it is or as JSON text. null has no items; a missing value is an error.
func (n *Node) Collection(d Data) ([]Item, error) {
	items, err := n.items(d.Data())
	return items, template.InField("collection", err)
}

func (n *Node) items(data any) ([]Item, error) {
	v, ok, err := n.Templates.Collection.ExpandAs(data, []string{"array", "object"})
	if err != nil {
		return nil, err
	}
	if !ok {
		if null, err := n.Templates.Collection.IsNull(data); null || err != nil {
			return nil, err
		}
		return nil, errors.New("has no value; it must give an array or an object")
	}
	switch v := v.(type) {
	case []any:
		items := make([]Item, len(v))
		for i, element := range v {
			items[i].Value = element
		}
		return items, nil
	case map[string]any:
		items := make([]Item, 0, len(v))
		for _, key := range template.SortedKeys(v) {
			items = append(items, Item{Key: key, Named: true, Value: v[key]})
		}
		return items, nil
	case string:
		return nil, fmt.Errorf("must give an array or an object; it rendered to %s", template.Excerpt(v))
	}
	return nil, fmt.Errorf("must give an array or an object, not %s", template.Describe(v))
}

// Collect gives what the forEach collects of one completed item; the scope has the
// item in ForEach and its output as Output. ok is false if the step collects nothing
// or the value is missing.
//
// A template that is one expression gives its value as it is; one written as a JSON
// object or array gives that; any other gives text.
func (n *Node) Collect(d Data) (value any, ok bool, err error) {
	t := n.Templates.Collect
	switch {
	case n.Step.Collect == "":
		return nil, false, nil
	case t.IsSingleExpression():
		value, ok, err = t.Value(d.Data())
	default:
		var text string
		text, err = t.Text(d.Data())
		value, ok = template.ReadAs(text, WrittenKinds(n.Step.Collect)), err == nil
	}
	return value, ok, template.InField("collect", err)
}

// WrittenKinds gives the kinds that a template is written as: an object if it
// starts with a brace that opens no action, an array if with a bracket.
func WrittenKinds(text string) []string {
	switch text = strings.TrimSpace(text); {
	case strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "{{"):
		return []string{"object"}
	case strings.HasPrefix(text, "["):
		return []string{"array"}
	default:
		return nil
	}
}
