package template

import (
	"fmt"
	"text/template/parse"
)

// branch explains if, with and range: the pipeline, and what is executed.
func (e *explainer) branch(node parse.Node, branch *parse.BranchNode) Expression {
	x, value := e.pipe(branch.Pipe)
	word := map[parse.NodeType]string{parse.NodeIf: "if ", parse.NodeWith: "with ", parse.NodeRange: "range "}[node.Type()]
	x.Text = word + x.Text
	dot, vars := e.dot, len(e.vars)
	defer func() { e.dot, e.vars = dot, e.vars[:vars] }()
	switch {
	case x.Error != "":
	case node.Type() == parse.NodeRange:
		e.loop(&x, branch, value)
	case isTrue(value):
		e.assign(branch.Pipe, value)
		if node.Type() == parse.NodeWith {
			e.dot = value
		}
		x.Note, x.Body = "true", e.list(branch.List)
	default:
		e.assign(branch.Pipe, value)
		x.Note, x.Body = "false", e.list(branch.ElseList)
	}
	return x
}

// loop explains the first turns of a loop.
func (e *explainer) loop(x *Expression, branch *parse.BranchNode, value any) {
	keys, values, total := turns(value)
	if total == 0 {
		x.Note, x.Body = "nothing to go through", e.list(branch.ElseList)
		return
	}
	vars := len(e.vars)
	for i := range values {
		e.dot = values[i]
		if len(branch.Pipe.Decl) == 2 {
			e.assign(branch.Pipe, keys[i], values[i])
		} else {
			e.assign(branch.Pipe, values[i])
		}
		turn := Expression{Text: fmt.Sprintf("turn %d of %d", i+1, total), Result: ResultOf(values[i], true, nil), Body: e.list(branch.List)}
		x.Body = append(x.Body, turn)
		_, ended := e.jump.(*parse.BreakNode)
		if e.vars, e.jump = e.vars[:vars], nil; ended {
			break
		}
	}
}

// turns gives the first keys and values of a range, and the total number.
func turns(value any) (keys, values []any, total int) {
	switch value := value.(type) {
	case []any:
		for i, v := range value[:min(len(value), maxTurns)] {
			keys, values = append(keys, int64(i)), append(values, v)
		}
		return keys, values, len(value)
	case map[string]any:
		names := SortedKeys(value)
		for _, name := range names[:min(len(names), maxTurns)] {
			keys, values = append(keys, name), append(values, value[name])
		}
		return keys, values, len(value)
	}
	n, _ := numberOf(value)
	total, _ = n.int()
	for i := range min(max(total, 0), maxTurns) {
		keys, values = append(keys, int64(i)), append(values, int64(i))
	}
	return keys, values, max(total, 0)
}

// template explains a template that is called.
func (e *explainer) template(node *parse.TemplateNode) Expression {
	x := Expression{Text: node.String()}
	var arg any
	if node.Pipe != nil {
		x, arg = e.pipe(node.Pipe)
		x.Text = fmt.Sprintf("template %q %s", node.Name, x.Text)
	}
	if tree := e.trees[node.Name]; tree != nil && x.Error == "" {
		inner := &explainer{trees: e.trees, spent: e.spent, dot: arg, root: arg}
		x.Body = inner.list(tree.Root)
	}
	return x
}
