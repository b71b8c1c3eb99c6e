package convert

import (
	"fmt"
	"maps"
	"strings"
	"text/template/parse"
)

// A piece of a text is literal, or an expression that gives text.
type piece struct {
	text string
	code string // "" = text
}

// list is the expression for the text of nodes.
func (d *translation) list(list *parse.ListNode) (string, bool) {
	if list == nil {
		return `""`, true
	}
	var pieces []piece
	for _, node := range list.Nodes {
		switch n := node.(type) {
		case *parse.TextNode:
			pieces = append(pieces, piece{text: string(n.Text)})
		case *parse.CommentNode:
		default:
			code, ok := d.node(node)
			if !ok {
				return "", false
			}
			pieces = append(pieces, piece{code: code})
		}
	}
	return joined(pieces), true
}

// joined is the expression for consecutive pieces: a sum of two, a format of more.
func joined(pieces []piece) string {
	var format strings.Builder
	var sum, codes []string
	for _, p := range pieces {
		if p.code == "" {
			format.WriteString(strings.ReplaceAll(p.text, "%", "%%"))
			sum = append(sum, longText(p.text))
			continue
		}
		format.WriteString("%s")
		sum, codes = append(sum, p.code), append(codes, p.code)
	}
	switch {
	case len(pieces) == 0:
		return `""`
	case len(pieces) <= 2 || len(codes) == 0:
		return strings.Join(sum, " + ")
	case len(codes) == 1:
		return fmt.Sprintf("%s %% (%s,)", longText(format.String()), codes[0])
	}
	return fmt.Sprintf("%s %% (%s)", longText(format.String()), strings.Join(codes, ", "))
}

// node is the expression for the text of a node.
func (d *translation) node(node parse.Node) (string, bool) {
	switch n := node.(type) {
	case *parse.ActionNode:
		if len(n.Pipe.Decl) == 0 {
			e, ok := d.pipe(n.Pipe)
			return printed(e), ok
		}
		_, ok := d.cannot("the variable %s", n.Pipe.Decl[0])
		return "", ok
	case *parse.IfNode:
		condition, in, ok := d.bound(n.Pipe)
		if !ok {
			return "", false
		}
		return in.branches(condition, in.list, n.List, n.ElseList)
	case *parse.WithNode:
		value, in, ok := d.bound(n.Pipe)
		if !ok {
			return "", false
		}
		within := *in
		within.here = &value
		return in.branches(value, within.list, n.List, n.ElseList)
	case *parse.RangeNode:
		return d.loop(n)
	}
	_, ok := d.cannot("%s", node)
	return "", ok
}

// printed is an expression as templates print its value.
func printed(e expression) string {
	switch {
	case e.kind == "string" && e.sure:
		return e.code
	case e.kind == "int" && e.sure:
		return fmt.Sprintf("str(%s)", e.code)
	}
	return fmt.Sprintf("text(%s)", e.code)
}

// bound is the value that {{if}} or {{with}} tests, and the translation with the
// variable that they may declare.
func (d *translation) bound(p *parse.PipeNode) (value expression, in *translation, ok bool) {
	if value, ok = d.pipe(p); !ok || len(p.Decl) == 0 {
		return value, d, ok
	}
	if p.IsAssign {
		_, ok := d.cannot("an assignment")
		return value, d, ok
	}
	return value, d.with(p.Decl[0], value), true
}

// with is the translation with a variable.
func (d *translation) with(variable *parse.VariableNode, value expression) *translation {
	in := *d
	in.locals = maps.Clone(d.locals)
	if in.locals == nil {
		in.locals = map[string]expression{}
	}
	in.locals[variable.Ident[0]] = value
	return &in
}

func (d *translation) branches(condition expression, first func(*parse.ListNode) (string, bool), list, elseList *parse.ListNode) (string, bool) {
	yes, ok := first(list)
	if !ok {
		return "", false
	}
	no, ok := d.list(elseList)
	return fmt.Sprintf("(%s if %s else %s)", grouped(yes), condition.code, grouped(no)), ok
}

func grouped(code string) string {
	if strings.Contains(code, " + ") {
		return "(" + code + ")"
	}
	return code
}

// loop is the expression for the text of a {{range}}.
func (d *translation) loop(n *parse.RangeNode) (string, bool) {
	each, in, elements, ok := d.turns(n)
	if !ok {
		return "", false
	}
	body, ok := in.list(n.List)
	if !ok {
		return "", false
	}
	code := fmt.Sprintf(`"".join([%s %s])`, body, each)
	if n.ElseList == nil {
		return code, true
	}
	otherwise, ok := d.list(n.ElseList)
	return fmt.Sprintf("(%s if %s else %s)", code, elements, grouped(otherwise)), ok
}

// turns translates a {{range}}: the for of a comprehension, the dot of a turn, and the
// expression for all elements.
func (d *translation) turns(n *parse.RangeNode) (each string, in *translation, elements string, ok bool) {
	value, ok := d.pipe(n.Pipe)
	if !ok {
		return "", nil, "", false
	}
	if n.Pipe.IsAssign {
		_, ok = d.cannot("an assignment")
		return "", nil, "", ok
	}
	declared := n.Pipe.Decl
	name := d.local(singular(value))
	if len(declared) > 0 {
		name = d.local(declared[len(declared)-1].Ident[0][1:])
	}
	in = d.naming(name)
	element := expression{code: name}
	in.here = &element
	if len(declared) < 2 {
		elements = fmt.Sprintf("each(%s)", value.code)
		if len(declared) == 1 {
			in = in.with(declared[0], element)
		}
		return fmt.Sprintf("for %s in %s", name, elements), in, elements, true
	}
	index := in.local(declared[0].Ident[0][1:])
	in = in.naming(index).with(declared[0], expression{code: index}).with(declared[1], element)
	elements = fmt.Sprintf("each_pair(%s)", value.code)
	return fmt.Sprintf("for %s, %s in %s", index, name, elements), in, elements, true
}

// singular is the name for an element of what an expression reads: file of files.
func singular(e expression) string {
	if len(e.keys) == 0 {
		return "one"
	}
	name := strings.Trim(e.keys[len(e.keys)-1], `"`)
	switch {
	case name == "", notIdentifier.MatchString(name), name[0] <= '9':
		return "one"
	case strings.HasSuffix(name, "ies") && len(name) > 4:
		return name[:len(name)-3] + "y"
	case strings.HasSuffix(name, "s") && !strings.HasSuffix(name, "ss") && len(name) > 2:
		return name[:len(name)-1]
	}
	return "one"
}

// local is a name for a variable that hides no other.
func (d *translation) local(name string) string {
	if notIdentifier.MatchString(name) || name == "" {
		name = "one"
	}
	for d.converter.taken[name] || d.names[name] || reserved.MatchString(name) {
		name += "_"
	}
	return name
}

// naming is the translation with another variable name in use.
func (d *translation) naming(name string) *translation {
	in := *d
	in.names = maps.Clone(d.names)
	if in.names == nil {
		in.names = map[string]bool{}
	}
	in.names[name] = true
	return &in
}

// cannot notes the first part of a template without an expression, for the comment
// above the template.
func (d *translation) cannot(format string, args ...any) (expression, bool) {
	if d.converter.reason == "" {
		d.converter.reason = fmt.Sprintf(format, args...)
	}
	return expression{}, false
}
