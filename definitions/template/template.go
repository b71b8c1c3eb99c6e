// Package template is the language of the texts in a definition: text/template
// with exact numbers, functions that are bounded in work, and values that keep
// their types.
//
//	text ──Parse──► Template + data ──► text, or the value of its one expression
//	value with texts ──ParseArgument──► Argument + data + Schema ──► JSON
//
// Data are values as DecodeValue gives them. It may be known in part: see Partial.
//
// The same text with the same data always gives the same result, whatever the
// time, the machine or the order of a map.
package template

import (
	"errors"
	"fmt"
	"strings"
	"text/template/parse"
)

// MaxExpansion is how many bytes one expansion may give.
const MaxExpansion = 10 << 20

// MaxNamedValue is how many bytes a value may have that a template only names.
const MaxNamedValue = 64 << 20

// MaxExpansionWork bounds the work of one expansion: bytes that functions build, plus
// a price for each turn of a loop, each call, each element of an array that a
// function builds or sorts, and each letter that a regular expression reads. It is
// reached within about a second.
const MaxExpansionWork = 50 << 20

// Prices of other work, in bytes.
const (
	turnPrice    = 128 // of a turn of a loop
	callPrice    = 32  // of calling a function or reading a field
	elementPrice = 8   // of an element
	sortPrice    = 64  // of an element or a member that is sorted

	containerFactor = 3 // of a byte of an array or object that is printed or encoded
)

const (
	maxTemplateText = 1 << 20 // bytes of a text with actions
	maxMessage      = 500     // bytes of an error's message
)

// Names of the functions that rewriting puts into a template. No template can
// name them: they are not in the function table.
const (
	printFunc = "__print" // takes the value of each printed pipeline
	fieldFunc = "__field" // takes the place of .a.b, with the path as text
	rangeFunc = "__range" // takes what a range goes through
)

// A Template is a text of a definition in the language of text/template,
// parsed once. It is immutable and may be used by many goroutines at a time.
//
// Unlike in text/template, a missing value prints as nothing; a field of it, or of
// null, is missing too.
type Template struct {
	text        string
	main        *parse.Tree            // nil: text without actions
	subs        map[string]*parse.Tree // templates that the text defines; usually nil
	refs        []Ref
	comparisons []Comparison
	all         bool // it reads the data as a whole

	single        bool
	before, after string // white space around a single expression
	names         bool   // that expression does nothing but name a value: .steps.read.output
}

// Parse parses text and checks all of it that does not depend on data. The error
// is a *SyntaxError.
func Parse(text string) (*Template, error) {
	t, err := parseText(text)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// parsed gives the tree of a text, and those that it defines. It does not look at
// functions: checkTrees does, with positions.
func parsed(text string) (main *parse.Tree, trees map[string]*parse.Tree, err error) {
	main, trees = parse.New(""), map[string]*parse.Tree{}
	main.Mode = parse.SkipFuncCheck
	_, err = main.Parse(text, "", "", trees)
	return main, trees, err
}

// Source is the text of the template.
func (t *Template) Source() string { return t.text }

// parseText parses text and checks all of it that does not depend on
// data: syntax, functions and the number of their arguments, templates that
// it calls.
func parseText(text string) (*Template, *SyntaxError) {
	t := &Template{text: text}
	if !strings.Contains(text, "{{") {
		return t, nil
	}
	if len(text) > maxTemplateText {
		return nil, &SyntaxError{Offset: -1, Message: fmt.Sprintf("template text is longer than %d bytes", maxTemplateText)}
	}
	main, trees, err := parsed(text)
	if err != nil {
		return nil, syntaxError(text, err)
	}
	t.main = main
	if err := checkTrees(text, t.main, trees); err != nil {
		err.Message += besides(text, err.Offset)
		return nil, err
	}
	t.findRefs(text, t.main, trees)
	t.findSingleExpression()
	for _, name := range SortedKeys(trees) {
		rewriteList(trees[name].Root)
		if trees[name] == t.main {
			continue
		}
		trees[name].Root.Nodes = append([]parse.Node{loopTurn()}, trees[name].Root.Nodes...)
		if t.subs == nil {
			t.subs = map[string]*parse.Tree{}
		}
		t.subs[name] = trees[name]
	}
	if trees[""] != t.main { // Parse leaves a tree of only space and definitions out of the set
		rewriteList(t.main.Root)
	}
	return t, nil
}

// HasActions reports whether expanding the template can give anything but its
// text.
func (t *Template) HasActions() bool { return t.main != nil }

// IsSingleExpression reports whether the template is one printed expression
// and nothing but white space around it, so that it has a value.
func (t *Template) IsSingleExpression() bool { return t.single }

// Text expands the template with data. The error is a plain sentence, and
// names MaxExpansion or MaxExpansionWork if one of them was hit.
func (t *Template) Text(data any) (string, error) {
	text, _, err := t.rendered(data)
	return text, err
}

// rendered gives the text and the work that it took.
func (t *Template) rendered(data any) (text string, work int, err error) {
	if t.main == nil {
		return t.text, len(t.text), nil
	}
	if err := t.needsAll(data); err != nil {
		return "", 0, err
	}
	x := t.expansion()
	defer x.release(t)
	if err := x.tmpl.Execute(x, data); err != nil {
		return "", x.work, plainError(err)
	}
	return string(x.out), x.work + len(x.out), nil
}

// Value gives the value of a single expression as it is, not as text. ok is false if
// it is missing or null.
func (t *Template) Value(data any) (v any, ok bool, err error) {
	if !t.single {
		return nil, false, errors.New("the template is not one expression")
	}
	v, _, err = t.native(data)
	return v, v != nil, err
}

// NamesValue reports whether the template only names a value: {{.steps.read.output}}.
func (t *Template) NamesValue() bool { return t.names }

// IsNull reports whether the template gives null, as a value or as text. A missing
// value that it names is not null.
func (t *Template) IsNull(data any) (bool, error) {
	switch {
	case t.names && len(t.refs) == 1:
		return isNullAt(data, append([]string{t.refs[0].Root}, t.refs[0].Path...)), nil
	case t.single:
		v, _, err := t.native(data)
		return isNull(v), err
	}
	text, err := t.Text(data)
	return isNull(text), err
}

func isNull(v any) bool {
	text, isText := v.(string)
	return v == nil || isText && strings.TrimSpace(text) == "null"
}

// isNullAt reports whether there is a member at a path, and it is null.
func isNullAt(data any, path []string) bool {
	members, ok := data.(map[string]any)
	if !ok {
		return false
	}
	member, ok := members[path[0]]
	if len(path) == 1 {
		return ok && isNull(member)
	}
	return isNullAt(member, path[1:])
}

// Reads gives the paths of the data that the template reads; an empty path is the data
// as a whole.
func (t *Template) Reads() [][]string {
	paths := make([][]string, 0, len(t.refs)+1)
	if t.all {
		paths = append(paths, nil)
	}
	for _, ref := range t.refs {
		paths = append(paths, append([]string{ref.Root}, ref.Path...))
	}
	return paths
}

// Any is the kind with which Expand gives the value of the only expression unchanged.
const Any = "any"

// Expand expands the template with data. Without kinds v is its text; with kinds,
// types of JSON Schema, a value of the first that fits, or text if none does; with the
// kind Any the value of its only expression. v is nil for a missing value. Work is
// the effort, in bytes.
func (t *Template) Expand(data any, kinds []string) (v any, work int, err error) {
	switch {
	case len(kinds) == 1 && kinds[0] == Any && !t.single:
		return nil, 0, errors.New("the template is not one expression")
	case len(kinds) == 1 && kinds[0] == Any:
		return t.native(data)
	case kinds == nil:
		return t.rendered(data)
	}
	v, _, work, err = t.expandAs(data, kinds)
	return v, work, err
}

// native gives the value of the last expression that the template prints, and
// the work that it took.
func (t *Template) native(data any) (v any, work int, err error) {
	if err := t.needsAll(data); err != nil {
		return nil, 0, err
	}
	x := t.expansion()
	defer x.release(t)
	x.native = true
	if err := x.tmpl.Execute(x, data); err != nil {
		return nil, x.work, plainError(err)
	}
	limit, tooLarge := MaxExpansion, errTooLarge
	if t.names {
		limit, tooLarge = MaxNamedValue, errLargeName
	}
	if err := checkSize(x.value, limit); err == errTooLarge {
		return nil, x.work, tooLarge
	} else if err != nil {
		return nil, x.work, err
	}
	return x.value, x.work, nil
}

// checkSize refuses a value that is too large. As JSON, nested arrays can be larger
// than the memory that they take.
func checkSize(v any, limit int) error {
	switch v := v.(type) {
	case string:
		if len(v) > limit {
			return errTooLarge
		}
	case []any, map[string]any:
		e := encoder{limit: limit}
		return e.encode(v)
	}
	return nil
}

// findSingleExpression sets single, before and after.
func (t *Template) findSingleExpression() {
	expressions, names := 0, false
	var around [2]string
	for _, node := range t.main.Root.Nodes {
		switch node := node.(type) {
		case *parse.TextNode:
			if strings.TrimSpace(string(node.Text)) != "" {
				return
			}
			around[min(expressions, 1)] += string(node.Text)
		case *parse.ActionNode:
			if len(node.Pipe.Decl) > 0 {
				return
			}
			expressions++
			names = namesValue(node.Pipe)
		default:
			return
		}
	}
	if expressions == 1 {
		t.single, t.before, t.after, t.names = true, around[0], around[1], names
	}
}

// Always gives the text around the actions of the template, which is part of every
// result.
func (t *Template) Always() string {
	if t.main == nil {
		return t.text
	}
	var text strings.Builder
	for _, node := range t.main.Root.Nodes {
		if node, ok := node.(*parse.TextNode); ok {
			text.Write(node.Text)
		}
	}
	return text.String()
}

// Padded reports whether there is white space around the only expression.
func (t *Template) Padded() bool { return t.before+t.after != "" }

// Tree is the template as written; nil for a text without actions, or one that defines
// templates.
func (t *Template) Tree() *parse.Tree {
	if t.main == nil || t.subs != nil {
		return nil
	}
	tree, _, _ := parsed(t.text) // it has been parsed before
	return tree
}

// LastFunction is the function whose value the only expression of the template
// gives; "" = none.
func (t *Template) LastFunction() string {
	if !t.single {
		return ""
	}
	for _, node := range t.main.Root.Nodes {
		action, ok := node.(*parse.ActionNode)
		if !ok || len(action.Pipe.Cmds) < 2 { // the last prints; see rewriteList
			continue
		}
		last := action.Pipe.Cmds[len(action.Pipe.Cmds)-2]
		if function, ok := last.Args[0].(*parse.IdentifierNode); ok {
			return function.Ident
		}
	}
	return ""
}

// namesValue reports whether a pipeline is a path and nothing else.
func namesValue(pipe *parse.PipeNode) bool {
	if len(pipe.Cmds) != 1 || len(pipe.Cmds[0].Args) != 1 {
		return false
	}
	_, path := pipe.Cmds[0].Args[0].(*parse.FieldNode)
	return path
}
