package definitions

import (
	"errors"
	"fmt"
	"strings"
)

// An Item is one element of what a forEach goes through.
type Item struct {
	Key   string // name of an object's member
	Named bool   // whether it has a Key: it is a member of an object, not an element of an array
	Value any
}

// Collection gives the items of a forEach: the elements of an array, or the
// members of an object sorted by name. The collection renders to one of them
// as it is or as JSON text.
func (n *Node) Collection(s *Scope) ([]Item, error) {
	items, err := n.items(s.data())
	if err != nil {
		return nil, &TemplateError{Field: "collection", Message: err.Error()}
	}
	return items, nil
}

func (n *Node) items(data any) ([]Item, error) {
	v, ok, err := expandFor(n.collection, data, []string{"array", "object"})
	if err != nil {
		return nil, err
	}
	if !ok {
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
		for _, key := range sortedKeys(v) {
			items = append(items, Item{Key: key, Named: true, Value: v[key]})
		}
		return items, nil
	case string:
		return nil, fmt.Errorf("must give an array or an object; it rendered to %s", excerpt(v))
	}
	return nil, fmt.Errorf("must give an array or an object, not %s", describe(v))
}

// Collect gives what the forEach collects of one item that has completed; its
// scope has the item in ForEach and its output as Output. ok is false if there
// is nothing: the step collects nothing, or the value is missing.
//
// A template that is one expression gives its value as it is. One that is
// written as a JSON object or array gives that, and all else gives text.
func (n *Node) Collect(s *Scope) (value any, ok bool, err error) {
	if n.Step.Collect == "" {
		return nil, false, nil
	}
	if n.collect.IsSingleExpression() {
		value, ok, err = n.collect.Value(s.data())
	} else {
		var text string
		text, err = n.collect.Text(s.data())
		value, ok = readAs(text, writtenKinds(n.Step.Collect)), true
	}
	if err != nil {
		return nil, false, &TemplateError{Field: "collect", Message: err.Error()}
	}
	return value, ok, nil
}

// writtenKinds gives the kinds that a template is written as: an object if it
// starts with a brace that opens no action, an array if with a bracket.
func writtenKinds(text string) []string {
	switch text = strings.TrimSpace(text); {
	case strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "{{"):
		return []string{"object"}
	case strings.HasPrefix(text, "["):
		return []string{"array"}
	default:
		return nil
	}
}
