package convert

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"

	"github.com/perdure/perdure/definitions/template"
)

// list is the expression for the text of nodes.
func (d *dot) list(list *parse.ListNode) (string, bool) {
	if list == nil {
		return `""`, true
	}
	var parts []string
	for _, node := range list.Nodes {
		part, ok := d.node(node)
		if !ok {
			return "", false
		}
		if part != "" {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return `""`, true
	}
	return strings.Join(parts, " + "), true
}

func (d *dot) node(node parse.Node) (string, bool) {
	switch n := node.(type) {
	case *parse.TextNode:
		return starlarkText(string(n.Text)), true
	case *parse.CommentNode:
		return "", true
	case *parse.ActionNode:
		e, ok := d.pipe(n.Pipe)
		switch {
		case !ok:
			return "", false
		case e.kind == "string" && e.sure:
			return e.code, true
		}
		return fmt.Sprintf("%s(%s)", d.converter.helper("text"), e.code), true
	case *parse.IfNode:
		return d.branches(n)
	}
	return "", false
}

func (d *dot) branches(n *parse.IfNode) (string, bool) {
	condition, ok := d.pipe(n.Pipe)
	if !ok {
		return "", false
	}
	yes, ok := d.list(n.List)
	if !ok {
		return "", false
	}
	no, ok := d.list(n.ElseList)
	return fmt.Sprintf("(%s if %s else %s)", grouped(yes), condition.code, grouped(no)), ok
}

func grouped(code string) string {
	if strings.Contains(code, " + ") {
		return "(" + code + ")"
	}
	return code
}

// pipe is the expression for a pipeline: each command has the one before as its
// last argument.
func (d *dot) pipe(p *parse.PipeNode) (value expression, ok bool) {
	if len(p.Decl) > 0 {
		return value, false
	}
	for i, cmd := range p.Cmds {
		if e, ok := d.indexedStep(cmd); ok && i == 0 {
			value = e
			continue
		}
		function, isFunction := cmd.Args[0].(*parse.IdentifierNode)
		if !isFunction {
			if i > 0 || len(cmd.Args) > 1 {
				return value, false
			}
			if value, ok = d.operand(cmd.Args[0]); !ok {
				return value, false
			}
			continue
		}
		var args []expression
		for _, arg := range cmd.Args[1:] {
			e, ok := d.operand(arg)
			if !ok {
				return value, false
			}
			args = append(args, e)
		}
		if i > 0 {
			args = append(args, value)
		}
		if value, ok = d.function(function.Ident, cmd.Args[1:], args); !ok {
			return value, false
		}
	}
	return value, true
}

// indexedStep is index .steps "my-step" "output" …
func (d *dot) indexedStep(cmd *parse.CommandNode) (expression, bool) {
	if len(cmd.Args) < 3 || cmd.Args[0].String() != "index" || cmd.Args[1].String() != ".steps" {
		return expression{}, false
	}
	path, ok := literalKeys(cmd.Args[2:])
	if !ok {
		return expression{}, false
	}
	return d.field(append([]string{"steps"}, path...))
}

func literalKeys(nodes []parse.Node) (path []string, ok bool) {
	for _, arg := range nodes {
		name, ok := arg.(*parse.StringNode)
		if !ok {
			return nil, false
		}
		path = append(path, name.Text)
	}
	return path, true
}

func (d *dot) operand(node parse.Node) (expression, bool) {
	switch n := node.(type) {
	case *parse.FieldNode:
		return d.field(n.Ident)
	case *parse.VariableNode:
		return d.variable(n)
	case *parse.ChainNode:
		base, ok := d.operand(n.Node)
		return d.get(base, n.Field), ok
	case *parse.PipeNode:
		e, ok := d.pipe(n)
		return e, ok
	case *parse.StringNode:
		return expression{starlarkText(n.Text), "string", true}, true
	case *parse.NumberNode:
		if n.IsInt && !strings.ContainsAny(n.Text, ".eE'xXpP_") {
			return expression{strconv.FormatInt(n.Int64, 10), "number", true}, true
		}
	case *parse.BoolNode:
		return expression{literalOf(n.True), "bool", true}, true
	}
	return expression{}, false
}

func (d *dot) variable(n *parse.VariableNode) (expression, bool) {
	if n.Ident[0] != "$" || len(n.Ident) < 2 {
		return expression{}, false
	}
	return d.field(n.Ident[1:])
}

// get is a field of a value, missing where that is.
func (d *dot) get(base expression, path []string) expression {
	if len(path) == 0 {
		return base
	}
	parts := []string{base.code}
	for _, name := range path {
		parts = append(parts, starlarkText(name))
	}
	return expression{code: fmt.Sprintf("%s(%s)", d.converter.helper("get"), strings.Join(parts, ", "))}
}

// field is .a.b of the data.
func (d *dot) field(path []string) (expression, bool) {
	rest := path[1:]
	switch path[0] {
	case "params":
		return d.param(rest)
	case "steps":
		return d.step(rest)
	case "forEach":
		if len(rest) == 0 {
			return expression{}, false
		}
		v, ok := d.forEach[rest[0]]
		if !ok {
			return expression{code: "None"}, true
		}
		e := expression{code: v}
		if rest[0] == "index" {
			e.kind, e.sure = "number", true
		} else if rest[0] == "key" {
			e.kind = "string"
		}
		return d.get(e, rest[1:]), true
	case "output":
		if d.output == "" {
			return expression{code: "None"}, true
		}
		return d.get(expression{code: d.output}, rest), true
	case "call":
		if d.call == "" {
			return expression{code: "None"}, true
		}
		return d.get(expression{code: d.call}, rest), true
	case "workflow":
		if len(rest) != 1 {
			return expression{}, false
		}
		return d.workflow(rest[0])
	}
	return expression{}, false
}

// param is a parameter, of which the schema may say what it is.
func (d *dot) param(path []string) (expression, bool) {
	switch len(path) {
	case 0:
		return expression{code: d.converter.params}, true
	case 1:
		return d.converter.param(path[0]), true
	}
	return d.get(d.converter.param(path[0]), path[1:]), true
}

// param is a parameter: one that is always there is read like that, and of what
// its schema asks for it is.
func (c *converter) param(name string) expression {
	parameters := c.program.Definition.Parameters
	properties, _ := parameters["properties"].(map[string]any)
	schema, _ := properties[name].(map[string]any)
	kind, _ := schema["type"].(string)
	standard, always := schema["default"]
	fits := !always || template.IsKind(standard, kind)
	if required, ok := parameters["required"].([]any); ok {
		always = always || slices.Contains(required, any(name))
	}
	e := expression{code: fmt.Sprintf("%s.get(%s)", c.params, starlarkText(name))}
	if fits {
		e.kind = map[string]string{"string": "string", "integer": "number", "number": "number", "boolean": "bool"}[kind]
	}
	if always && e.kind != "" { // null would be none of these
		e.code, e.sure = fmt.Sprintf("%s[%s]", c.params, starlarkText(name)), true
	}
	return e
}

// step is a field of a step's state.
func (d *dot) step(path []string) (expression, bool) {
	if len(path) < 2 {
		return expression{}, false
	}
	state, ok := d.steps[path[0]]
	if !ok {
		return expression{code: "None"}, true
	}
	switch path[1] {
	case "status", "error":
		e := expression{fmt.Sprintf("%s[%s]", state, starlarkText(path[1])), "string", true}
		return d.get(e, path[2:]), true
	case "output":
		return d.get(expression{code: fmt.Sprintf(`%s["output"]`, state)}, path[2:]), true
	case "action", "by", "at":
		return d.get(expression{code: fmt.Sprintf(`%s.get(%q)`, state, path[1]), kind: "string"}, path[2:]), true
	case "content":
		return d.get(expression{code: fmt.Sprintf(`%s.get("content")`, state)}, path[2:]), true
	}
	return expression{code: "None"}, true
}

// workflow is a field of the run.
func (d *dot) workflow(name string) (expression, bool) {
	switch name {
	case "id":
		return expression{"run.id", "string", true}, true
	case "duration_ms":
		return expression{"(now() - run.started).milliseconds", "number", true}, !d.timeless
	case "step_count":
		return expression{strconv.Itoa(len(d.steps)), "number", true}, d.every && !d.timeless
	case "start_time":
		return expression{`run.started.format("2006-01-02T15:04:05Z07:00")`, "string", true}, true
	case "status":
		if d.ended {
			return expression{`"completed"`, "string", true}, true
		}
		return expression{`"running"`, "string", true}, true
	}
	return expression{code: "None"}, true
}

// function is a call of a function that scripts have, or an operator.
func (d *dot) function(name string, nodes []parse.Node, args []expression) (expression, bool) {
	fixed := func(code string) (expression, bool) { return expression{code, "bool", true}, true }
	switch {
	case name == "eq" && len(args) == 2:
		return fixed(d.equal(args[0], args[1]))
	case name == "ne" && len(args) == 2:
		if code := d.equal(args[0], args[1]); !strings.HasPrefix(code, "(") {
			return fixed("(not " + code + ")")
		}
		return fixed(fmt.Sprintf("(%s != %s)", args[0].code, args[1].code))
	case ordering[name] != "" && len(args) == 2:
		alike := args[0].kind == args[1].kind && args[0].kind == "number" && args[0].sure && args[1].sure
		return expression{fmt.Sprintf("(%s %s %s)", args[0].code, ordering[name], args[1].code), "bool", true}, alike
	case (name == "and" || name == "or") && len(args) > 0:
		codes, all := make([]string, len(args)), true
		for i, e := range args {
			codes[i] = e.code
			all = all && e.kind == "bool" && e.sure
		}
		e := expression{code: "(" + strings.Join(codes, " "+name+" ") + ")"}
		if all {
			e.kind, e.sure = "bool", true
		}
		return e, true
	case name == "not" && len(args) == 1:
		return fixed(fmt.Sprintf("(not %s)", args[0].code))
	case name == "index" && len(args) > 1 && len(nodes) == len(args):
		if path, ok := literalKeys(nodes[1:]); ok {
			return d.get(args[0], path), true
		}
		codes := make([]string, len(args))
		for i, e := range args {
			codes[i] = e.code
			if i > 0 && (!e.sure || e.kind != "string" && e.kind != "number") {
				return expression{}, false
			}
		}
		return expression{code: fmt.Sprintf("%s(%s)", d.converter.helper("at"), strings.Join(codes, ", "))}, true
	case name == "len" && len(args) == 1:
		return expression{fmt.Sprintf("%s(%s)", d.converter.helper("size"), args[0].code), "number", true}, true
	case name == "default" && len(args) == 2:
		e := expression{code: fmt.Sprintf("(%s or %s)", args[1].code, args[0].code)}
		if args[0].kind == args[1].kind && args[0].sure {
			e.kind, e.sure = args[0].kind, true
		}
		return e, true
	}
	return expression{}, false
}

// ordering are functions that are operators of Starlark, for numbers.
var ordering = map[string]string{"lt": "<", "le": "<=", "gt": ">", "ge": ">="}

// equal is eq, in brackets where the operator does as well.
func (d *dot) equal(a, b expression) string {
	if a.kind != "" && a.kind == b.kind {
		return fmt.Sprintf("(%s == %s)", a.code, b.code)
	}
	return fmt.Sprintf("%s(%s, %s)", d.converter.helper("same"), a.code, b.code)
}
