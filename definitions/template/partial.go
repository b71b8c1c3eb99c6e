package template

import (
	"errors"
	"slices"
	"strings"
	"text/template/parse"
)

// Templates can be expanded with data that is known in part. Marks in the data replace
// what is unknown, and an expansion that needs one fails with ErrNotKnown. If it
// succeeds, its result is the one of a run.

// Unknown is a value that only a run has.
type Unknown struct{}

// A Partial is an object with unknown members, at any depth. Its known members can be
// read; the object as a whole cannot.
type Partial map[string]any

// ErrNotKnown ends an expansion that needs unknown data.
var ErrNotKnown = errors.New("only a run has what it reads")

// needsAll is ErrNotKnown for a template that reads its data as a whole if a part is
// unknown: functions, loops and printing do not know the marks.
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

// WaitsFor names the unknown data that the template reads: steps by ID, the rest as it
// is written, such as workflow.id.
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
	if names == nil { // known members of a partial
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

// KnownPart expands the known actions of a text and leaves the others as they are
// written. A template with variables stays as it is.
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
