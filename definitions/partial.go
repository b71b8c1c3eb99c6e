package definitions

import (
	"errors"
	"slices"
	"strings"
	"text/template/parse"
)

// Templates can be expanded with data of which only a part is known. What is
// not known is marked in the data, and an expansion that comes upon a mark
// stops. One that ends did not depend on it, so that its result is what a run
// would get: nothing is guessed.

// unknown stands for a value that only a run can tell.
type unknown struct{}

// A partial is an object with members that are not known, at any depth. Its
// known members can be read; the object as a whole cannot.
type partial map[string]any

// errNotKnown stops an expansion that needs what is not known.
var errNotKnown = errors.New("only a run can tell what it reads")

// partly expands a template for data of which a part is known. The error is
// errNotKnown if what is known does not suffice.
func partly[T any](t *Template, data map[string]any, expand func(data map[string]any) (T, error)) (T, error) {
	if t.all { // functions, loops and printing do not know the marks
		var none T
		return none, errNotKnown
	}
	return expand(data)
}

// waitsFor names what a template reads that is not known: steps by their ID,
// the rest as it is written, such as workflow.id.
func (t *Template) waitsFor(data map[string]any) []string {
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
		if _, ok := data[ref.Root].(partial); ok && !slices.Contains(names, ref.Root) {
			names = append(names, ref.Root)
		}
	}
	return names
}

// lookUp says how a place is called, and whether its value is known.
func (r Ref) lookUp(data map[string]any) (name string, isKnown bool) {
	base := data[r.Root]
	for _, member := range r.Path {
		switch object := base.(type) {
		case map[string]any:
			base = object[member]
		case partial:
			base = object[member]
		}
	}
	switch base.(type) {
	case unknown, partial:
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

// knownPart expands those parts of a text that are known and leaves the others
// as they are written. A template that keeps variables stays as it is.
func (t *Template) knownPart(data map[string]any) string {
	tree := parse.New("")
	tree.Mode = parse.SkipFuncCheck
	trees := map[string]*parse.Tree{}
	if _, err := tree.Parse(t.text, "", "", trees); err != nil || t.subs != nil || tree.Root == nil {
		return t.text
	}
	var b strings.Builder
	for _, node := range tree.Root.Nodes {
		if action, ok := node.(*parse.ActionNode); ok && len(action.Pipe.Decl) > 0 {
			return t.text
		}
		if b.WriteString(knownNode(node, data)); b.Len() > MaxTemplateResult {
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
	t, syntax := parseTemplate(written)
	if syntax != nil {
		return written
	}
	if text, err := partly(t, data, func(data map[string]any) (string, error) { return t.Text(data) }); err == nil {
		return text
	}
	return written
}
