package convert

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
)

// pipe is the expression for a pipeline: each command has the one before as its last
// argument.
func (d *translation) pipe(p *parse.PipeNode) (value expression, ok bool) {
	for i, cmd := range p.Cmds {
		if e, ok := d.indexedStep(cmd, nil); ok && i == 0 {
			value = e
			continue
		}
		function, isFunction := cmd.Args[0].(*parse.IdentifierNode)
		if !isFunction {
			if i > 0 || len(cmd.Args) > 1 {
				return d.cannot("%s", cmd)
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

// indexedStep is index .steps "my-step" "output" …, and fields of that.
func (d *translation) indexedStep(cmd *parse.CommandNode, fields []string) (expression, bool) {
	if len(cmd.Args) < 3 || cmd.Args[0].String() != "index" || d.here != nil || cmd.Args[1].String() != ".steps" {
		return expression{}, false
	}
	path, ok := literalKeys(cmd.Args[2:])
	if path = append(path, fields...); !ok || len(path) < 2 {
		return expression{}, false
	}
	return d.root(append([]string{"steps"}, path...))
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

func (d *translation) operand(node parse.Node) (expression, bool) {
	switch n := node.(type) {
	case *parse.FieldNode:
		return d.field(n.Ident)
	case *parse.VariableNode:
		return d.variable(n)
	case *parse.ChainNode:
		if pipe, isPipe := n.Node.(*parse.PipeNode); isPipe && len(pipe.Cmds) == 1 {
			if e, ok := d.indexedStep(pipe.Cmds[0], n.Field); ok { // (index .steps "my-step").output
				return e, true
			}
		}
		base, ok := d.operand(n.Node)
		return d.get(base, n.Field), ok
	case *parse.PipeNode:
		e, ok := d.pipe(n)
		return e, ok
	case *parse.StringNode:
		return known(starlarkText(n.Text), "string"), true
	case *parse.NumberNode:
		if n.IsInt && !strings.ContainsAny(n.Text, ".eE'xXpP_") {
			return known(strconv.FormatInt(n.Int64, 10), "int"), true
		}
		if n.IsFloat && strings.Trim(n.Text, "0123456789.") == "" {
			return known(n.Text, "number"), true
		}
	case *parse.BoolNode:
		return known(literalOf(n.True), "bool"), true
	case *parse.DotNode:
		if d.here != nil {
			return *d.here, true
		}
	}
	return d.cannot("%s", node)
}

func (d *translation) variable(n *parse.VariableNode) (expression, bool) {
	if n.Ident[0] == "$" && len(n.Ident) > 1 {
		return d.root(n.Ident[1:])
	}
	if e, ok := d.locals[n.Ident[0]]; ok {
		return d.get(e, n.Ident[1:]), true
	}
	return d.cannot("%s", n)
}

// get is a field of a value; missing if that is.
func (d *translation) get(base expression, path []string) expression {
	keys := make([]string, len(path))
	for i, name := range path {
		keys[i] = starlarkText(name)
	}
	return within(base, keys)
}

// within is get with expressions for keys. Nested fields are one call.
func within(base expression, keys []string) expression {
	if len(keys) == 0 {
		return base
	}
	if base.of == "" {
		base.of = base.code
	}
	e := expression{of: base.of, keys: slices.Concat(base.keys, keys)}
	e.code = fmt.Sprintf("get(%s, %s)", e.of, strings.Join(e.keys, ", "))
	return e
}

// member is a field that always exists; code reads it.
func member(of, key, code string) expression {
	return expression{code: code, of: of, keys: []string{starlarkText(key)}}
}

// field is .a.b at the template's place.
func (d *translation) field(path []string) (expression, bool) {
	if d.here != nil {
		return d.get(*d.here, path), true
	}
	return d.root(path)
}

// root is .a.b of the data.
func (d *translation) root(path []string) (expression, bool) {
	rest := path[1:]
	switch path[0] {
	case "params":
		return d.param(rest)
	case "steps":
		return d.step(rest)
	case "forEach":
		if len(rest) == 0 {
			return d.cannot(".forEach")
		}
		v, ok := d.forEach[rest[0]]
		if !ok {
			return expression{code: "None"}, true
		}
		e := expression{code: v}
		if rest[0] == "index" {
			e.kind, e.sure = "int", true
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
		if len(rest) == 1 {
			return d.workflow(rest[0])
		}
	}
	return d.cannot(".%s", strings.Join(path, "."))
}

// param is a parameter, with its type if the schema has one.
func (d *translation) param(path []string) (expression, bool) {
	switch len(path) {
	case 0:
		return expression{code: d.converter.params}, true
	case 1:
		return d.converter.param(path[0]), true
	}
	return d.get(d.converter.param(path[0]), path[1:]), true
}

// param is a parameter: read directly if it always exists, with the type of its schema.
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
	e := member(c.params, name, fmt.Sprintf("%s.get(%s)", c.params, starlarkText(name)))
	if fits {
		e.kind = map[string]string{"string": "string", "integer": "number", "number": "number", "boolean": "bool"}[kind]
	}
	if always && e.kind != "" { // null has none of these kinds
		e.code, e.sure = fmt.Sprintf("%s[%s]", c.params, starlarkText(name)), true
	}
	return e
}

// step is a field of a step's state.
func (d *translation) step(path []string) (expression, bool) {
	if len(path) < 2 {
		return d.cannot(".steps.%s as a whole", strings.Join(path, "."))
	}
	state, ok := d.steps[path[0]]
	if !ok {
		return expression{code: "None"}, true
	}
	rest := path[2:]
	d.converter.readsReasons = d.converter.readsReasons || path[1] == "reason"
	switch name := path[1]; {
	case name == "content" && d.converter.givesBlocks(path[0]):
		return d.cannot(".steps.%s.content", path[0])
	case name == "content" && d.converter.asks(path[0]):
		return d.get(expression{code: fmt.Sprintf("content_of(%s)", state.code)}, rest), true
	case name == "output" && state.plain:
		return d.get(expression{code: state.code}, rest), true
	case name == "output":
		e := d.get(member(state.code, name, state.code+`["output"]`), rest)
		if slices.Equal(rest, []string{"action"}) && d.converter.alwaysAsked(path[0]) {
			e.kind = "string"
		}
		return e, true
	case name == "status" && state.plain:
		return d.get(known(`"completed"`, "string"), rest), true
	case name == "error" && state.plain:
		return d.get(known(`""`, "string"), rest), true
	case name == "status" || name == "error":
		return d.get(known(fmt.Sprintf("%s[%q]", state.code, name), "string"), rest), true
	case state.plain || !slices.Contains(stateFields, name):
		return expression{code: "None"}, true
	}
	e := member(state.code, path[1], fmt.Sprintf(`%s.get(%q)`, state.code, path[1]))
	if path[1] != "content" {
		e.kind = "string"
	}
	return d.get(e, rest), true
}

// givesBlocks reports whether the content of a step is the content blocks of its output.
func (c *converter) givesBlocks(id string) bool {
	return slices.ContainsFunc(c.program.Steps, func(n *definitions.Node) bool { return n.ID == id && n.Step.Type.Traits().Blocks })
}

// asks reports whether a step is an elicitation.
func (c *converter) asks(id string) bool {
	return slices.ContainsFunc(c.program.Steps, func(n *definitions.Node) bool { return n.ID == id && n.Step.Type.Traits().Asks })
}

// alwaysAsked reports whether the output of a step is always that of an elicitation,
// so that its action is text.
func (c *converter) alwaysAsked(id string) bool {
	return slices.ContainsFunc(c.program.Definition.Steps, func(s *definitions.Step) bool {
		return s.ID == id && s.Type == definitions.ElicitationStep && !s.DefaultResults.Given
	})
}
