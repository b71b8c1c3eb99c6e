package definitions

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"
)

// A dot is where a template stands: what its names mean there.
type dot struct {
	converter *converter
	where     string            // step deploy, for messages
	steps     []string          // that have variables there
	forEach   map[string]string // expressions, by the name after .forEach
	vars      map[string]string // expressions, by $variable
	self      string            // expression for . in range and with; "" = the data as a whole
}

func (d *dot) fail(format string, args ...any) error {
	return &ConversionError{d.where, fmt.Sprintf(format, args...)}
}

// inside is the dot of the inner step of a forEach, whose item is entry.
func (d *dot) inside(entry string, s *Step) *dot {
	in := *d
	in.forEach = maps.Clone(d.forEach)
	if in.forEach == nil {
		in.forEach = map[string]string{}
	}
	name := s.ItemVar
	if name == "" {
		name = "item"
	}
	in.forEach[name], in.forEach["index"], in.forEach["key"] = entry+".item", entry+".index", entry+".key"
	return &in
}

// tree parses a template that has actions; nil for one that is its own text.
func (d *dot) tree(text string) (*parse.Tree, *Template, error) {
	t, syntax := parseTemplate(text)
	if syntax != nil {
		return nil, nil, d.fail("%s", syntax.Message)
	}
	if !t.HasActions() {
		return nil, t, nil
	}
	tree := parse.New("")
	tree.Mode = parse.SkipFuncCheck
	trees := map[string]*parse.Tree{}
	if _, err := tree.Parse(text, "", "", trees); err != nil {
		return nil, nil, d.fail("%s", err)
	}
	if len(trees) > 1 {
		return nil, nil, d.fail("templates within a template are not translated")
	}
	return tree, t, nil
}

// text is the expression for what a template renders to.
func (d *dot) text(text string) (string, error) {
	tree, _, err := d.tree(text)
	if err != nil {
		return "", err
	}
	if tree == nil {
		return starlarkText(text), nil
	}
	return d.list(tree.Root)
}

// single is the expression for the value of a template that is one expression,
// and false for another.
func (d *dot) single(text string) (string, *Template, bool, error) {
	tree, t, err := d.tree(text)
	if err != nil || tree == nil || !t.IsSingleExpression() || strings.TrimSpace(t.before+t.after) != "" || t.before+t.after != "" {
		return "", t, false, err
	}
	for _, node := range tree.Root.Nodes {
		if action, ok := node.(*parse.ActionNode); ok {
			v, err := d.pipe(action.Pipe)
			return v, t, true, err
		}
	}
	return "", t, false, nil
}

// condition is the expression for whether a condition holds.
func (d *dot) condition(text string) (string, error) {
	switch strings.TrimSpace(text) {
	case "true", "True", "TRUE":
		return "True", nil
	case "false", "False", "FALSE":
		return "False", nil
	}
	tree, t, err := d.tree(text)
	if err != nil {
		return "", err
	}
	if tree != nil && t.IsSingleExpression() {
		for _, node := range tree.Root.Nodes {
			if action, ok := node.(*parse.ActionNode); ok && isBoolean(action.Pipe) {
				return d.pipe(action.Pipe)
			}
		}
	}
	rendered, err := d.text(text)
	return fmt.Sprintf("%s(%s)", d.converter.helper("holds"), rendered), err
}

// isBoolean says whether an expression gives true or false and nothing else.
func isBoolean(p *parse.PipeNode) bool {
	if len(p.Cmds) != 1 {
		return false
	}
	switch first := p.Cmds[0].Args[0].(type) {
	case *parse.IdentifierNode:
		if first.Ident == "and" || first.Ident == "or" {
			return !slices.ContainsFunc(p.Cmds[0].Args[1:], func(n parse.Node) bool {
				inner, ok := n.(*parse.PipeNode)
				return !ok || !isBoolean(inner)
			})
		}
		return slices.Contains([]string{"eq", "ne", "lt", "le", "gt", "ge", "not"}, first.Ident)
	case *parse.BoolNode:
		return true
	}
	return false
}

// valueFor is the expression for a template in a place that takes certain
// types; None where it has no value.
func (d *dot) valueFor(text string, kinds []string) (string, error) {
	if kinds == nil {
		kinds = []string{"string"}
	}
	list := make([]string, len(kinds))
	for i, k := range kinds {
		list[i] = starlarkText(k)
	}
	as := strings.Join(list, ", ")
	value, t, single, err := d.single(text)
	switch {
	case err != nil:
		return "", err
	case single:
		return fmt.Sprintf("%s(%s, %s)", d.converter.helper("as_kind"), value, as), nil
	case !t.HasActions():
		return literalOf(readAs(text, kinds)), nil
	}
	rendered, err := d.text(text)
	if err != nil || slices.Equal(kinds, []string{"string"}) {
		return rendered, err
	}
	return fmt.Sprintf("%s(%s, %s)", d.converter.helper("read"), rendered, as), nil
}

// collect is the expression for what a forEach keeps of an item.
func (d *dot) collect(text string) (string, error) {
	value, t, single, err := d.single(text)
	if err != nil || single {
		return value, err
	}
	if !t.HasActions() {
		return literalOf(readAs(text, writtenKinds(text))), nil
	}
	rendered, err := d.text(text)
	if kinds := writtenKinds(text); err == nil && kinds != nil {
		return fmt.Sprintf("%s(%s, %q)", d.converter.helper("read"), rendered, kinds[0]), nil
	}
	return rendered, err
}

// arguments is the dict of the arguments of a call.
func (d *dot) arguments(args map[string]any, schema json.RawMessage) (string, error) {
	var cache schemaCache
	place, err := cache.place(schema)
	if err != nil {
		return "", d.fail("%s", err)
	}
	return d.argument(orEmpty(args), place)
}

func (d *dot) argument(v any, place schemaPlace) (string, error) {
	switch v := v.(type) {
	case string:
		return d.valueFor(v, place.kinds())
	case []any:
		parts := make([]string, len(v))
		for i, element := range v {
			var err error
			if parts[i], err = d.argument(element, place.item(i)); err != nil {
				return "", err
			}
		}
		return "[" + strings.Join(parts, ", ") + "]", nil
	case map[string]any:
		return d.object(v, place)
	}
	return literalOf(v), nil
}

// object leaves out members that have no value, and keeps those that are null.
func (d *dot) object(v map[string]any, place schemaPlace) (string, error) {
	var parts, nulls []string
	missing := false
	for _, name := range sortedKeys(v) {
		if v[name] == nil {
			nulls = append(nulls, starlarkText(name)+": None")
			continue
		}
		value, err := d.argument(v[name], place.property(name))
		if err != nil {
			return "", err
		}
		_, isText := v[name].(string)
		missing = missing || isText && !strings.HasPrefix(value, `"`)
		parts = append(parts, starlarkText(name)+": "+value)
	}
	object := "{" + strings.Join(parts, ", ") + "}"
	if missing {
		object = fmt.Sprintf("%s(%s)", d.converter.helper("given"), object)
	}
	if nulls != nil {
		object += " | {" + strings.Join(nulls, ", ") + "}"
	}
	return object, nil
}

// list is the expression for the text of nodes.
func (d *dot) list(list *parse.ListNode) (string, error) {
	if list == nil {
		return `""`, nil
	}
	var parts []string
	here := *d
	here.vars = maps.Clone(d.vars)
	for _, node := range list.Nodes {
		part, err := here.node(node)
		if err != nil {
			return "", err
		}
		if part != "" {
			parts = append(parts, part)
		}
	}
	switch len(parts) {
	case 0:
		return `""`, nil
	case 1:
		return parts[0], nil
	}
	return strings.Join(parts, " + "), nil
}

func (d *dot) node(node parse.Node) (string, error) {
	switch n := node.(type) {
	case *parse.TextNode:
		return starlarkText(string(n.Text)), nil
	case *parse.CommentNode:
		return "", nil
	case *parse.ActionNode:
		v, err := d.pipe(n.Pipe)
		if err != nil {
			return "", err
		}
		if len(n.Pipe.Decl) > 0 {
			if n.Pipe.IsAssign {
				return "", d.fail("a variable that changes is not translated")
			}
			if d.vars == nil {
				d.vars = map[string]string{}
			}
			d.vars[n.Pipe.Decl[0].Ident[0]] = "(" + v + ")"
			return "", nil
		}
		return fmt.Sprintf("%s(%s)", d.converter.helper("text"), v), nil
	case *parse.IfNode:
		return d.branches(n.Pipe, n.List, n.ElseList)
	case *parse.RangeNode:
		return d.ranged(n)
	}
	return "", d.fail("%s is not translated", node)
}

func (d *dot) branches(p *parse.PipeNode, then, otherwise *parse.ListNode) (string, error) {
	if len(p.Decl) > 0 {
		return "", d.fail("a variable of an if is not translated")
	}
	condition, err := d.pipe(p)
	if err != nil {
		return "", err
	}
	yes, err := d.list(then)
	if err != nil {
		return "", err
	}
	no, err := d.list(otherwise)
	return fmt.Sprintf("((%s) if %s else (%s))", yes, condition, no), err
}

// ranged is a loop of which each turn gives text.
func (d *dot) ranged(n *parse.RangeNode) (string, error) {
	if n.ElseList != nil {
		return "", d.fail("the else of a range is not translated")
	}
	over, err := d.pipe(n.Pipe)
	if err != nil {
		return "", err
	}
	entry := fmt.Sprintf("e%d", len(d.vars)+len(d.self))
	in := *d
	in.vars = maps.Clone(d.vars)
	if in.vars == nil {
		in.vars = map[string]string{}
	}
	in.self = entry + ".item"
	switch decl := n.Pipe.Decl; len(decl) {
	case 1:
		in.vars[decl[0].Ident[0]] = entry + ".item"
	case 2:
		in.vars[decl[0].Ident[0]] = fmt.Sprintf("(%s.index if %[1]s.key == None else %[1]s.key)", entry)
		in.vars[decl[1].Ident[0]] = entry + ".item"
	}
	body, err := in.list(n.List)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`"".join([%s for %s in %s(%s or [])])`, body, entry, d.converter.helper("items_of"), over), nil
}

// pipe is the expression for a pipeline: each command has the one before as its
// last argument.
func (d *dot) pipe(p *parse.PipeNode) (string, error) {
	value := ""
	for i, cmd := range p.Cmds {
		if v, ok, err := d.printf(cmd); ok && i == 0 {
			value = v
			continue
		} else if err != nil {
			return "", err
		}
		args := make([]string, 0, len(cmd.Args)+1)
		if v, ok := d.indexedStep(cmd); ok {
			value = v
			continue
		}
		for _, arg := range cmd.Args[1:] {
			v, err := d.operand(arg)
			if err != nil {
				return "", err
			}
			args = append(args, v)
		}
		if value != "" {
			args = append(args, value)
		}
		var err error
		if f, ok := cmd.Args[0].(*parse.IdentifierNode); ok {
			value, err = d.function(f.Ident, args)
		} else if len(args) > 0 {
			err = d.fail("%s is not translated", cmd)
		} else {
			value, err = d.operand(cmd.Args[0])
		}
		if err != nil {
			return "", err
		}
	}
	return value, nil
}

// printf is printf with a literal format of simple verbs.
func (d *dot) printf(cmd *parse.CommandNode) (string, bool, error) {
	if len(cmd.Args) < 2 || cmd.Args[0].String() != "printf" {
		return "", false, nil
	}
	format, ok := cmd.Args[1].(*parse.StringNode)
	if !ok {
		return "", false, nil
	}
	var parts []string
	args := cmd.Args[2:]
	rest := format.Text
	for _, m := range verb.FindAllStringSubmatchIndex(format.Text, -1) {
		before := format.Text[len(format.Text)-len(rest) : m[0]]
		rest = format.Text[m[1]:]
		found := format.Text[m[0]:m[1]]
		if before != "" {
			parts = append(parts, starlarkText(before))
		}
		if found == "%%" {
			parts = append(parts, `"%"`)
			continue
		}
		if len(args) == 0 {
			return "", false, d.fail("printf %s has too few arguments", starlarkText(format.Text))
		}
		v, err := d.operand(args[0])
		if err != nil {
			return "", false, err
		}
		args = args[1:]
		switch {
		case found == "%s" || found == "%v" || found == "%d":
			parts = append(parts, fmt.Sprintf("%s(%s)", d.converter.helper("text"), v))
		case found == "%q":
			parts = append(parts, fmt.Sprintf("repr(%s(%s))", d.converter.helper("text"), v))
		default: // %.2f
			parts = append(parts, fmt.Sprintf("fixed(%s, %s)", v, found[2:len(found)-1]))
		}
	}
	if strings.Contains(rest, "%") || len(args) > 0 {
		return "", false, d.fail("the format %s is not translated", starlarkText(format.Text))
	}
	if rest != "" || parts == nil {
		parts = append(parts, starlarkText(rest))
	}
	return "(" + strings.Join(parts, " + ") + ")", true, nil
}

// verb is a verb of printf that scripts have.
var verb = regexp.MustCompile(`%(?:[svdq%]|\.\d+f)`)

// indexedStep is index .steps "my-step" "output" …
func (d *dot) indexedStep(cmd *parse.CommandNode) (string, bool) {
	if len(cmd.Args) < 3 || cmd.Args[0].String() != "index" || cmd.Args[1].String() != ".steps" {
		return "", false
	}
	var path []string
	for _, arg := range cmd.Args[2:] {
		name, ok := arg.(*parse.StringNode)
		if !ok {
			return "", false
		}
		path = append(path, name.Text)
	}
	return d.get(d.step(path[0]), path[1:]), true
}

func (d *dot) operand(node parse.Node) (string, error) {
	switch n := node.(type) {
	case *parse.FieldNode:
		return d.field(n.Ident)
	case *parse.DotNode:
		if d.self == "" {
			return "", d.fail("the data as a whole is not translated")
		}
		return d.self, nil
	case *parse.VariableNode:
		return d.variable(n)
	case *parse.ChainNode:
		base, err := d.operand(n.Node)
		return d.get(base, n.Field), err
	case *parse.PipeNode:
		v, err := d.pipe(n)
		return "(" + v + ")", err
	case *parse.IdentifierNode:
		return d.function(n.Ident, nil)
	case *parse.StringNode:
		return starlarkText(n.Text), nil
	case *parse.NumberNode:
		if n.IsInt {
			return strconv.FormatInt(n.Int64, 10), nil
		}
		if n.IsFloat {
			return strconv.FormatFloat(n.Float64, 'g', -1, 64), nil
		}
	case *parse.BoolNode:
		return map[bool]string{true: "True", false: "False"}[n.True], nil
	case *parse.NilNode:
		return "None", nil
	}
	return "", d.fail("%s is not translated", node)
}

func (d *dot) variable(n *parse.VariableNode) (string, error) {
	if n.Ident[0] == "$" {
		if len(n.Ident) < 2 {
			return "", d.fail("the data as a whole is not translated")
		}
		outer := *d
		outer.self = ""
		return outer.field(n.Ident[1:])
	}
	v, ok := d.vars[n.Ident[0]]
	if !ok {
		return "", d.fail("%s is not translated", n)
	}
	return d.get(v, n.Ident[1:]), nil
}

// get is a field of a value, missing where that is.
func (d *dot) get(base string, path []string) string {
	if len(path) == 0 {
		return base
	}
	parts := []string{base}
	for _, name := range path {
		parts = append(parts, starlarkText(name))
	}
	return fmt.Sprintf("%s(%s)", d.converter.helper("get"), strings.Join(parts, ", "))
}

// field is .a.b, of whatever . is.
func (d *dot) field(path []string) (string, error) {
	if d.self != "" {
		return d.get(d.self, path), nil
	}
	rest := path[1:]
	switch path[0] {
	case "params":
		return d.get("data", rest), nil
	case "steps":
		if len(rest) > 0 {
			return d.get(d.step(rest[0]), rest[1:]), nil
		}
	case "forEach":
		if len(rest) > 0 {
			v, ok := d.forEach[rest[0]]
			if !ok {
				v = "None"
			}
			return d.get(v, rest[1:]), nil
		}
	case "output":
		return d.get("output", rest), nil
	case "workflow":
		if v, ok := d.workflow(rest); ok {
			return v, nil
		}
	case "vars":
		return "None", nil
	}
	return "", d.fail(".%s is not translated", strings.Join(path, "."))
}

// workflow is a field of the run, where scripts know it.
func (d *dot) workflow(path []string) (string, bool) {
	if len(path) != 1 {
		return "", false
	}
	switch path[0] {
	case "id":
		return "run.id", true
	case "duration_ms":
		return "(now() - run.started).milliseconds", true
	case "step_count":
		return strconv.Itoa(len(d.converter.program.Steps)), d.where == "output"
	case "start_time":
		return `(run.started.format("2006-01-02T15:04:05Z07:00") if run.started else None)`, true
	case "status":
		if d.where == "output" {
			return `"completed"`, true
		}
		return `"running"`, true
	}
	return "", false
}

// step is the variable of a step; None of one that does not exist there.
func (d *dot) step(id string) string {
	if slices.Contains(d.steps, id) {
		return d.converter.vars[id]
	}
	return "None"
}

// infix are functions that are operators of Starlark.
var infix = map[string]string{"ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

func (d *dot) function(name string, args []string) (string, error) {
	if op, ok := infix[name]; ok && len(args) == 2 {
		return fmt.Sprintf("(%s %s %s)", args[0], op, args[1]), nil
	}
	text := func(i int) string { return fmt.Sprintf("%s(%s)", d.converter.helper("text"), args[i]) }
	switch {
	case name == "eq" && len(args) == 2:
		return fmt.Sprintf("(%s == %s)", args[0], args[1]), nil
	case name == "eq" && len(args) > 2:
		return fmt.Sprintf("(%s in [%s])", args[0], strings.Join(args[1:], ", ")), nil
	case name == "and" || name == "or":
		return "(" + strings.Join(args, " "+name+" ") + ")", nil
	case name == "not" && len(args) == 1:
		return fmt.Sprintf("(not %s)", args[0]), nil
	case name == "index" && len(args) > 0:
		return fmt.Sprintf("%s(%s)", d.converter.helper("at"), strings.Join(args, ", ")), nil
	case name == "len" && len(args) == 1:
		return fmt.Sprintf("len(%s)", args[0]), nil
	case (name == "json" || name == "toJson") && len(args) == 1:
		return fmt.Sprintf("json.encode(%s)", args[0]), nil
	case (name == "fromJson" || name == "mustFromJson") && len(args) == 1:
		return fmt.Sprintf("json.decode(%s)", text(0)), nil
	case name == "quote" && len(args) == 1:
		return fmt.Sprintf("repr(%s)", text(0)), nil
	case name == "default" && len(args) == 2:
		return fmt.Sprintf("(%s or %s)", args[1], args[0]), nil
	case name == "replace" && len(args) == 3:
		return fmt.Sprintf("%s.replace(%s, %s)", text(2), args[0], args[1]), nil
	case name == "lower" && len(args) == 1:
		return text(0) + ".lower()", nil
	case name == "upper" && len(args) == 1:
		return text(0) + ".upper()", nil
	case name == "trim" && len(args) == 1:
		return text(0) + ".strip()", nil
	case name == "join" && len(args) == 2:
		return fmt.Sprintf("%s.join([%s(v) for v in %s or []])", args[0], d.converter.helper("text"), args[1]), nil
	}
	return "", d.fail("the function %s is not translated: write the script by hand from here", name)
}

// starlarkText is a string of Starlark, which knows the escapes of JSON.
func starlarkText(s string) string {
	encoded, err := EncodeValue(s)
	if err != nil {
		return strconv.Quote(s)
	}
	return string(encoded)
}

// literalOf is a value of JSON in Starlark.
func literalOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return map[bool]string{true: "True", false: "False"}[v]
	case string:
		return starlarkText(v)
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = literalOf(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		var parts []string
		for _, k := range sortedKeys(v) {
			parts = append(parts, starlarkText(k)+": "+literalOf(v[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case *big.Int:
		return v.String()
	}
	if n, ok := numberOf(v); ok && n.isFloat {
		text := strconv.FormatFloat(n.float, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		return text
	}
	return fmt.Sprint(v)
}
