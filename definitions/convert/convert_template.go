package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template/parse"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
)

// A dot is the place of a template: the meaning of its names.
type dot struct {
	converter *converter
	where     string            // step deploy, for messages
	path      string            // of the step in the definition
	steps     map[string]state  // their results, by step
	every     bool              // steps has all that have ended
	forEach   map[string]string // expressions, by the name after .forEach
	indexes   []string          // expressions: the indexes of the items around, outermost first
	name      string            // of the step in messages: a format of indexes
	output    string            // expression for .output; "" = none
	call      string            // expression for .call; "" = none
	timeless  bool              // what changes with time must not be read: it would be read later
	ended     bool              // in the output block
}

// A translation writes the nodes of one template as expressions.
type translation struct {
	*dot
	here   *expression           // what . is; nil = the data
	locals map[string]expression // values of the template's variables
	names  map[string]bool       // of variables of comprehensions around it
	alone  bool                  // the template is one expression
}

// A state is the expression for the result of a step: its state, or plain its output
// if it has certainly completed.
type state struct {
	code  string
	plain bool
}

// whole is the expression for the whole state.
func (s state) whole() string {
	if s.plain {
		return "completed(" + s.code + ")"
	}
	return s.code
}

// fail says why a field cannot be converted, and what to do.
func (d *dot) fail(field, format string, args ...any) error {
	return d.converter.lacks(d.where+": "+field, template.AtMember(d.path, field), fmt.Sprintf(format, args...))
}

// inside is the dot of a forEach's inner step; entry is its item.
func (d *dot) inside(entry string, s *definitions.Step) *dot {
	in := *d
	in.forEach = maps.Clone(d.forEach)
	if in.forEach == nil {
		in.forEach = map[string]string{}
	}
	name := s.ItemVar
	if name == "" {
		name = "item"
	}
	key := entry + ".key"
	if outer := in.forEach["key"]; outer != "" { // an array has no keys that would hide outer ones
		key = fmt.Sprintf("(%s if %s == None else %s)", outer, key, key)
	}
	in.forEach[name], in.forEach["index"], in.forEach["key"] = entry+".item", entry+".index", key
	in.indexes = append(slices.Clone(d.indexes), entry+".index")
	in.name, in.path = d.name+"[%d]", template.AtMember(d.path, "step")
	return &in
}

// named is the expression for the name of the step in messages.
func (d *dot) named() string {
	if len(d.indexes) == 0 {
		return starlarkText(d.name)
	}
	return fmt.Sprintf("%s %% (%s,)", starlarkText(d.name), strings.Join(d.indexes, ", "))
}

// An expression is Starlark code, and what is known of its value.
type expression struct {
	code string
	kind string // string, int, number, bool; "" = unknown
	sure bool   // it is never None

	of   string      // get(of, keys…) gives the same; "" = it is no field
	keys []string    // expressions
	json *expression // it is the JSON of this
}

// parsed is a template with its tree as written; nil for a text without actions.
func (d *dot) parsed(field, text string) (*template.Template, *parse.Tree, error) {
	d.converter.reason, d.converter.mark = "", len(d.converter.comments)
	t, err := template.Parse(text)
	if err != nil {
		return nil, nil, d.fail(field, "%s", err)
	}
	return t, t.Tree(), nil
}

// text is the expression for the text of a template.
func (d *dot) text(field, text string) (string, error) {
	t, tree, err := d.parsed(field, text)
	switch {
	case err != nil:
		return "", err
	case !t.HasActions():
		return starlarkText(text), nil
	}
	if tree != nil {
		in := &translation{dot: d, alone: t.IsSingleExpression()}
		if e, ok := in.list(tree.Root); ok {
			return e, nil
		}
	}
	return d.expanded(field, t, "")
}

// expanded is a call of template with the unchanged text.
func (d *dot) expanded(field string, t *template.Template, kinds string) (string, error) {
	scope, err := d.scope(field, t)
	if err != nil {
		return "", err
	}
	if kinds != "" {
		kinds = ", " + kinds
	}
	d.stays(field)
	return fmt.Sprintf("template(%s, %s%s)", longText(t.Source()), scope, kinds), nil
}

// single is the expression for the value of a template that is only one expression.
func (d *dot) single(t *template.Template, tree *parse.Tree) (expression, bool) {
	if !t.IsSingleExpression() || t.Padded() {
		return expression{}, false
	}
	return d.only(tree)
}

// only is the expression for the value of a tree's only expression.
func (d *dot) only(tree *parse.Tree) (expression, bool) {
	if tree == nil {
		return expression{}, false
	}
	for _, node := range tree.Root.Nodes {
		if action, ok := node.(*parse.ActionNode); ok {
			in := &translation{dot: d, alone: true}
			return in.pipe(action.Pipe)
		}
	}
	return expression{}, false
}

// condition is the expression for whether a template gives true.
func (d *dot) condition(field, text string) (string, error) {
	if holds, err := definitions.Truth(text); err == nil {
		return literalOf(holds), nil
	}
	t, tree, err := d.parsed(field, text)
	if err != nil {
		return "", err
	}
	if tree != nil && t.IsSingleExpression() {
		if e, ok := d.only(tree); ok && e.kind == "bool" && e.sure {
			return e.code, nil
		}
	}
	rendered, err := d.text(field, text)
	return fmt.Sprintf("holds(%s, %s)", rendered, starlarkText(field)), err
}

// value is the expression for a template in a place that takes kinds; None if missing.
func (d *dot) value(field, text string, kinds []string) (expression, error) {
	t, tree, err := d.parsed(field, text)
	switch {
	case err != nil:
		return expression{}, err
	case !t.HasActions():
		return expression{code: literalOf(template.ReadAs(text, kinds)), sure: true}, nil
	}
	textual := len(kinds) == 0 || kinds[0] == "string"
	if e, ok := d.single(t, tree); ok {
		return d.fitted(e, kinds, textual), nil
	}
	if !t.IsSingleExpression() {
		if code, err := d.text(field, text); err != nil || textual {
			return known(code, "string"), err
		} else if len(d.converter.comments) == d.converter.mark {
			return expression{code: fmt.Sprintf("as_kind(%s, %s)", code, kindsText(kinds))}, nil
		}
	}
	code, err := d.expanded(field, t, kindsText(kinds))
	return expression{code: code}, err
}

// fitted is a value converted for a place.
func (d *dot) fitted(e expression, kinds []string, textual bool) expression {
	switch {
	case e.kind == "string" && textual,
		e.kind == "bool" && slices.Contains(kinds, "boolean"),
		(e.kind == "number" || e.kind == "int") && slices.Contains(kinds, "number"),
		e.kind == "int" && slices.Contains(kinds, "integer"):
		return e
	case len(kinds) > 0 && !slices.Equal(kinds, []string{"string"}):
		return expression{code: fmt.Sprintf("as_kind(%s, %s)", e.code, kindsText(kinds))}
	case e.sure:
		return known(printed(e), "string")
	}
	return expression{code: fmt.Sprintf("as_text(%s)", e.code), kind: "string"}
}

// container is the expression for the value in {{json …}}, in a place that takes only
// arrays and objects and refuses anything else.
func (d *dot) container(field, text string) (string, bool) {
	t, tree, err := d.parsed(field, text)
	if err != nil || !t.IsSingleExpression() {
		return "", false
	}
	if e, ok := d.only(tree); ok && e.json != nil {
		return e.json.code, true
	}
	return "", false
}

// collection is the expression for the items of a loop that are not JSON text. A value
// that it names must exist.
func (d *dot) collection(text string) (string, error) {
	kinds := []string{"array", "object"}
	t, tree, err := d.parsed("collection", text)
	if err != nil {
		return "", err
	}
	if e, ok := d.single(t, tree); ok && t.NamesValue() && len(e.keys) > 0 && !e.sure {
		last := len(e.keys) - 1
		e.code = fmt.Sprintf("there(%s, %s)", within(expression{code: e.of}, e.keys[:last]).code, e.keys[last])
		return d.fitted(e, kinds, false).code, nil
	}
	e, err := d.value("collection", text, kinds)
	return e.code, err
}

// typed is value in a place whose types only a run knows.
func (d *dot) typed(field, text string) (string, error) {
	t, tree, err := d.parsed(field, text)
	switch {
	case err != nil:
		return "", err
	case !t.HasActions():
		for _, kind := range []string{"integer", "number", "boolean", "array", "object"} {
			if _, ok := template.ReadKind(text, kind); ok {
				return "typed(" + starlarkText(text) + ")", nil
			}
		}
		return starlarkText(text), nil
	}
	if e, ok := d.single(t, tree); ok {
		return "typed(" + e.code + ")", nil
	}
	if t.IsSingleExpression() && t.Padded() {
		return "", d.fail(field, "there is white space around the expression, and what becomes of it depends on the tool: remove it, or say with --against where the tool is")
	}
	if t.IsSingleExpression() {
		value, err := d.expanded(field, t, `"any"`)
		return "typed(" + value + ")", err
	}
	rendered, err := d.text(field, text)
	if err == nil && tree != nil && onlyText(tree) {
		return rendered, nil
	}
	return "typed(" + rendered + ")", err
}

// onlyText reports whether a template begins with text that no other type can have.
func onlyText(tree *parse.Tree) bool {
	first, ok := tree.Root.Nodes[0].(*parse.TextNode)
	if !ok {
		return false
	}
	text := strings.ToLower(strings.TrimSpace(string(first.Text)))
	return text != "" && text[0] >= 'a' && text[0] <= 'z' && !strings.HasPrefix("true", text) && !strings.HasPrefix("false", text) && !strings.HasPrefix("null", text)
}

func kindsText(kinds []string) string {
	if len(kinds) == 1 {
		return starlarkText(kinds[0])
	}
	return literalOf(anys(kinds))
}

// collect is the expression for the result of an item.
func (d *dot) collect(text string) (string, error) {
	t, tree, err := d.parsed("collect", text)
	switch {
	case err != nil:
		return "", err
	case !t.HasActions():
		return literalOf(template.ReadAs(text, definitions.WrittenKinds(text))), nil
	}
	if t.IsSingleExpression() {
		if e, ok := d.only(tree); ok {
			return e.code, nil
		}
		return d.expanded("collect", t, `"any"`)
	}
	if kinds := definitions.WrittenKinds(text); kinds != nil {
		rendered, err := d.text("collect", text)
		return fmt.Sprintf("read(%s, %s)", rendered, starlarkText(kinds[0])), err
	}
	return d.text("collect", text)
}

// stays notes that a template stays a template, for the comment above it.
func (d *dot) stays(field string) {
	c := d.converter
	c.comments = c.comments[:c.mark] // the whole template stays
	if c.reason == "" {
		c.reason = "what it defines"
	}
	reason, _, _ := strings.Cut(c.reason, "\n")
	c.comment("%s stays a template: a script has no expression for %s.", field, reason)
}
