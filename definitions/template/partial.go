package template

import (
	"errors"
	"slices"
	"strings"
	"text/template/parse"
)

// Templates can be expanded with data that is known in part. What is not known is
// marked in the data, and an expansion that needs a mark fails with ErrNotKnown.
// One that succeeds did not depend on it, so its result is what a run would get.

// Unknown is a value that only a run has.
type Unknown struct{}

// A Partial is an object with members that are not known, at any depth. Its known
// members can be read; the object as a whole cannot.
type Partial map[string]any

// ErrNotKnown ends an expansion that needs what is not known.
var ErrNotKnown = errors.New("only a run has what it reads")

// needsAll is ErrNotKnown for a template that reads its data as a whole, of which
// a part is not known: functions, loops and printing do not know the marks.
func (t *Template) needsAll(data any) error {
	members, _ := data.(map[string]any)
	if !t.all {
		return nil
	}
	for _, name := range SortedKeys(members) {
		switch members[name].(type) {
		case Partial, Unknown:
			return ErrNotKnown
		}
	}
	return nil
}

// WaitsFor names what the template reads that is not known: steps by their ID,
// the rest as it is written, such as workflow.id.
func (t *Template) WaitsFor(data map[string]any) []string {
	var names []string
	for _, ref := range t.Refs() {
		name, isKnown := ref.lookUp(data)
		if !isKnown && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if t.all {
		names = append(names, ".")
	}
	if names == nil { // known, but it is taken out of what is not
		names = t.partialRoots(data)
	}
	return names
}

func (t *Template) partialRoots(data map[string]any) []string {
	var names []string
	for _, ref := range t.Refs() {
		if _, ok := data[ref.Root].(Partial); ok && !slices.Contains(names, ref.Root) {
			names = append(names, ref.Root)
		}
	}
	return names
}

// lookUp gives the name of a place, and whether its value is known.
func (r Ref) lookUp(data map[string]any) (name string, isKnown bool) {
	base := data[r.Root]
	for _, member := range r.Path {
		switch object := base.(type) {
		case map[string]any:
			base = object[member]
		case Partial:
			base = object[member]
		}
	}
	switch base.(type) {
	case Unknown, Partial:
	default:
		return "", true
	}
	if len(r.Path) == 0 {
		return r.Root, false
	}
	if r.Root == "steps" {
		return r.Path[0], false
	}
	return r.Root + "." + r.Path[0], false
}

// KnownPart expands those parts of a text that are known and leaves the others
// as they are written. A template that keeps variables stays as it is.
func (t *Template) KnownPart(data map[string]any) string {
	tree := t.Tree()
	if tree == nil || tree.Root == nil {
		return t.text
	}
	var b strings.Builder
	for _, node := range tree.Root.Nodes {
		if action, ok := node.(*parse.ActionNode); ok && len(action.Pipe.Decl) > 0 {
			return t.text
		}
		if b.WriteString(knownNode(node, data)); b.Len() > MaxExpansion {
			return t.text
		}
	}
	return b.String()
}

func knownNode(node parse.Node, data map[string]any) string {
	written := node.String()
	if text, ok := node.(*parse.TextNode); ok {
		return string(text.Text)
	}
	t, syntax := parseText(written)
	if syntax != nil {
		return written
	}
	if text, err := t.Text(data); err == nil {
		return text
	}
	return written
}
