package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/template/parse"
)

// A Result is a value with its type, or an error.
type Result struct {
	Type  string          `json:"type,omitempty"` // of JSON Schema, or missing; "" = an error, or not evaluated
	Value json.RawMessage `json:"value,omitempty"`
	Error string          `json:"error,omitempty"`
}

// An Expression is a part of a template and its value.
type Expression struct {
	Text string `json:"text"`
	Result
	Note  string       `json:"note,omitempty"`  // why a value is missing, which branch is taken
	Parts []Expression `json:"parts,omitempty"` // its operands that are expressions themselves
	Body  []Expression `json:"body,omitempty"`  // the expressions within if, with, range and template
}

// missingType is the type of what has no value.
const missingType = "missing"

// ResultOf is the result of an evaluation; ok = it has a value.
func ResultOf(v any, ok bool, err error) Result {
	if err != nil {
		return Result{Error: err.Error()}
	}
	if !ok || v == nil {
		return Result{Type: missingType}
	}
	encoded, err := EncodeValue(v)
	if err != nil {
		return Result{Error: err.Error()}
	}
	return Result{Type: KindOf(v), Value: encoded}
}

const (
	maxExplained = 500 // expressions explained of one template, within MaxExpansionWork
	maxTurns     = 3   // turns of a loop that are explained
)

// Explain evaluates the expressions of a template one by one. The text
// is one that parses.
func Explain(text string, data any) []Expression {
	main, trees, err := parsed(text)
	if err != nil {
		return []Expression{{Text: text, Result: Result{Error: plainError(err).Error()}}}
	}
	e := &explainer{trees: trees, spent: &effort{}, dot: data, root: data}
	return e.list(main.Root)
}

// An explainer follows a template as executing it does, and evaluates each expression
// as a template of its own, in which the dot, the root and the variables at that
// place are variables.
type explainer struct {
	trees     map[string]*parse.Tree
	spent     *effort
	dot, root any
	vars      []explainedVar
	jump      parse.Node // the break or continue that ended a turn; nil = none
}

// An effort is what explaining a template has cost so far.
type effort struct{ expressions, work int }

type explainedVar struct {
	name  string // with $
	value any
}

// Names of the dot and $ in an expression that is evaluated by itself.
const (
	dotVariable  = "$dot__"
	rootVariable = "$root__"
)

// spend counts an expression, and reports whether it may be explained.
func (e *explainer) spend() bool {
	e.spent.expressions++
	return e.spent.expressions <= maxExplained && e.spent.work <= MaxExpansionWork
}

func (e *explainer) list(list *parse.ListNode) []Expression {
	var all []Expression
	if list == nil {
		return nil
	}
	for _, node := range list.Nodes {
		if e.jump != nil || !e.spend() {
			break
		}
		switch node := node.(type) {
		case *parse.ActionNode:
			all = append(all, e.action(node.Pipe))
		case *parse.TemplateNode:
			all = append(all, e.template(node))
		case *parse.BreakNode, *parse.ContinueNode:
			e.jump = node
		default:
			if branch := branchOf(node); branch != nil {
				all = append(all, e.branch(node, branch))
			}
		}
	}
	return all
}

// action explains a pipeline, and sets the variable that it declares.
func (e *explainer) action(pipe *parse.PipeNode) Expression {
	x, value := e.pipe(pipe)
	e.assign(pipe, value)
	return x
}

func (e *explainer) assign(pipe *parse.PipeNode, values ...any) {
	for i, decl := range pipe.Decl {
		if i >= len(values) {
			return
		}
		if !pipe.IsAssign {
			e.vars = append(e.vars, explainedVar{decl.Ident[0], values[i]})
			continue
		}
		for j := len(e.vars) - 1; j >= 0; j-- {
			if e.vars[j].name == decl.Ident[0] {
				e.vars[j].value = values[i]
				break
			}
		}
	}
}

// pipe explains a pipeline and gives its value.
func (e *explainer) pipe(pipe *parse.PipeNode) (Expression, any) {
	value, err := e.evaluate(pipe.Cmds)
	x := Expression{Text: pipe.String(), Result: ResultOf(value, true, err)}
	if len(pipe.Cmds) == 1 {
		x.Parts = e.operands(pipe.Cmds[0])
		if len(pipe.Cmds[0].Args) == 1 {
			x.Note = e.missing(pipe.Cmds[0].Args[0], value, err)
		}
		return x, value
	}
	for i, cmd := range pipe.Cmds {
		if !e.spend() {
			break
		}
		so, err := e.evaluate(pipe.Cmds[:i+1])
		stage := Expression{Text: cmd.String(), Result: ResultOf(so, true, err), Parts: e.operands(cmd)}
		if i > 0 {
			stage.Text = "| " + stage.Text
		}
		x.Parts = append(x.Parts, stage)
		if err != nil {
			break
		}
	}
	return x, value
}

// operands explains the operands of a command. Operands that and/or do not reach are
// not evaluated.
func (e *explainer) operands(cmd *parse.CommandNode) []Expression {
	args := cmd.Args
	function, isCall := args[0].(*parse.IdentifierNode)
	if isCall {
		args = args[1:]
	} else if chain, ok := args[0].(*parse.ChainNode); ok {
		args = []parse.Node{chain.Node}
	} else if _, ok := args[0].(*parse.PipeNode); !ok {
		return nil // a field, a variable or a literal, which has no parts
	}
	var all []Expression
	decided := false
	for _, arg := range args {
		if !e.spend() {
			break
		}
		if decided {
			all = append(all, Expression{Text: arg.String(), Note: "not evaluated: " + function.Ident + " is decided"})
			continue
		}
		x, value, explained := e.operand(arg)
		if explained {
			all = append(all, x)
		}
		if isCall && x.Error == "" {
			decided = function.Ident == "and" && !isTrue(value) || function.Ident == "or" && isTrue(value)
		}
	}
	return all
}

// operand explains an operand; literals need none.
func (e *explainer) operand(node parse.Node) (x Expression, value any, explained bool) {
	if pipe, ok := node.(*parse.PipeNode); ok {
		x, value = e.pipe(pipe)
		return x, value, true
	}
	value, err := e.evaluate([]*parse.CommandNode{{NodeType: parse.NodeCommand, Args: []parse.Node{node}}})
	x = Expression{Text: node.String(), Result: ResultOf(value, true, err)}
	switch node := node.(type) {
	case *parse.ChainNode:
		if inner, _, ok := e.operand(node.Node); ok {
			x.Parts = []Expression{inner}
		}
		return x, value, true
	case *parse.FieldNode, *parse.VariableNode, *parse.DotNode:
		x.Note = e.missing(node, value, err)
		return x, value, true
	case *parse.IdentifierNode: // a function without arguments
		return x, value, true
	}
	return x, value, false
}

// missing names the first missing member of a path, unless that is its last.
func (e *explainer) missing(node parse.Node, value any, err error) string {
	if value != nil || err != nil {
		return ""
	}
	base, path, prefix := e.dot, []string(nil), ""
	switch node := node.(type) {
	case *parse.FieldNode:
		path = node.Ident
	case *parse.VariableNode:
		base, path, prefix = e.variable(node.Ident[0]), node.Ident[1:], node.Ident[0]
	}
	for _, name := range path[:max(len(path)-1, 0)] {
		prefix += "." + name
		object, _ := base.(map[string]any)
		if base = object[name]; base == nil {
			return prefix + " is missing"
		}
	}
	return ""
}

func (e *explainer) variable(name string) any {
	if name == "$" {
		return e.root
	}
	for i := len(e.vars) - 1; i >= 0; i-- {
		if e.vars[i].name == name {
			return e.vars[i].value
		}
	}
	return nil
}

// evaluate gives the value of a pipeline here.
func (e *explainer) evaluate(cmds []*parse.CommandNode) (any, error) {
	var b strings.Builder
	values := map[string]any{"dot": e.dot, "root": e.root}
	fmt.Fprintf(&b, "{{%s := .dot}}{{%s := .root}}", dotVariable, rootVariable)
	for i, v := range e.vars {
		key := fmt.Sprintf("v%d", i)
		values[key] = v.value
		fmt.Fprintf(&b, "{{%s := .%s}}", v.name, key)
	}
	b.WriteString("{{")
	for i, cmd := range cmds {
		if i > 0 {
			b.WriteString(" | ")
		}
		b.WriteString(rebase(cmd.Copy()).String())
	}
	b.WriteString("}}")
	t, err := parseText(b.String())
	if err != nil {
		return nil, errors.New(err.Message)
	}
	v, work, failed := t.native(values)
	e.spent.work += work
	return v, failed
}

// rebase replaces the dot and $ in a node by their variables.
func rebase(node parse.Node) parse.Node {
	variable := func(names ...string) parse.Node {
		return &parse.VariableNode{NodeType: parse.NodeVariable, Ident: names}
	}
	switch node := node.(type) {
	case *parse.PipeNode:
		for _, cmd := range node.Cmds {
			rebase(cmd)
		}
	case *parse.CommandNode:
		for i, arg := range node.Args {
			node.Args[i] = rebase(arg)
		}
	case *parse.ChainNode:
		node.Node = rebase(node.Node.Copy()) // a copy of a chain shares it
	case *parse.DotNode:
		return variable(dotVariable)
	case *parse.FieldNode:
		return variable(append([]string{dotVariable}, node.Ident...)...)
	case *parse.VariableNode:
		if node.Ident[0] == "$" {
			return variable(append([]string{rootVariable}, node.Ident[1:]...)...)
		}
	}
	return node
}
